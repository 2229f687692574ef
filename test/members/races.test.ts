import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Answer } from '../support/client.ts';
import { until } from '../support/until.ts';

const app = useApp();

/** Sends the request while a transaction holds the rows and removes the role. Returns the answer after the commit. */
const whileLosing = async (
  tables: Readonly<Record<'namespaces' | 'projects', number | null>>,
  loser: TestUser,
  ask: () => Promise<Answer>,
): Promise<Answer> => {
  const { db } = app().hub.services;
  const waiting = async () => {
    const { rows } = await sql<{ n: number }>`
      select count(*)::int as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return (rows[0]?.n ?? 0) > 0;
  };
  let answer: Promise<Answer> | null = null;
  await db.transaction().execute(async (trx) => {
    for (const [table, id] of Object.entries(tables)) {
      await sql`select 1 from ${sql.table(table)} where id = ${id} for update`.execute(trx);
    }
    await sql`delete from members where user_id = ${loser.id}`.execute(trx);
    if (tables.namespaces !== null)
      await sql`select refresh_namespace_access(array[${tables.namespaces}]::bigint[], null)`.execute(trx);
    answer = ask();
    await until('the request waits for the lock', waiting);
  });
  if (!answer) throw new Error('nothing was asked');
  return answer;
};

type Place = { readonly id: number };

describe('a role that is lost while a request waits', () => {
  it.each<[string, (user: TestUser, group: Place, other: TestUser) => Promise<Answer>]>([
    [
      'adding a member',
      (user, group, other) =>
        app().as(user).post(`/groups/${group.id}/members`, { user_id: other.id, access_level: 50 }),
    ],
    [
      'inviting',
      (user, group) =>
        app().as(user).post(`/groups/${group.id}/invitations`, { email: 'next@example.net', access_level: 50 }),
    ],
    [
      'sharing',
      async (user, group) => {
        const mine = await app().make.group({}, user);
        return app().as(user).post(`/groups/${group.id}/share`, { group_id: mine.id, group_access: 50 });
      },
    ],
    ['opening', (user, group) => app().as(user).put(`/groups/${group.id}`, { visibility: 'public' })],
    ['deleting', (user, group) => app().as(user).delete(`/groups/${group.id}`)],
  ])('does not count for %s in a group', async (_what, ask) => {
    const [owner, loser, other] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'internal' }, owner);
    await app().make.groupMember(group, loser, 50);
    const answer = await whileLosing({ namespaces: group.id, projects: null }, loser, () => ask(loser, group, other));
    expect(answer.status).toBe(403);
    const members = (await app().as(app().root).get(`/groups/${group.id}/members`)).body;
    expect(members.map(({ id }: Place) => id)).toEqual([owner.id]);
    const { body } = await app().as(app().root).get(`/groups/${group.id}`);
    expect([body.visibility, body.shared_with_groups, body.marked_for_deletion_on]).toEqual(['internal', [], null]);
    expect((await app().as(app().root).get(`/groups/${group.id}/invitations`)).body).toEqual([]);
  });

  it.each<[string, (user: TestUser, project: Place, other: TestUser) => Promise<Answer>]>([
    [
      'adding a member',
      (user, project, other) =>
        app().as(user).post(`/projects/${project.id}/members`, { user_id: other.id, access_level: 40 }),
    ],
    [
      'sharing',
      async (user, project) => {
        const mine = await app().make.group({}, user);
        return app().as(user).post(`/projects/${project.id}/share`, { group_id: mine.id, group_access: 40 });
      },
    ],
    ['opening', (user, project) => app().as(user).put(`/projects/${project.id}`, { visibility: 'public' })],
    ['moving', (user, project) => app().as(user).put(`/projects/${project.id}/transfer`, { namespace: user.username })],
    ['archiving', (user, project) => app().as(user).post(`/projects/${project.id}/archive`)],
    ['deleting', (user, project) => app().as(user).delete(`/projects/${project.id}`)],
  ])('does not count for %s in a project', async (_what, ask) => {
    const [owner, loser, other] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const project = await app().make.project({ visibility: 'internal' }, owner);
    await app().make.projectMember(project, loser, 50);
    const answer = await whileLosing({ namespaces: null, projects: project.id }, loser, () =>
      ask(loser, project, other),
    );
    expect(answer.status).toBe(403);
    const { body } = await app().as(owner).get(`/projects/${project.id}`);
    expect(body).toMatchObject({
      visibility: 'internal',
      archived: false,
      path_with_namespace: project.path_with_namespace,
      shared_with_groups: [],
      marked_for_deletion_on: null,
    });
    const members = (await app().as(owner).get(`/projects/${project.id}/members`)).body;
    expect(members.map(({ id }: Place) => id)).not.toContain(other.id);
  });

  it.each<[string, string, (user: TestUser, group: Place) => Promise<Answer>]>([
    ['a hook', 'hooks', (user, { id }) => app().as(user).post(`/groups/${id}/hooks`, { url: 'https://a.example/' })],
    [
      'a push rule',
      'push_rule',
      (user, { id }) => app().as(user).post(`/groups/${id}/push_rule`, { member_check: true }),
    ],
    [
      'a service account',
      'service_accounts',
      (user, { id }) => app().as(user).post(`/groups/${id}/service_accounts`, { name: 'Mine' }),
    ],
    [
      'a SAML link',
      'saml_group_links',
      (user, { id }) =>
        app().as(user).post(`/groups/${id}/saml_group_links`, { saml_group_name: 'all', access_level: 50 }),
    ],
    [
      'an LDAP link',
      'ldap_group_links',
      (user, { id }) =>
        app().as(user).post(`/groups/${id}/ldap_group_links`, { cn: 'all', group_access: 50, provider: 'ldapmain' }),
    ],
    [
      'a runner',
      'runners',
      (user, { id }) => app().as(user).post('/user/runners', { runner_type: 'group_type', group_id: id }),
    ],
    [
      'a project',
      'projects',
      (user, { id }) => app().as(user).post('/projects', { name: 'Mine', namespace_id: id, visibility: 'private' }),
    ],
    [
      'a fork',
      'projects',
      async (user, { id }) => {
        const source = await app().make.project({ visibility: 'public' }, user);
        return app().as(user).post(`/projects/${source.id}/fork`, { namespace_id: id });
      },
    ],
    [
      'a subgroup',
      'subgroups',
      (user, { id }) =>
        app().as(user).post('/groups', { name: 'Mine', path: 'mine', parent_id: id, visibility: 'private' }),
    ],
  ])('does not count for adding %s to a group', async (what, list, ask) => {
    const root = app().as(app().root);
    await root.put('/application/settings', { allow_group_owners_to_manage_ldap: true });
    const [owner, loser] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'internal' }, owner);
    await app().make.groupMember(group, loser, 50);
    const listed = async () =>
      (await root.get(list === 'runners' ? '/runners/all' : `/groups/${group.id}/${list}`)).body;
    const before = await listed();
    const answer = await whileLosing({ namespaces: group.id, projects: null }, loser, () => ask(loser, group));
    expect([what, answer.status]).toEqual([what, 403]);
    expect(await listed()).toEqual(before);
  });

  it.each<[string, (user: TestUser, path: string, project: Place) => Promise<Answer>]>([
    ['a hook', (user, path) => app().as(user).post(`${path}/hooks`, { url: 'https://a.example/' })],
    ['a push rule', (user, path) => app().as(user).post(`${path}/push_rule`, { member_check: true })],
    ['a protected branch', (user, path) => app().as(user).post(`${path}/protected_branches`, { name: 'stable' })],
    ['a protected tag', (user, path) => app().as(user).post(`${path}/protected_tags`, { name: 'v*' })],
    [
      'a runner',
      (user, _path, { id }) => app().as(user).post('/user/runners', { runner_type: 'project_type', project_id: id }),
    ],
  ])('does not count for adding %s to a project', async (_what, ask) => {
    const [owner, loser] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({ visibility: 'internal' }, owner);
    const path = `/projects/${project.id}`;
    await app().make.projectMember(project, loser, 50);
    const listed = async () =>
      Promise.all(
        ['hooks', 'push_rule', 'protected_branches', 'protected_tags'].map(
          async (list) => (await app().as(owner).get(`${path}/${list}`)).body,
        ),
      );
    const before = await listed();
    const answer = await whileLosing({ namespaces: null, projects: project.id }, loser, () =>
      ask(loser, path, project),
    );
    expect(answer.status).toBe(403);
    expect(await listed()).toEqual(before);
  });

  it.each<[string, (user: TestUser, path: string, hook: number) => Promise<Answer>]>([
    ['changing', (user, path, hook) => app().as(user).put(`${path}/hooks/${hook}`, { url: 'https://b.example/' })],
    ['deleting', (user, path, hook) => app().as(user).delete(`${path}/hooks/${hook}`)],
    [
      'giving a header to',
      (user, path, hook) => app().as(user).put(`${path}/hooks/${hook}/custom_headers/X-A`, { value: 'b' }),
    ],
  ])('does not count for %s a hook', async (_what, ask) => {
    const [owner, loser] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({ visibility: 'internal' }, owner);
    const path = `/projects/${project.id}`;
    const { body: hook } = await app().as(owner).post(`${path}/hooks`, { url: 'https://a.example/' });
    await app().make.projectMember(project, loser, 50);
    const answer = await whileLosing({ namespaces: null, projects: project.id }, loser, () =>
      ask(loser, path, hook.id),
    );
    expect(answer.status).toBe(403);
    const { body } = await app().as(owner).get(`${path}/hooks/${hook.id}`);
    expect([body.url, body.custom_headers]).toEqual(['https://a.example/', []]);
  });
});
