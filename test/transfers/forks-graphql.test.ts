import { describe, expect, it } from 'vitest';
import { commitFile, remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();

const FORK = `mutation ($input: ProjectForkInput!) {
  projectFork(input: $input) {
    project { id fullPath visibility isForked forkedFrom { fullPath forksCount } importStatus import { type } }
    errors
  }
}`;
const fork = async (user: TestUser, input: Record<string, unknown>) => app().as(user).graphql(FORK, { input });

const PROJECT = `query ($path: ID!) {
  project(fullPath: $path) {
    isForked forksCount forkedFrom { fullPath } forks(search: "") { count nodes { fullPath } }
    forkDetails { ahead behind }
  }
}`;
const read = async (user: TestUser, path: string) => (await app().as(user).graphql(PROJECT, { path })).data.project;

describe('a fork in GraphQL', () => {
  it('is created, shown to callers who may see it, and compared with its source', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const stranger = await app().make.user();
    const source = await app().make.project({ visibility: 'public' }, owner);
    const tree = await workTree(folder());
    await runGit(tree, 'push', '-q', await remoteOf(app(), source, owner), 'main');
    await app().settle();
    const made = await fork(forker, { fullPath: source.path_with_namespace, path: 'mine', name: 'mine' });
    const path = `${forker.username}/mine`;
    expect(made.data.projectFork).toMatchObject({
      project: {
        fullPath: path,
        isForked: true,
        forkedFrom: { fullPath: source.path_with_namespace, forksCount: 1 },
        import: { type: null },
      },
      errors: [],
    });
    const twice = await fork(forker, { fullPath: source.path_with_namespace, path: 'mine', name: 'mine' });
    expect(twice.data.projectFork).toEqual({
      project: null,
      errors: ['Name has already been taken', 'Path has already been taken'],
    });
    await app().settle();

    // The fork gets two commits, and the source one.
    await runGit(tree, 'checkout', '-q', '-b', 'own');
    await commitFile(tree, 'a.txt', 'a', 'A');
    await commitFile(tree, 'b.txt', 'b', 'B');
    await runGit(tree, 'checkout', '-q', 'main');
    await commitFile(tree, 'c.txt', 'c', 'C');
    await runGit(tree, 'push', '-q', await remoteOf(app(), source, owner), 'main');
    await runGit(tree, 'push', '-q', await remoteOf(app(), { path_with_namespace: path }, forker), 'own:main');
    expect(await read(stranger, path)).toEqual({
      isForked: true,
      forksCount: 0,
      forkedFrom: { fullPath: source.path_with_namespace },
      forks: { count: 0, nodes: [] },
      forkDetails: { ahead: 2, behind: 1 },
    });
    expect((await read(stranger, source.path_with_namespace)).forks).toEqual({ count: 1, nodes: [{ fullPath: path }] });

    // The fork is closed with its source. Members of only the fork learn nothing of the source.
    await app().as(owner).put(`/projects/${source.id}`, { visibility: 'private' });
    expect(await read(stranger, path)).toBeNull();
    for (const { id } of [stranger, owner]) {
      const member = { user_id: id, access_level: 30 };
      const added = await app()
        .as(forker)
        .post(`/projects/${encodeURIComponent(path)}/members`, member);
      expect(added.status).toBe(201);
    }
    expect(await read(stranger, path)).toMatchObject({ isForked: false, forkedFrom: null, forkDetails: null });
    expect(await read(owner, path)).toMatchObject({ isForked: true, forkDetails: { ahead: 2, behind: 1 } });
    const hidden = await fork(stranger, { fullPath: source.path_with_namespace });
    expect(hidden.data.projectFork).toBeNull();
    await app().as(owner).put(`/projects/${source.id}`, { visibility: 'public' });

    const unlink = (user: TestUser) =>
      app()
        .as(user)
        .graphql('mutation ($path: ID!) { projectForkUnlink(input: { fullPath: $path }) { project { isForked } } }', {
          path,
        });
    expect((await unlink(stranger)).errors).toHaveLength(1);
    expect((await unlink(forker)).data.projectForkUnlink.project.isForked).toBe(false);
    const link = await app()
      .as(forker)
      .graphql(
        `mutation ($path: ID!, $from: ID!) {
          projectForkLink(input: { fullPath: $path, forkedFromPath: $from }) { project { isForked } errors }
        }`,
        { path, from: source.path_with_namespace },
      );
    expect(link.data.projectForkLink).toEqual({ project: { isForked: true }, errors: [] });
  });

  it('can come from a URL: projectCreate accepts importUrl, and reports the import', async () => {
    await app().as(app().root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    const owner = await app().make.user();
    const source = await app().make.project({ initialize_with_readme: true }, owner);
    const importUrl = await remoteOf(app(), source, owner);
    const { data } = await app()
      .as(owner)
      .graphql(
        `mutation ($url: String!) { projectCreate(input: { name: "by-url", importUrl: $url }) {
          project { fullPath importStatus } errors } }`,
        { url: importUrl },
      );
    expect(data.projectCreate).toMatchObject({ errors: [], project: { fullPath: `${owner.username}/by-url` } });
    await app().settle();
    const read = await app()
      .as(owner)
      .graphql(`{ project(fullPath: "${owner.username}/by-url") { import { status type progress bytes error } } }`);
    expect(read.data.project.import).toMatchObject({ status: 'FINISHED', type: 'git', progress: 100, error: null });
    const refused = await app()
      .as(owner)
      .graphql('mutation { projectCreate(input: { name: "x", importUrl: "ssh://x/y" }) { project { id } errors } }');
    expect(refused.data.projectCreate).toEqual({
      project: null,
      errors: ['Import url URL is blocked: only http and https are allowed'],
    });
  });
});
