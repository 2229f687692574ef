import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { useApp } from '../support/app.ts';
import { findEvents } from './find-events.ts';

const app = useApp();

describe('events of groups', () => {
  it('record every change, and reach the hooks of parent groups for subgroups', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const client = as(owner);
    const top = await make.group({ name: 'Top' }, owner);
    const child = await make.group({ name: 'Child', path: 'child', parent_id: top.id }, owner);
    await client.put(`/groups/${child.id}`, { name: 'Renamed', lfs_enabled: false });
    await client.put(`/groups/${child.id}`, { name: 'Renamed' });
    const project = await make.project({ namespace_id: child.id }, owner);
    await client.delete(`/groups/${child.id}`);
    const events = await findEvents(app(), 'Group', child.id);
    expect(events.map((event) => event.kind)).toEqual(['group.created', 'group.updated', 'group.deleted']);
    for (const event of events) {
      expect([event.actor_id, event.namespace_ids]).toEqual([owner.id, [top.id, child.id]]);
    }
    expect(events[0]?.payload).toMatchObject({ name: 'Child', owner_id: owner.id, parent: { id: top.id } });
    expect(events[1]?.payload).toMatchObject({
      changes: { name: { previous: 'Child', current: 'Renamed' }, lfs_enabled: { previous: true, current: false } },
    });
    expect(events[2]?.payload).toMatchObject({ projects: [{ id: project.id }] });

    const bodies = await Promise.all(
      events.map(async (event) => {
        const definition = eventDefinitions.find((each) => each.kind === event.kind);
        return [definition?.trigger(event.payload), await definition?.body(app().context(), event)];
      }),
    );
    const body = {
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      updated_at: expect.any(String),
      event_name: 'subgroup_create',
      name: 'Child',
      path: 'child',
      full_path: `${top.path}/child`,
      group_id: child.id,
      parent_group_id: top.id,
      parent_name: 'Top',
      parent_path: top.path,
      parent_full_path: top.path,
    };
    expect(bodies).toEqual([
      ['subgroup_events', body],
      [null, null],
      ['subgroup_events', { ...body, event_name: 'subgroup_destroy', name: 'Renamed' }],
    ]);
  });

  it('are not written for refused changes', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const group = await make.group({}, owner);
    const guest = await make.user();
    await make.groupMember(group, guest, 10);
    await as(guest).put(`/groups/${group.id}`, { name: 'x' });
    await as(owner).put(`/groups/${group.id}`, { path: 'api' });
    expect((await findEvents(app(), 'Group', group.id)).map((event) => event.kind)).toEqual(['group.created']);
  });
});
