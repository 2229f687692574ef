import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
let owner: TestUser;
let api: InstanceType<typeof Gitlab>;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
});
afterAll(() => front.close());

const names = (all: readonly { readonly name: unknown }[]) => all.map(({ name }) => name);

describe('gitbeaker', () => {
  it('lists, searches, creates and deletes branches', async () => {
    const { id } = await app().make.project({ initialize_with_readme: true }, owner);
    for (const name of ['feature/one', 'feature/two', 'v1.x', 'feat#3']) {
      expect(await api.Branches.create(id, name, 'main')).toMatchObject({ name, merged: false, can_push: true });
    }
    expect(await api.Branches.show(id, 'feature/one')).toMatchObject({ name: 'feature/one', default: false });
    expect((await api.Branches.show(id, 'feat#3')).name).toBe('feat#3');
    const all = ['feat#3', 'feature/one', 'feature/two', 'main', 'v1.x'];
    expect(names(await api.Branches.all(id, { perPage: 2, pagination: 'offset' }))).toEqual(all);
    expect(names(await api.Branches.all(id, { perPage: 2, pagination: 'keyset' }))).toEqual(all);
    expect(names(await api.Branches.all(id, { search: '^feature' }))).toEqual(['feature/one', 'feature/two']);
    expect(names(await api.Branches.all(id, { regex: '^v[0-9]+' }))).toEqual(['v1.x']);
    await expect(api.Branches.all(id, { regex: '(' })).rejects.toMatchObject({
      cause: { description: expect.stringContaining('regex is invalid') },
    });
    await expect(api.Branches.create(id, 'feature/one', 'main')).rejects.toMatchObject({
      cause: { description: 'Branch already exists' },
    });
    await api.Branches.remove(id, 'feature/one');
    await api.RepositoryFiles.create(id, 'on', 'main', 'x', 'Move on');
    await api.Branches.removeMerged(id);
    await app().settle();
    expect(names(await api.Branches.all(id))).toEqual(['main']);
  });

  it('protects branches', async () => {
    const { id } = await app().make.project({ initialize_with_readme: true }, owner);
    const other = await app().make.user();
    await app().make.projectMember({ id }, other, 30);
    const made = await api.ProtectedBranches.protect(id, 'release/*', {
      pushAccessLevel: 0,
      mergeAccessLevel: 40,
      allowedToMerge: [{ userId: other.id }],
      allowForcePush: true,
    });
    expect(made).toMatchObject({
      name: 'release/*',
      push_access_levels: [{ access_level: 0, access_level_description: 'No one' }],
      merge_access_levels: [{ access_level: 40 }, { user_id: other.id }],
      allow_force_push: true,
    });
    const { body } = await app()
      .as(owner)
      .get(`/projects/${id}/protected_branches/${encodeURIComponent('release/*')}`);
    expect(
      await api.ProtectedBranches.edit(id, 'release/*', {
        allowForcePush: false,
        allowedToPush: [{ id: body.push_access_levels[0].id, accessLevel: 30 }],
      }),
    ).toMatchObject({ allow_force_push: false, push_access_levels: [{ access_level: 30 }] });
    expect((await api.ProtectedBranches.show(id, 'release/*')).push_access_levels).toHaveLength(1);
    expect(names(await api.ProtectedBranches.all(id, { search: 'rel' }))).toEqual(['release/*']);
    await api.ProtectedBranches.unprotect(id, 'release/*');
    expect(names(await api.ProtectedBranches.all(id))).toEqual(['main']);
  });

  it('reports commit statuses', async () => {
    const { id } = await app().make.project({ initialize_with_readme: true }, owner);
    const sha = String((await api.Branches.show(id, 'main')).commit.id);
    const status = await api.Commits.editStatus(id, sha, 'running', {
      context: 'ci/build',
      targetUrl: 'https://ci.example.com/1',
      coverage: 12.5,
    });
    expect(status).toMatchObject({ name: 'ci/build', status: 'running', coverage: 12.5, ref: 'main' });
    await api.Commits.editStatus(id, sha, 'success', { name: 'ci/build' });
    expect(await api.Commits.allStatuses(id, sha)).toMatchObject([{ id: status.id, status: 'success' }]);
  });

  it('creates, lists and removes project aliases', async () => {
    const project = await app().make.project({}, owner);
    const admin = new Gitlab({ host: front.url, token: await app().tokenOf(app().root) });
    expect(await admin.ProjectAliases.create(project.id, 'wheel')).toMatchObject({
      name: 'wheel',
      project_id: project.id,
    });
    expect(await admin.ProjectAliases.create(project.path_with_namespace, 'axle')).toMatchObject({ name: 'axle' });
    expect(names(await admin.ProjectAliases.all({ perPage: 1 }))).toEqual(['wheel', 'axle']);
    await expect(admin.ProjectAliases.create(project.id, 'wheel')).rejects.toMatchObject({
      cause: { description: expect.stringContaining('has already been taken') },
    });
    await expect(api.ProjectAliases.all()).rejects.toMatchObject({ cause: { description: '403 Forbidden' } });
    await admin.ProjectAliases.remove('wheel');
    expect(names(await admin.ProjectAliases.all())).toEqual(['axle']);
  });
});
