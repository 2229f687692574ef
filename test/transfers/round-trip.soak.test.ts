import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { packProject, readTree } from './archive.ts';
import { downloadExport, runImport } from './support.ts';

const app = useApp();

let copies = 0;

/** Exports the project and imports it again. Returns the path of the copy's resources. */
const roundTrip = async (user: TestUser, projectId: number): Promise<string> => {
  const { bytes } = await downloadExport(app(), user, projectId);
  const { id } = await runImport(app(), user, bytes, { path: `copy-${copies++}` });
  return `/projects/${id}`;
};

describe('an export and its import', () => {
  it('keep the default branch, although another one has the same commit', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const path = `/projects/${project.id}`;
    await client.post(`${path}/repository/branches`, { branch: 'develop/ü', ref: 'main' });
    await client.put(path, { default_branch: 'develop/ü' });
    const copy = await roundTrip(owner, project.id);
    expect((await client.get(copy)).body.default_branch).toBe('develop/ü');
  });

  it('keep the default branch of an empty repository', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ default_branch: 'trunk' }, owner);
    const copy = await roundTrip(owner, project.id);
    expect((await app().as(owner).get(copy)).body).toMatchObject({ default_branch: 'trunk', empty_repo: true });
  });

  it('ignore a default branch that cannot be one', async () => {
    const owner = await app().make.user();
    for (const default_branch of ['a..b', 7, 'x'.repeat(300)]) {
      const archive = await packProject({}, { 'tree/project.json': JSON.stringify({ default_branch }) });
      const { id } = await runImport(app(), owner, archive, { path: `copy-${copies++}` });
      expect((await app().as(owner).get(`/projects/${id}`)).body.default_branch).toBe('main');
    }
  });

  it('keep invitations, which are accepted by the users of their addresses', async () => {
    const { root } = app();
    const client = app().as(root);
    const project = await app().make.project({}, root);
    const path = `/projects/${project.id}`;
    for (const name of ['one', 'two'])
      await client.post(`${path}/invitations`, {
        email: `${name}@example.com`,
        access_level: 30,
        expires_at: '2099-01-01',
      });
    const { bytes } = await downloadExport(app(), root, project.id);
    const { project_members } = await readTree(bytes);
    for (const invite_email of ['one@example.com', 'two@example.com', null])
      expect(project_members).toContainEqual(expect.objectContaining({ invite_email }));
    const copy = await roundTrip(root, project.id);
    const invitations = async () => (await client.get(`${copy}/invitations`)).body;
    expect(await invitations()).toMatchObject([
      { invite_email: 'two@example.com', access_level: 30, expires_at: '2099-01-01' },
      { invite_email: 'one@example.com', access_level: 30, expires_at: '2099-01-01' },
    ]);
    const email = 'one@example.com';
    const { body: user } = await client.post('/users', {
      ...{ email, public_email: email, username: 'one', name: 'One' },
      ...{ force_random_password: true, skip_confirmation: true },
    });
    await app().settle();
    expect((await app().as(user).get(copy)).status).toBe(200);
    expect(await invitations()).toMatchObject([{ invite_email: 'two@example.com' }]);
  });

  it('count only the members that were imported', async () => {
    const owner = await app().make.user();
    const line = (id: number) => ({ access_level: 30, user: { id, username: 'x', public_email: `${id}@example.com` } });
    const archive = await packProject({ project_members: [line(1), { ...line(2), requested_at: '2026-01-01' }] });
    for (const importer of [owner, app().root]) {
      const { id } = await runImport(app(), importer, archive, { path: `copy-${copies++}` });
      const { stats } = (await app().as(importer).get(`/projects/${id}/import`)).body;
      expect(stats.fetched.member).toBe(2);
      expect(stats.imported.member ?? 0).toBe(0);
    }
  });

  it('lead to a new check of open merge requests, with the code owners', async () => {
    const { root } = app();
    const client = app().as(root);
    const owner = await app().make.user({ public_email: 'owner@example.com', email: 'owner@example.com' });
    const project = await app().make.project({ initialize_with_readme: true }, root);
    const path = `/projects/${project.id}`;
    await app().make.projectMembers(project, [[owner, 40]]);
    const commit = (branch: string, file_path: string, content: string) =>
      client.post(`${path}/repository/commits`, {
        branch,
        start_branch: 'main',
        commit_message: 'Add a file',
        actions: [{ action: 'create', file_path, content }],
      });
    await commit('main', 'CODEOWNERS', `*.rb @${owner.username}\n`);
    await commit('topic', 'a.rb', 'text\n');
    await client.post(`${path}/repository/branches`, { branch: 'gone', ref: 'main' });
    await client.delete(`${path}/protected_branches/main`);
    await client.post(`${path}/protected_branches`, { name: 'main', code_owner_approval_required: true });
    for (const target_branch of ['main', 'gone'])
      await client.post(`${path}/merge_requests`, { source_branch: 'topic', target_branch, title: target_branch });
    await app().settle();
    await client.delete(`${path}/repository/branches/gone`);
    await app().settle();
    const copy = await roundTrip(root, project.id);
    await client.get(`${copy}/merge_requests/1`);
    await client.get(`${copy}/merge_requests/2`);
    await app().settle();
    expect((await client.get(`${copy}/merge_requests/1`)).body.detailed_merge_status).toBe('not_approved');
    expect((await client.get(`${copy}/merge_requests/1/approval_state`)).body.rules).toMatchObject([
      { rule_type: 'code_owner', name: '*.rb' },
    ]);
    expect((await client.get(`${copy}/merge_requests/2`)).body.detailed_merge_status).toBe('commits_status');
  });

  it('keep what merge requests close and mention, with one note for each', async () => {
    const { root } = app();
    const client = app().as(root);
    const project = await app().make.project({ initialize_with_readme: true }, root);
    const path = `/projects/${project.id}`;
    for (const title of ['One', 'Two']) await client.post(`${path}/issues`, { title });
    await client.post(`${path}/repository/branches`, { branch: 'topic', ref: 'main' });
    const branches = { source_branch: 'topic', target_branch: 'main' };
    await client.post(`${path}/merge_requests`, { ...branches, title: 'Topic', description: 'Closes #1, see #2' });
    await app().settle();
    const copy = await roundTrip(root, project.id);
    await client.post(`${copy}/merge_requests/1/notes`, { body: 'A comment' });
    await app().settle();
    for (const from of [path, copy]) {
      const iids = async (list: string) =>
        (await client.get(`${from}/issues/${list}`)).body.map(({ iid }: { iid: number }) => iid);
      expect(await iids('1/closed_by')).toEqual([1]);
      expect(await iids('2/closed_by')).toEqual([]);
      expect(await iids('2/related_merge_requests')).toEqual([1]);
      const { body: notes } = await client.get(`${from}/issues/2/notes`);
      expect(notes).toMatchObject([{ body: 'mentioned in merge request !1' }]);
    }
  });

  it('show no export over GraphQL while exports are turned off', async () => {
    const { root } = app();
    const project = await app().make.project({}, root);
    await downloadExport(app(), root, project.id);
    const query = 'query ($path: ID!) { project(fullPath: $path) { export { status downloadUrl } } }';
    const read = async () =>
      (await app().as(root).graphql(query, { path: project.path_with_namespace })).data.project.export;
    expect(await read()).toMatchObject({ status: 'FINISHED' });
    await app().as(root).put('/application/settings', { project_export_enabled: false });
    expect(await read()).toBeNull();
    await app().as(root).put('/application/settings', { project_export_enabled: true });
  });
});
