import { beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, MAINTAINER } from '#domains/access/model.ts';
import { gid } from '#graphql/ids.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { expectLists, mutate } from '../support/graphql.ts';

// Sets each argument of the lists and mutations of repositories, protections and releases. All tests read one repository.

const app = useApp();
let owner: TestUser;
let developer: TestUser;
let guests: TestGroup;
let project: TestProject;
let client: Client;
let projectPath: string;
const api = (rest: string) => `/projects/${project.id}${rest}`;

const commit = async (branch: string, author_name: string, path: string, start_branch?: string): Promise<string> => {
  const { status, body } = await client.post(api('/repository/commits'), {
    branch,
    ...(start_branch ? { start_branch } : {}),
    commit_message: `Add ${path}`,
    author_name,
    author_email: `${author_name}@example.com`,
    actions: [{ action: 'create', file_path: path, content: `content of ${path}` }],
  });
  expect(status).toBe(201);
  return body.id;
};

beforeAll(async () => {
  const { make, as } = app();
  owner = await make.user();
  developer = await make.user();
  client = as(owner);
  project = await make.project({ default_branch: 'main' }, owner);
  projectPath = project.path_with_namespace;
  guests = await make.group({}, owner);
  await make.projectMember(project, developer, DEVELOPER);
  await client.post(api('/share'), { group_id: guests.id, group_access: MAINTAINER });
  await commit('main', 'ada', 'docs/a.md');
  await commit('main', 'grace', 'src/b.md');
  await commit('topic', 'ada', 'docs/c.md', 'main');
  for (const [tag_name, message] of [
    ['v1', 'Annotated'],
    ['w2', undefined],
  ] as const)
    await client.post(api('/repository/tags'), { tag_name, ref: 'main', ...(message ? { message } : {}) });
});

describe('a repository', () => {
  const repository = () => `project(fullPath: "${projectPath}") { repository`;

  it('lists its branches, tags and commits by each argument', async () => {
    await expectLists(client, repository(), 'branches', 'name', [
      ['', ['main', 'topic']],
      ['search: "top"', ['topic']],
      ['search: "in$"', ['main']],
      ['regex: "^m.+n$"', ['main']],
    ]);
    await expectLists(client, repository(), 'tags', 'name', [
      ['', ['v1', 'w2']],
      ['search: "^w"', ['w2']],
    ]);
    const [A, B, C] = ['Add docs/a.md', 'Add src/b.md', 'Add docs/c.md'];
    await expectLists(client, repository(), 'commits', 'title', [
      ['', [A, B]],
      ['ref: "topic"', [A, B, C]],
      ['path: "src"', [B]],
      ['author: "ada"', [A]],
      ['since: "2999-01-01T00:00:00Z"', []],
      ['since: "2000-01-01T00:00:00Z"', [A, B]],
      ['until: "2000-01-01T00:00:00Z"', []],
      ['until: "2999-01-01T00:00:00Z"', [A, B]],
    ]);
  });

  it('reads files, folders and tags by each argument', async () => {
    const { data, errors } = await client.graphql(`{ ${repository()} {
      tag(name: "v1") { name message } none: tag(name: "v3") { name }
      here: blobs(paths: ["docs/c.md"]) { nodes { path } }
      there: blobs(paths: ["docs/c.md"], ref: "topic") { nodes { path rawTextBlob } }
      tree: paginatedTree(path: "docs", ref: "topic", first: 5) { nodes { blobs(first: 5) { nodes { path } } } }
      main: paginatedTree(path: "docs", first: 5) { nodes { blobs(first: 5) { nodes { path } } } } } } }`);
    expect(errors).toBeUndefined();
    const blobs = (...paths: readonly string[]) => ({ nodes: [{ blobs: { nodes: paths.map((path) => ({ path })) } }] });
    expect(data.project.repository).toEqual({
      tag: { name: 'v1', message: 'Annotated' },
      none: null,
      here: { nodes: [] },
      there: { nodes: [{ path: 'docs/c.md', rawTextBlob: 'content of docs/c.md' }] },
      tree: blobs('docs/a.md', 'docs/c.md'),
      main: blobs('docs/a.md'),
    });
  });

  it('refuses a commit over a file that has changed since lastCommitId', async () => {
    const before = await commit('edited', 'ada', 'edited.md', 'main');
    const edit = (content: string, lastCommitId: string) => ({
      projectPath,
      branch: 'edited',
      message: content,
      actions: [{ action: 'UPDATE', filePath: 'edited.md', content, lastCommitId }],
    });
    await mutate(client, 'commitCreate', edit('first', before), 'commit { sha }');
    const { data, errors } = await client.graphql(
      'mutation ($input: CommitCreateInput!) { commitCreate(input: $input) { errors commit { sha } } }',
      { input: edit('second', before) },
    );
    expect([data?.commitCreate?.commit ?? null, errors ?? data.commitCreate.errors]).toEqual([
      null,
      [expect.anything()],
    ]);
    const { body } = await client.get(api('/repository/files/edited.md/raw?ref=edited'));
    expect(body).toBe('first');
    await mutate(client, 'branchDelete', { projectPath, name: 'edited' });
    expect((await client.get(api('/repository/branches/edited'))).status).toBe(404);
  });
});

describe('protections', () => {
  const byUser = () => ({ userId: gid('User', developer.id) });
  const byGroup = () => ({ groupId: gid('Group', guests.id) });
  const read = async (name: string) => (await client.get(api(`/protected_branches/${name}`))).body;
  const levels = (...given: readonly Record<string, unknown>[]) => given.map((each) => expect.objectContaining(each));

  it('of branches are created and changed with each attribute', async () => {
    await mutate(client, 'protectedBranchCreate', {
      projectPath,
      name: 'guarded',
      allowForcePush: true,
      codeOwnerApprovalRequired: true,
      allowedToPush: [{ accessLevel: 30 }],
      allowedToMerge: [byUser(), byGroup()],
      allowedToUnprotect: [{ accessLevel: 60 }, byUser()],
    });
    const made = await read('guarded');
    expect(made).toMatchObject({
      allow_force_push: true,
      code_owner_approval_required: true,
      push_access_levels: levels({ access_level: 30 }),
      merge_access_levels: levels({ user_id: developer.id }, { group_id: guests.id }),
      unprotect_access_levels: levels({ access_level: 60 }, { user_id: developer.id }),
    });
    // An existing level is changed by its id, or removed.
    const root = app().as(app().root);
    await mutate(root, 'protectedBranchUpdate', {
      projectPath,
      name: 'guarded',
      codeOwnerApprovalRequired: false,
      allowedToPush: [{ id: made.push_access_levels[0].id, accessLevel: 40 }],
      allowedToMerge: [{ id: made.merge_access_levels[0].id, destroy: true }],
      allowedToUnprotect: [byGroup()],
    });
    expect(await read('guarded')).toMatchObject({
      code_owner_approval_required: false,
      push_access_levels: levels({ access_level: 40 }),
      merge_access_levels: levels({ group_id: guests.id }),
      unprotect_access_levels: levels({ access_level: 60 }, { user_id: developer.id }, { group_id: guests.id }),
    });
  });

  it('are changed by a branch rule, with each kind of level', async () => {
    const { branchRule } = await mutate(
      client,
      'branchRuleCreate',
      { projectPath, name: 'ruled' },
      'branchRule { id }',
    );
    await mutate(client, 'branchRuleUpdate', {
      id: branchRule.id,
      name: 'ruled',
      branchProtection: {
        codeOwnerApprovalRequired: true,
        mergeAccessLevels: [{ accessLevel: 30 }, byUser(), byGroup()],
        pushAccessLevels: [byGroup()],
      },
    });
    expect(await read('ruled')).toMatchObject({
      code_owner_approval_required: true,
      merge_access_levels: levels({ access_level: 30 }, { user_id: developer.id }, { group_id: guests.id }),
      push_access_levels: levels({ group_id: guests.id }),
    });
  });

  it('of tags let users and groups create them', async () => {
    await mutate(client, 'protectedTagCreate', {
      projectPath,
      name: 'guarded-*',
      allowedToCreate: [byUser(), byGroup()],
    });
    const { body } = await client.get(api('/protected_tags/guarded-*'));
    expect(body.create_access_levels).toEqual(levels({ user_id: developer.id }, { group_id: guests.id }));
  });
});

describe('releases', () => {
  it('and their links are written with each attribute, and listed in each order', async () => {
    for (const title of ['m1', 'm2']) await client.post(api('/milestones'), { title });
    const read = async () => (await client.get(api('/releases/v5'))).body;
    /** Where the lasting URL of each link leads, with the path that GraphQL shows. */
    const targets = async () => {
      const { data } = await client.graphql(
        `{ project(fullPath: "${projectPath}") { release(tagName: "v5") { links { name directAssetPath } } } }`,
      );
      const shown: readonly { name: string; directAssetPath: string }[] = data.project.release.links;
      const links: readonly { name: string; direct_asset_url: string }[] = (await read()).assets.links;
      const found = await Promise.all(
        links.map(async ({ name, direct_asset_url }) => {
          const path = shown.find((each) => each.name === name)?.directAssetPath ?? '';
          const { pathname } = new URL(direct_asset_url);
          const { status, headers } = await client.request('GET', pathname);
          expect([status, pathname.endsWith(`/downloads${path}`)]).toEqual([302, true]);
          return [path, headers.get('location')];
        }),
      );
      return Object.fromEntries(found);
    };
    const { release } = await mutate(
      client,
      'releaseCreate',
      {
        projectPath,
        tagName: 'v5',
        ref: 'main',
        tagMessage: 'Annotated by the release',
        description: 'First text',
        releasedAt: '2024-01-02T03:04:05Z',
        milestones: ['m1'],
        assets: { links: [{ name: 'a', url: 'https://example.com/a', directAssetPath: '/bin/a', linkType: 'IMAGE' }] },
      },
      'release { links { id } }',
    );
    expect(await read()).toMatchObject({
      description: 'First text',
      released_at: '2024-01-02T03:04:05.000Z',
      milestones: [{ title: 'm1' }],
      assets: { links: [{ name: 'a', link_type: 'image' }] },
    });
    expect(await targets()).toEqual({ '/bin/a': 'https://example.com/a' });
    expect((await client.get(api('/repository/tags/v5'))).body.message).toBe('Annotated by the release');
    await mutate(client, 'releaseUpdate', {
      projectPath,
      tagName: 'v5',
      description: 'Second text',
      releasedAt: '2025-01-02T03:04:05Z',
      milestones: ['m2'],
    });
    await mutate(client, 'releaseAssetLinkUpdate', {
      id: release.links[0].id,
      url: 'https://example.com/changed',
      directAssetPath: '/bin/changed',
      linkType: 'PACKAGE',
    });
    const { link } = await mutate(
      client,
      'releaseAssetLinkCreate',
      {
        projectPath,
        tagName: 'v5',
        name: 'b',
        url: 'https://example.com/b',
        directAssetPath: '/bin/b',
        linkType: 'RUNBOOK',
      },
      'link { id }',
    );
    const changed = await read();
    expect(changed).toMatchObject({
      description: 'Second text',
      released_at: '2025-01-02T03:04:05.000Z',
      milestones: [{ title: 'm2' }],
    });
    const first = expect.objectContaining({ name: 'a', url: 'https://example.com/changed', link_type: 'package' });
    const second = expect.objectContaining({ name: 'b', url: 'https://example.com/b', link_type: 'runbook' });
    expect(changed.assets.links).toHaveLength(2);
    expect(changed.assets.links).toEqual(expect.arrayContaining([first, second]));
    expect(await targets()).toEqual({
      '/bin/changed': 'https://example.com/changed',
      '/bin/b': 'https://example.com/b',
    });
    await mutate(client, 'releaseAssetLinkDelete', { id: link.id });
    expect((await read()).assets.links).toEqual([first]);

    await mutate(client, 'releaseCreate', { projectPath, tagName: 'v1', releasedAt: '2024-06-01T00:00:00Z' });
    await expectLists(client, `project(fullPath: "${projectPath}")`, 'releases', 'tagName', [
      ['sort: RELEASED_AT_ASC', ['v1', 'v5']],
      ['sort: RELEASED_AT_DESC', ['v5', 'v1']],
      ['sort: CREATED_ASC', ['v5', 'v1']],
      ['sort: CREATED_DESC', ['v1', 'v5']],
    ]);
  });
});
