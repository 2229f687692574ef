import { beforeAll, describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { audiencesOf } from '#domains/events/audience.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup } from '../support/factories.ts';

const app = useApp();
const { audienceOf, eventsSeenBy } = audiencesOf(eventDefinitions);
let owner: TestUser;
let member: TestUser;
let stranger: TestUser;
let group: TestGroup;
let secret: TestGroup;

beforeAll(async () => {
  const { make } = app();
  [owner, member, stranger] = await Promise.all([make.user(), make.user(), make.user()]);
  group = await make.group({ visibility: 'public' }, owner);
  secret = await make.group({ visibility: 'private' }, owner);
  await make.groupMember(group, member, 20);
});

const actorOf = ({ id, username }: TestUser): Actor => ({ ...anonymous, userId: id, username });

/** The events that were checked so far. */
const everyEvent: EventRow[] = [];

/** Returns which of owner, member, stranger and an anonymous caller see the event. */
const seenBy = async (event: EventRow | undefined): Promise<string[]> => {
  if (!event) throw new Error('there is no such event');
  const viewers = [actorOf(owner), actorOf(member), actorOf(stranger), anonymous];
  const seeing = await audienceOf(app().context(), viewers, event);
  // History is checked in pages. Each viewer must see the same there, even among events from elsewhere.
  const page = [...everyEvent, event];
  for (const [index, viewer] of viewers.entries()) {
    const seen = await eventsSeenBy(app().context(), viewer, page);
    expect(seen.has(page.length - 1)).toBe(seeing.has(index));
    for (const [n, other] of everyEvent.entries()) {
      expect(seen.has(n)).toBe((await audienceOf(app().context(), [viewer], other)).has(0));
    }
  }
  everyEvent.push(event);
  return ['owner', 'member', 'stranger', 'anonymous'].filter((_, index) => seeing.has(index));
};

const lastOf = async (type: string, id: number, kind: string): Promise<EventRow | undefined> =>
  (await findEvents(app(), type, id)).findLast((event) => event.kind === kind);

describe('the audience of an event', () => {
  it('is everyone for records that everyone can read', async () => {
    await app().as(owner).put(`/groups/${group.id}`, { description: 'Open to all' });
    expect(await seenBy(await lastOf('Group', group.id, 'group.updated'))).toEqual([
      'owner',
      'member',
      'stranger',
      'anonymous',
    ]);
  });

  it('does not learn values that only owners may read', async () => {
    await app().as(owner).put(`/groups/${group.id}`, { ip_restriction_ranges: '127.0.0.0/8' });
    const event = await lastOf('Group', group.id, 'group.updated');
    expect(event?.payload).toMatchObject({ changes: { ip_restriction_ranges: { previous: null, current: null } } });
    expect(JSON.stringify(event)).not.toContain('127.0.0.0');
  });

  it('is only the owners for shares, which name groups that others must not know about', async () => {
    const client = app().as(owner);
    await client.post(`/groups/${group.id}/share`, { group_id: secret.id, group_access: 10 });
    await client.delete(`/groups/${group.id}/share/${secret.id}`);
    expect(await seenBy(await lastOf('Group', group.id, 'group.shared'))).toEqual(['owner']);
    expect(await seenBy(await lastOf('Group', group.id, 'group.unshared'))).toEqual(['owner']);

    const project = await app().make.project({ namespace_id: group.id, visibility: 'public' }, owner);
    await client.post(`/projects/${project.id}/share`, { group_id: secret.id, group_access: 10 });
    await client.delete(`/projects/${project.id}/share/${secret.id}`);
    expect(await seenBy(await lastOf('Project', project.id, 'project.shared'))).toEqual(['owner']);
    expect(await seenBy(await lastOf('Project', project.id, 'project.unshared'))).toEqual(['owner']);
  });

  it('is the members and the affected user for memberships', async () => {
    const { as, hub } = app();
    await as(owner).post(`/groups/${secret.id}/members`, { user_id: stranger.id, access_level: 10 });
    const { id } = await hub.services.db
      .selectFrom('members')
      .select('id')
      .where('user_id', '=', stranger.id)
      .executeTakeFirstOrThrow();
    await as(owner).delete(`/groups/${secret.id}/members/${stranger.id}`);
    expect(await seenBy(await lastOf('GroupMember', id, 'member.removed'))).toEqual(['owner', 'stranger']);

    const joins = await app().make.user();
    await as(owner).post(`/groups/${group.id}/members`, { user_id: joins.id, access_level: 10 });
    const row = await hub.services.db
      .selectFrom('members')
      .select('id')
      .where('user_id', '=', joins.id)
      .executeTakeFirstOrThrow();
    expect(await seenBy(await lastOf('GroupMember', row.id, 'member.added'))).toEqual(['owner', 'member']);
  });

  it('is the members of the remaining parent for deleted records', async () => {
    const child = await app().make.group({ parent_id: group.id, visibility: 'public' }, owner);
    const project = await app().make.project({ namespace_id: child.id, visibility: 'public' }, owner);
    await app().as(owner).delete(`/projects/${project.id}`);
    expect(await seenBy(await lastOf('Project', project.id, 'project.deleted'))).toEqual(['owner', 'member']);
    await app().as(owner).delete(`/groups/${child.id}`);
    expect(await seenBy(await lastOf('Group', child.id, 'group.deleted'))).toEqual(['owner', 'member']);
    expect(await seenBy(await lastOf('Project', project.id, 'project.deleted'))).toEqual(['owner', 'member']);
  });

  it('excludes the users named in an event once they lose access to its project', async () => {
    const { make, as, hub } = app();
    const author = await make.user();
    const project = await make.project({ namespace_id: secret.id }, owner);
    await make.projectMember(project, author, 10);
    await as(owner).put(`/projects/${project.id}`, { description: 'x' });
    const event = await lastOf('Project', project.id, 'project.updated');
    if (!event) throw new Error('there is no such event');
    const confidential = { ...event, min_access_level: 15, user_ids: [author.id] };
    const sees = async () => (await audienceOf(app().context(), [actorOf(author)], confidential)).size;
    expect(await sees()).toBe(1);
    await hub.services.db.deleteFrom('members').where('project_id', '=', project.id).execute();
    expect(await sees()).toBe(0);
  });

  it('is the user and administrators for an account, and both users for a follow', async () => {
    const admin = app().as(app().root);
    await admin.post(`/users/${member.id}/block`);
    await admin.post(`/users/${member.id}/unblock`);
    for (const kind of ['user.blocked', 'user.unblocked']) {
      const event = await lastOf('User', member.id, kind);
      expect([kind, await seenBy(event)]).toEqual([kind, ['member']]);
      if (!event) continue;
      expect(await audienceOf(app().context(), [{ ...actorOf(app().root), isAdmin: true }], event)).toEqual(
        new Set([0]),
      );
    }
    await app().as(member).post(`/users/${owner.id}/follow`);
    expect(await seenBy(await lastOf('User', owner.id, 'user.followed'))).toEqual(['owner', 'member']);
  });

  it('is the owners for a group runner, and only administrators for an instance runner', async () => {
    const create = async (user: TestUser, input: Record<string, unknown>) => {
      const { body } = await app().as(user).post('/user/runners', input);
      return lastOf('Runner', body.id, 'runner.created');
    };
    expect(await seenBy(await create(owner, { runner_type: 'group_type', group_id: group.id }))).toEqual(['owner']);
    expect(await seenBy(await create(app().root, { runner_type: 'instance_type' }))).toEqual([]);
  });
});
