import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { KINDS, makeTracked } from './support.ts';

const app = useApp();

describe.each(KINDS)('the participants of %s', (kind) => {
  it('are author, assignees and the authors of comments that the caller can read', async () => {
    const { maintainer, planner, reporter, guest, stranger, owner, people, paths } = await makeTracked(app());
    const at = paths[kind];
    await owner.put(at, { assignee_ids: [people.owner.id] });
    await reporter.post(`${at}/notes`, { body: 'Hello' });
    const internal = kind === 'issues' ? owner.post.bind(owner) : null;
    await internal?.(`${at}/notes`, { body: 'A secret', internal: true });
    const ids = async (client: typeof owner) =>
      (await client.get(`${at}/participants`)).body.map(({ id }: { id: number }) => id);
    const all = [people.owner.id, people.maintainer.id, people.reporter.id].sort((a, b) => a - b);
    expect(await ids(maintainer)).toEqual(all);
    expect((await maintainer.get(`${at}/participants?per_page=1&page=2`)).body).toMatchObject([{ id: all[1] }]);
    expect((await stranger.get(`${at}/participants`)).status).toBe(404);
    if (kind === 'issues') {
      await owner.put(at, { assignee_ids: [] });
      expect(await ids(guest)).toEqual(all.filter((id) => id !== people.owner.id));
      expect(await ids(planner)).not.toContain(people.planner.id);
    }
  });
});

describe.each(KINDS)('a subscription to %s', (kind) => {
  it('begins for those who take part, and for others when they subscribe', async () => {
    const { maintainer, reporter, stranger, paths } = await makeTracked(app());
    const at = paths[kind];
    expect((await maintainer.get(at)).body.subscribed).toBe(true);
    expect((await reporter.get(at)).body.subscribed).toBe(false);
    expect((await maintainer.post(`${at}/subscribe`)).status).toBe(304);
    expect(await reporter.post(`${at}/subscribe`)).toMatchObject({ status: 201, body: { subscribed: true } });
    expect((await reporter.post(`${at}/subscribe`)).status).toBe(304);
    expect(await maintainer.post(`${at}/unsubscribe`)).toMatchObject({ status: 201, body: { subscribed: false } });
    expect((await maintainer.post(`${at}/unsubscribe`)).status).toBe(304);
    expect((await maintainer.get(at)).body.subscribed).toBe(false);
    expect((await reporter.get(at)).body.subscribed).toBe(true);
    for (const verb of ['subscribe', 'unsubscribe']) {
      expect((await stranger.post(`${at}/${verb}`)).status).toBe(404);
      expect((await app().anonymous.post(`${at}/${verb}`)).status).toBe(401);
    }
  });
});

describe('reviewers', () => {
  it('are listed with the state of their review', async () => {
    const { owner, stranger, people, paths } = await makeTracked(app());
    const at = paths.merge_requests;
    await owner.put(at, { reviewer_ids: [people.owner.id, people.reporter.id] });
    const found = await owner.get(`${at}/reviewers`);
    const created_at = expect.stringMatching(/Z$/);
    expect(found.body).toEqual([
      { user: expect.objectContaining({ id: people.owner.id }), state: 'unreviewed', created_at },
      { user: expect.objectContaining({ id: people.reporter.id }), state: 'unreviewed', created_at },
    ]);
    expect((await stranger.get(`${at}/reviewers`)).status).toBe(404);
  });
});
