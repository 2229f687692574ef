import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { removeDueGroups } from '#domains/groups/deletion.ts';
import { useApp } from '../support/app.ts';
import { findEvents } from './find-events.ts';

const app = useApp();
const db = () => app().hub.services.db;
const period = (days: number) => app().as(app().root).put('/application/settings', { deletion_adjourned_period: days });

beforeAll(async () => {
  await period(7);
});
afterAll(async () => {
  await period(0);
});

describe('DELETE /groups/:id with a restore period', () => {
  it('marks the group, which stays readable and accepts nothing new', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const child = await app().make.group({ parent_id: group.id }, owner);
    expect((await client.delete(`/groups/${group.id}`)).status).toBe(202);
    const { body } = await client.get(`/groups/${group.id}`);
    expect(body.marked_for_deletion_on).toMatch(/^\d{4}-\d\d-\d\d$/);
    const marked = await client.get(`/groups?marked_for_deletion_on=${body.marked_for_deletion_on}`);
    expect(marked.body.map((each: { id: number }) => each.id)).toEqual([group.id]);
    expect((await client.post('/groups', { name: 'Fresh', path: 'fresh', parent_id: group.id })).status).toBe(403);
    expect((await client.post('/projects', { name: 'fresh', namespace_id: child.id })).status).toBe(403);
    expect((await client.delete(`/groups/${group.id}`)).status).toBe(400);
    const events = await findEvents(app(), 'Group', group.id);
    expect(events.map(({ kind }) => kind)).toEqual(['group.created', 'group.marked_for_deletion']);
  });

  it('is for Owners, and does not reveal the group to strangers', async () => {
    const [owner, maintainer, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, owner);
    await app().make.groupMember(group, maintainer, 40);
    for (const path of ['', '/restore']) {
      const method = path === '' ? 'DELETE' : 'POST';
      expect((await app().as(maintainer).request(method, `/groups/${group.id}${path}`)).status).toBe(403);
      expect((await app().as(stranger).request(method, `/groups/${group.id}${path}`)).status).toBe(404);
      expect((await app().anonymous.request(method, `/groups/${group.id}${path}`)).status).toBe(401);
    }
    expect((await app().as(owner).get(`/groups/${group.id}`)).body.marked_for_deletion_on).toBeNull();
  });

  it('can be undone', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    expect((await client.post(`/groups/${group.id}/restore`)).status).toBe(400);
    await client.delete(`/groups/${group.id}`);
    const restored = await client.post(`/groups/${group.id}/restore`);
    expect(restored.status).toBe(201);
    expect(restored.body.marked_for_deletion_on).toBeNull();
    expect((await client.post('/projects', { name: 'again', namespace_id: group.id })).status).toBe(201);
    const kinds = (await findEvents(app(), 'Group', group.id)).map(({ kind }) => kind);
    expect(kinds).toEqual(['group.created', 'group.marked_for_deletion', 'group.restored']);
  });

  it('removes a marked group at once if the caller repeats its path', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const remove = (full_path: string) => client.delete(`/groups/${group.id}`, { permanently_remove: true, full_path });
    expect((await remove(group.full_path)).status).toBe(400);
    expect((await client.delete(`/groups/${group.id}?full_path=&permanently_remove=`)).status).toBe(202);
    expect((await remove('another')).status).toBe(400);
    expect((await remove('')).status).toBe(400);
    expect((await client.get(`/groups/${group.id}`)).status).toBe(200);
    expect((await remove(group.full_path)).status).toBe(202);
    expect((await client.get(`/groups/${group.id}`)).status).toBe(404);
  });

  it('removes marked groups once the period is over, and not before', async () => {
    const owner = await app().make.user();
    const [due, early, restored] = [
      await app().make.group({}, owner),
      await app().make.group({}, owner),
      await app().make.group({}, owner),
    ];
    const child = await app().make.group({ parent_id: due.id }, owner);
    for (const { id } of [due, early, restored]) await app().as(owner).delete(`/groups/${id}`);
    await app().as(owner).post(`/groups/${restored.id}/restore`);
    const markedAgo = (id: number, days: number) =>
      sql`update namespaces set marked_for_deletion_on = current_date - ${days}::int where id = ${id}`.execute(db());
    await markedAgo(due.id, 7);
    await markedAgo(early.id, 6);
    await removeDueGroups(app().context());
    const left = await db()
      .selectFrom('namespaces')
      .select('id')
      .where('id', 'in', [due.id, early.id, restored.id, child.id])
      .orderBy('id')
      .execute();
    expect(left.map(({ id }) => id)).toEqual([early.id, restored.id]);
    expect((await findEvents(app(), 'Group', child.id)).map(({ kind }) => kind)).toContain('group.deleted');
  });

  it('does the same over GraphQL', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const run = async (mutation: string, more = '') => {
      const { data } = await client.graphql(
        `mutation { ${mutation}(input: { fullPath: "${group.full_path}" ${more} }) { errors group { markedForDeletionOn } } }`,
      );
      return data[mutation];
    };
    expect((await run('groupDelete')).group.markedForDeletionOn).toMatch(/^\d{4}/);
    expect((await run('groupRestore')).group.markedForDeletionOn).toBeNull();
    expect((await run('groupDelete', 'permanentlyRemove: true')).errors).toHaveLength(1);
    await run('groupDelete');
    expect(await run('groupDelete', 'permanentlyRemove: true')).toEqual({ errors: [], group: null });
  });
});
