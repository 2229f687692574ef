import { beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, MAINTAINER, OWNER } from '#domains/access/model.ts';
import { gid } from '#graphql/ids.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { expectLists, type ListCase, mutate } from '../support/graphql.ts';

// Sets each argument of the lists of projects below groups, namespaces and users, and each field of the mutations.

const app = useApp();
const db = () => app().hub.services.db;
let owner: TestUser;
let viewer: TestUser;
let group: TestGroup;
let guests: TestGroup;
let alpha: TestProject;
let beta: TestProject;

beforeAll(async () => {
  const { make, as } = app();
  owner = await make.user();
  viewer = await make.user();
  group = await make.group({ visibility: 'public' }, owner);
  guests = await make.group({ visibility: 'public' }, owner);
  const subgroup = await make.group({ visibility: 'public', parent_id: group.id }, owner);
  alpha = await make.project({ name: 'Alpha', namespace_id: group.id, visibility: 'public', topics: ['t1'] }, owner);
  beta = await make.project({ name: 'Beta', namespace_id: group.id, visibility: 'internal' }, owner);
  await make.project({ name: 'Gamma', namespace_id: subgroup.id, visibility: 'public' }, owner);
  const shared = await make.project({ name: 'Shared', visibility: 'public' }, owner);
  const share = async (project: TestProject, to: TestGroup) =>
    as(owner).post(`/projects/${project.id}/share`, { group_id: to.id, group_access: MAINTAINER });
  expect((await share(shared, group)).status).toBe(201);
  expect((await share(alpha, guests)).status).toBe(201);
  expect((await share(beta, guests)).status).toBe(201);
  await make.projectMember(alpha, viewer, OWNER);
  for (const { id } of [alpha, shared]) {
    await as(viewer).post(`/projects/${id}/star`);
    await db()
      .insertInto('project_contributions')
      .values({ user_id: viewer.id, project_id: id, last_at: new Date().toISOString() })
      .execute();
  }
  await db()
    .insertInto('project_languages')
    .values({ project_id: alpha.id, name: 'Graphish', share: 100, bytes: 1 })
    .execute();
  await app().settle();
  await db()
    .updateTable('projects')
    .set({
      archived: true,
      marked_for_deletion_on: '2020-01-01',
      issues_access_level: 'disabled',
      merge_requests_access_level: 'disabled',
    })
    .where('id', '=', beta.id)
    .execute();
});

const [ALPHA, BETA, BOTH] = [['Alpha'], ['Beta'], ['Alpha', 'Beta']];

describe('lists of projects', () => {
  it('take each argument below groups and namespaces', async () => {
    const table: readonly ListCase[] = [
      ['', BOTH],
      ['includeSubgroups: true', [...BOTH, 'Gamma']],
      ['includeArchived: false', ALPHA],
      ['includeArchived: true', BOTH],
      ['search: "ALPH"', ALPHA],
      ['sort: NAME_DESC', ['Beta', 'Alpha']],
      ['sort: NAME_ASC', ['Alpha', 'Beta']],
      [`ids: ["${gid('Project', beta.id)}"]`, BETA],
      ['withIssuesEnabled: true', ALPHA],
      ['withMergeRequestsEnabled: true', ALPHA],
      ['withShared: true', [...BOTH, 'Shared']],
      ['visibilityLevel: internal', BETA],
      ['minAccessLevel: MAINTAINER', ALPHA],
      ['topics: ["T1"]', ALPHA],
      ['programmingLanguageName: "graphish"', ALPHA],
      ['notAimedForDeletion: true', ALPHA],
      ['owned: true', ALPHA],
      ['starred: true', ALPHA],
    ];
    for (const place of ['group', 'namespace'])
      await expectLists(app().as(viewer), `${place}(fullPath: "${group.full_path}")`, 'projects', 'name', table);
  });

  it('take each argument for projects shared with a group', async () => {
    await expectLists(app().as(viewer), `group(fullPath: "${guests.full_path}")`, 'sharedProjects', 'name', [
      ['', BOTH],
      ['includeArchived: false', ALPHA],
      ['search: "bet"', BETA],
      ['sort: NAME_DESC', ['Beta', 'Alpha']],
      ['visibilityLevel: public', ALPHA],
      ['minAccessLevel: MAINTAINER', ALPHA],
      ['starred: true', ALPHA],
    ]);
  });

  it('take each argument for starred and contributed projects of a user', async () => {
    const table: readonly ListCase[] = [
      ['', ['Alpha', 'Shared']],
      ['search: "shar"', ['Shared']],
      ['sort: NAME_DESC', ['Shared', 'Alpha']],
      ['sort: NAME_ASC', ['Alpha', 'Shared']],
      ['membership: true', ALPHA],
      ['minAccessLevel: OWNER', ALPHA],
      ['programmingLanguageName: "Graphish"', ALPHA],
    ];
    for (const place of ['currentUser', `user(username: "${viewer.username}") { ... on UserCore`])
      for (const list of ['starredProjects', 'contributedProjects'])
        await expectLists(app().as(viewer), place, list, 'name', table);
  });

  it('take the arguments that other tests leave out', async () => {
    const { id } = await app().make.project({ name: 'Going', topics: ['going'] }, owner);
    await app().settle();
    await db()
      .updateTable('projects')
      .set({ pending_delete: true, updated_at: '2020-01-01T00:00:00Z' })
      .where('id', '=', id)
      .execute();
    const table = (found: readonly string[]): readonly ListCase[] => [
      ['topics: ["going"]', []],
      ['topics: ["going"], includePendingDelete: true', found],
    ];
    await expectLists(app().as(app().root), '', 'projects', 'name', table(['Going']));
    await expectLists(app().as(owner), '', 'projects', 'name', table([]));
    await db().updateTable('projects').set({ pending_delete: false }).where('id', '=', id).execute();
    await expectLists(app().as(owner), '', 'projects', 'name', [
      ['topics: ["going"], sort: "updated_asc", updatedBefore: "2020-02-01T00:00:00Z"', ['Going']],
      ['topics: ["going"], sort: "updated_asc", updatedBefore: "2019-02-01T00:00:00Z"', []],
    ]);
  });
});

describe('mutations of projects', () => {
  const POLICY = {
    enabled: true,
    cadence: '7d',
    keep_n: 5,
    older_than: '14d',
    name_regex: '.*',
    name_regex_keep: 'v.+',
  };

  it('create a project in the given namespace, with each attribute', async () => {
    const client = app().as(owner);
    const attributes = {
      allowMergeOnSkippedPipeline: true,
      containerExpirationPolicy: POLICY,
      packagesEnabled: false,
    };
    for (const [path, namespace] of [
      ['by-id', { namespaceId: gid('Group', guests.id) }],
      ['by-path', { namespacePath: guests.full_path }],
    ] as const) {
      const { project } = await mutate(
        client,
        'projectCreate',
        { path, ...namespace, ...attributes, initializeWithReadme: true, defaultBranch: 'trunk' },
        'project { fullPath repository { rootRef } }',
      );
      expect(project).toEqual({ fullPath: `${guests.full_path}/${path}`, repository: { rootRef: 'trunk' } });
      expect((await client.get(`/projects/${encodeURIComponent(project.fullPath)}`)).body).toMatchObject({
        allow_merge_on_skipped_pipeline: true,
        container_expiration_policy: POLICY,
        packages_enabled: false,
        default_branch: 'trunk',
      });
    }
  });

  it('change each attribute of a project, and its place', async () => {
    const client = app().as(owner);
    const made = await app().make.project({ initialize_with_readme: true, visibility: 'private' }, owner);
    await client.post(`/projects/${made.id}/repository/branches`, { branch: 'next', ref: 'main' });
    const { project } = await mutate(
      client,
      'projectUpdate',
      {
        fullPath: made.path_with_namespace,
        name: 'New name',
        path: 'new-path',
        visibility: 'public',
        defaultBranch: 'next',
        allowMergeOnSkippedPipeline: true,
        containerExpirationPolicy: POLICY,
        packagesEnabled: false,
      },
      'project { fullPath }',
    );
    expect((await client.get(`/projects/${made.id}`)).body).toMatchObject({
      name: 'New name',
      path_with_namespace: project.fullPath,
      path: 'new-path',
      visibility: 'public',
      default_branch: 'next',
      allow_merge_on_skipped_pipeline: true,
      container_expiration_policy: POLICY,
      packages_enabled: false,
    });
    const { fullPath } = project;
    await client.post(`/projects/${made.id}/archive`);
    const unarchived = await mutate(client, 'projectUnarchive', { fullPath }, 'project { archived }');
    expect(unarchived.project.archived).toBe(false);
    const moved = await mutate(
      client,
      'projectTransfer',
      { fullPath, namespacePath: guests.full_path },
      'project { fullPath }',
    );
    expect(moved.project.fullPath).toBe(`${guests.full_path}/new-path`);
  });

  it('fork a project with each attribute', async () => {
    const client = app().as(viewer);
    const home = await app().make.group({ visibility: 'public' }, viewer);
    const source = await app().make.project({ initialize_with_readme: true, visibility: 'public' }, owner);
    const branches = `/projects/${source.id}/repository/branches`;
    for (const branch of ['wanted', 'unwanted']) await app().as(owner).post(branches, { branch, ref: 'main' });
    const { project } = await mutate(
      client,
      'projectFork',
      {
        fullPath: source.path_with_namespace,
        namespacePath: home.full_path,
        name: 'Forked',
        path: 'forked',
        description: 'A fork',
        visibility: 'private',
        branch: 'wanted',
        mrDefaultTargetSelf: true,
      },
      'project { fullPath name description visibility }',
    );
    expect(project).toEqual({
      fullPath: `${home.full_path}/forked`,
      name: 'Forked',
      description: 'A fork',
      visibility: 'private',
    });
    await app().settle();
    const path = `/projects/${encodeURIComponent(project.fullPath)}`;
    expect((await client.get(path)).body).toMatchObject({ mr_default_target_self: true, default_branch: 'wanted' });
    const copied = (await client.get(`${path}/repository/branches`)).body;
    expect(copied.map(({ name }: { name: string }) => name)).toEqual(['wanted']);
  });

  it('share a project with a group, up to a role and a day', async () => {
    const client = app().as(owner);
    const { id, path_with_namespace: projectPath } = await app().make.project({}, owner);
    const shares = async () => (await client.get(`/projects/${id}`)).body.shared_with_groups;
    const at = { projectPath, sharedWithPath: guests.full_path };
    await mutate(
      client,
      'projectShare',
      { ...at, accessLevel: 'DEVELOPER', expiresAt: '2999-01-02' },
      'project { id }',
    );
    expect(await shares()).toMatchObject([
      { group_id: guests.id, group_access_level: DEVELOPER, expires_at: '2999-01-02' },
    ]);
    await mutate(client, 'projectUnshare', at, 'project { id }');
    expect(await shares()).toEqual([]);
  });
});
