import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { insertPipeline, insertRelease } from '../merge-requests/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Answer } from '../support/client.ts';
import { untilBlocked } from '../support/locks.ts';

const app = useApp();

const textFile = () => {
  const form = new FormData();
  form.set('file', new File(['hello'], 'note.txt', { type: 'text/plain' }));
  return form;
};

/** Sends the request while a transaction holds the rows and removes the role. Returns the answer after the commit. */
const whileLosing = async (
  tables: Readonly<Record<'namespaces' | 'projects', number | null>>,
  loser: TestUser,
  ask: () => Promise<Answer>,
): Promise<Answer> => {
  const { db } = app().hub.services;
  let answer: Promise<Answer> | null = null;
  await app().settle();
  await db.transaction().execute(async (trx) => {
    for (const [table, id] of Object.entries(tables)) {
      await sql`select 1 from ${sql.table(table)} where id = ${id} for update`.execute(trx);
    }
    await sql`delete from members where user_id = ${loser.id}`.execute(trx);
    if (tables.namespaces !== null)
      await sql`select refresh_namespace_access(array[${tables.namespaces}]::bigint[], null)`.execute(trx);
    answer = ask();
    await untilBlocked(app());
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
      'a label',
      'labels',
      (user, { id }) => app().as(user).post(`/groups/${id}/labels`, { name: 'bug', color: '#ff0000' }),
    ],
    ['a milestone', 'milestones', (user, { id }) => app().as(user).post(`/groups/${id}/milestones`, { title: '1.0' })],
    ['a file', 'uploads', (user, { id }) => app().as(user).post(`/groups/${id}/uploads`, textFile())],
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
    ['a label', (user, path) => app().as(user).post(`${path}/labels`, { name: 'bug', color: '#ff0000' })],
    ['a milestone', (user, path) => app().as(user).post(`${path}/milestones`, { title: '1.0' })],
    ['a file', (user, path) => app().as(user).post(`${path}/uploads`, textFile())],
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
        ['hooks', 'push_rule', 'protected_branches', 'protected_tags', 'labels', 'milestones', 'uploads'].map(
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

  it.each<[string, string, (user: TestUser, path: string) => Promise<Answer>]>([
    ['changing an issue', 'issues/1', (user, path) => app().as(user).put(path, { state_event: 'close' })],
    ['labelling an issue', 'issues/1', (user, path) => app().as(user).put(path, { add_labels: 'mine' })],
    ['deleting an issue', 'issues/1', (user, path) => app().as(user).delete(path)],
    ['changing a label', 'labels/bug', (user, path) => app().as(user).put(path, { description: 'mine' })],
    ['deleting a label', 'labels/bug', (user, path) => app().as(user).delete(path)],
    ['changing a milestone', 'milestones', (user, path) => app().as(user).put(path, { title: 'mine' })],
    ['deleting a milestone', 'milestones', (user, path) => app().as(user).delete(path)],
    ['deleting a file', 'uploads', (user, path) => app().as(user).delete(path)],
    ['changing a release', 'releases/v1', (user, path) => app().as(user).put(path, { name: 'mine' })],
    ['deleting a release', 'releases/v1', (user, path) => app().as(user).delete(path)],
    [
      'adding a link to a release',
      'releases/v1',
      (user, path) => app().as(user).post(`${path}/assets/links`, { name: 'mine', url: 'https://a.example/' }),
    ],
  ])('does not count for %s', async (_what, part, ask) => {
    const [owner, loser] = [await app().make.user(), await app().make.user()];
    const client = app().as(owner);
    const project = await app().make.project({ visibility: 'internal' }, owner);
    const path = `/projects/${project.id}`;
    await client.post(`${path}/labels`, { name: 'bug', color: '#ff0000' });
    const milestone = await client.post(`${path}/milestones`, { title: '1.0' });
    const upload = await client.post(`${path}/uploads`, textFile());
    await client.post(`${path}/issues`, { title: 'one', labels: 'bug' });
    await insertRelease(app().hub.services.db, { project_id: project.id, tag: 'v1' });
    const numbered: Readonly<Record<string, number>> = { milestones: milestone.body.id, uploads: upload.body.id };
    const one = numbered[part] === undefined ? `${path}/${part}` : `${path}/${part}/${numbered[part]}`;
    await app().make.projectMember(project, loser, 50);
    const before = (await client.get(one)).body;
    const answer = await whileLosing({ namespaces: null, projects: project.id }, loser, () => ask(loser, one));
    expect(answer.status).toBe(403);
    expect((await client.get(one)).body).toEqual(before);
  });

  it.each<[string, number, (user: TestUser, path: string, at: string) => Promise<Answer>]>([
    ['changing a merge request', 403, (user, _path, at) => app().as(user).put(at, { add_labels: 'mine' })],
    ['deleting a merge request', 403, (user, _path, at) => app().as(user).delete(at)],
    ['approving', 403, (user, _path, at) => app().as(user).post(`${at}/approve`)],
    ['merging', 401, (user, _path, at) => app().as(user).put(`${at}/merge`)],
    ['auto-merge', 401, (user, _path, at) => app().as(user).put(`${at}/merge`, { auto_merge: true })],
    [
      'cancelling auto-merge',
      401,
      (user, _path, at) => app().as(user).post(`${at}/cancel_merge_when_pipeline_succeeds`),
    ],
    ['rebasing', 403, (user, _path, at) => app().as(user).put(`${at}/rebase`)],
    [
      'opening a merge request',
      403,
      (user, path) =>
        app().as(user).post(`${path}/merge_requests`, { source_branch: 'other', target_branch: 'main', title: 'Mine' }),
    ],
  ])('does not count for %s', async (what, status, ask) => {
    const [owner, loser] = [await app().make.user(), await app().make.user()];
    const client = app().as(owner);
    const project = await app().make.project({ visibility: 'internal', initialize_with_readme: true }, owner);
    const path = `/projects/${project.id}`;
    const { body: commit } = await client.post(`${path}/repository/commits`, {
      branch: 'feature',
      start_branch: 'main',
      commit_message: 'Add',
      actions: [{ action: 'create', file_path: 'a.txt', content: 'a' }],
    });
    await client.post(`${path}/merge_requests`, { source_branch: 'feature', target_branch: 'main', title: 'Add' });
    await app().make.projectMember(project, loser, 50);
    const at = `${path}/merge_requests/1`;
    await app().settle();
    if (what.includes('auto-merge')) {
      const { db } = app().hub.services;
      await insertPipeline(db, { project_id: project.id, sha: commit.id, ref: 'feature', status: 'running' });
    }
    if (what === 'cancelling auto-merge') await client.put(`${at}/merge`, { auto_merge: true });
    const read = async () => {
      const { user: _user, ...body } = (await client.get(at)).body;
      return [
        body,
        (await client.get(`${path}/merge_requests`)).body.length,
        (await client.get(`${at}/approvals`)).body,
      ];
    };
    const before = await read();
    const answer = await whileLosing({ namespaces: null, projects: project.id }, loser, () => ask(loser, path, at));
    expect(answer.status).toBe(status);
    await app().settle();
    expect(await read()).toEqual(before);
  });
});

describe('owners of a group who go at the same moment', () => {
  it('leave one of them there', async () => {
    const [leaving, deleted] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, leaving);
    await app().make.groupMember(group, deleted, 50);
    await app().settle();
    const { db } = app().hub.services;
    // The deletion has found another owner when it waits for the personal namespace.
    const answers = await db.transaction().execute(async (trx) => {
      await sql`select from namespaces where owner_id = ${deleted.id} for update`.execute(trx);
      const deletion = app().as(app().root).delete(`/users/${deleted.id}`);
      await untilBlocked(app());
      const leave = app().as(leaving).delete(`/groups/${group.id}/members/${leaving.id}`);
      await untilBlocked(app(), 2);
      return [deletion, leave];
    });
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([204, 403]);
    const { body } = await app().as(app().root).get(`/groups/${group.id}/members`);
    expect(body).toMatchObject([{ id: leaving.id, access_level: 50 }]);
  });
});
