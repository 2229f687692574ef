import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { KINDS, makeTracked } from './support.ts';

const app = useApp();

describe.each(KINDS)('the resource events of %s', (kind) => {
  it('record state, labels and milestone', async () => {
    const { owner, stranger, people, path, paths } = await makeTracked(app());
    const at = paths[kind];
    const milestone = await owner.post(`${path}/milestones`, { title: 'One' });
    await owner.put(at, { labels: 'bug', milestone_id: milestone.body.id });
    await owner.put(at, { labels: '', milestone_id: 0 });
    await owner.put(at, { state_event: 'close' });
    const { id } = (await owner.get(at)).body;
    const common = {
      id: expect.any(Number),
      user: expect.objectContaining({ id: people.owner.id }),
      created_at: expect.stringMatching(/Z$/),
      resource_type: kind === 'issues' ? 'Issue' : 'MergeRequest',
      resource_id: id,
    };
    const expected = {
      state: [{ ...common, state: 'closed' }],
      label: ['add', 'remove'].map((action) => ({
        ...common,
        action,
        label: expect.objectContaining({ name: 'bug', color: expect.any(String) }),
      })),
      milestone: ['add', 'remove'].map((action) => ({
        ...common,
        action,
        milestone: expect.objectContaining({ title: 'One' }),
      })),
    };
    for (const [name, events] of Object.entries(expected)) {
      const all = await owner.get(`${at}/resource_${name}_events`);
      expect(all.body).toEqual(events);
      const [first] = all.body;
      expect((await owner.get(`${at}/resource_${name}_events/${first.id}`)).body).toEqual(first);
      expect((await owner.get(`${at}/resource_${name}_events/${first.id + 1_000_000}`)).status).toBe(404);
      expect((await owner.get(`${at}/resource_${name}_events?per_page=1`)).body).toEqual([first]);
      expect((await stranger.get(`${at}/resource_${name}_events`)).status).toBe(404);
      expect((await stranger.get(`${at}/resource_${name}_events/${first.id}`)).status).toBe(404);
    }
    const other = (await owner.get(`${at}/resource_state_events`)).body[0].id;
    expect((await owner.get(`${at}/resource_label_events/${other}`)).status).toBe(404);
  });
});
