import { beforeAll, describe, expect, it } from 'vitest';
import { commitFile, remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import type { TestProject } from '../support/factories.ts';
import { until } from '../support/until.ts';

const app = useApp();
const folder = useFolder();

const DETAILS = 'ahead behind hasConflicts isSyncing';
const READ = `query ($path: ID!, $ref: String) { project(fullPath: $path) { forkDetails(ref: $ref) { ${DETAILS} } } }`;
const SYNC = `mutation ($input: ProjectSyncForkInput!) {
  projectSyncFork(input: $input) { details { ${DETAILS} } errors }
}`;
const UNAVAILABLE =
  "The resource that you are attempting to access does not exist or you don't have permission to perform this action";

const detailsOf = async (user: TestUser, path: string, ref?: string) =>
  (await app().as(user).graphql(READ, { path, ref })).data.project?.forkDetails;
const sync = async (user: TestUser, projectPath: string, targetBranch = 'main') => {
  const { data, errors } = await app().as(user).graphql(SYNC, { input: { projectPath, targetBranch } });
  return { ...data?.projectSyncFork, top: errors?.map(({ message }: { message: string }) => message) };
};
const settled = { ahead: 0, behind: 0, hasConflicts: false, isSyncing: false };

/** Creates a public project and a fork of it, with a work tree whose `main` both have. */
const setUp = async () => {
  const owner = await app().make.user();
  const forker = await app().make.user();
  const source = await app().make.project({ visibility: 'public' }, owner);
  const tree = await workTree(folder());
  await pushTree(app(), source, owner, tree, 'main');
  await app().settle();
  const { body: fork } = await app().as(forker).post(`/projects/${source.id}/fork`);
  await app().settle();
  const path: string = fork.path_with_namespace;
  const push = async (user: TestUser, to: { readonly path_with_namespace: string }, ...refs: string[]) => {
    await runGit(tree, 'push', '-q', await remoteOf(app(), to, user), ...refs);
    await app().settle();
  };
  return { owner, forker, source, fork, path, tree, push };
};
type Scene = Awaited<ReturnType<typeof setUp>>;

const tipOf = async (user: TestUser, project: Pick<TestProject, 'id'>, branch = 'main') =>
  (await app().as(user).get(`/projects/${project.id}/repository/branches/${branch}`)).body.commit;
const pushesTo = (project: Pick<TestProject, 'id'>) =>
  app()
    .hub.services.db.selectFrom('events')
    .select('actor_id')
    .where('project_id', '=', project.id)
    .where('kind', '=', 'push.received')
    .execute();

describe('a fork', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await setUp();
  });

  it('is fast-forwarded to its source', async () => {
    const { owner, forker, source, fork, path, tree, push } = scene;
    expect(await detailsOf(forker, path)).toEqual(settled);
    const unneeded = await sync(forker, path);
    expect(unneeded).toEqual({ details: settled, errors: [], top: undefined });
    const head = await commitFile(tree, 'new.txt', 'new', 'New upstream');
    await push(owner, source, 'main');
    expect(await detailsOf(forker, path)).toEqual({ ahead: 0, behind: 1, hasConflicts: false, isSyncing: false });

    // Block the sync until the test has seen it running.
    const held = await app().hub.services.pool.connect();
    const lock = `hashtextextended('millrace:push:${fork.id}', 0)`;
    await held.query(`select pg_advisory_lock(${lock})`);
    const asked = await sync(forker, path);
    expect(asked).toEqual({
      details: { ahead: 0, behind: 1, hasConflicts: false, isSyncing: true },
      errors: [],
      top: undefined,
    });
    expect((await sync(forker, path)).errors).toEqual(['Another fork sync is already in progress']);
    expect(await detailsOf(forker, path)).toMatchObject({ isSyncing: true });
    await held.query(`select pg_advisory_unlock(${lock})`);
    held.release();
    await until('the fork is in step', async () => !(await detailsOf(forker, path)).isSyncing);

    await app().settle();
    expect(await detailsOf(forker, path)).toEqual(settled);
    expect((await tipOf(forker, fork)).id).toBe(head);
    expect(await pushesTo(fork)).toEqual([{ actor_id: forker.id }]);
    // The fork has all objects itself, even if the source is deleted.
    await runGit(folder(), 'clone', '-q', await remoteOf(app(), fork, forker), `clone-${fork.id}`);
  });

  it('merges the commits of both', async () => {
    const { owner, forker, source, fork, path, tree, push } = scene;
    await runGit(tree, 'checkout', '-q', '-b', 'own');
    const own = await commitFile(tree, 'own.txt', 'own', 'Own');
    await push(forker, fork, 'own:main');
    await runGit(tree, 'checkout', '-q', 'main');
    const theirs = await commitFile(tree, 'theirs.txt', 'theirs', 'Theirs');
    await push(owner, source, 'main');
    expect(await detailsOf(forker, path)).toEqual({ ahead: 1, behind: 1, hasConflicts: false, isSyncing: false });
    expect((await sync(forker, path)).errors).toEqual([]);
    await app().settle();
    expect(await detailsOf(forker, path)).toEqual({ ahead: 2, behind: 0, hasConflicts: false, isSyncing: false });
    const tip = await tipOf(forker, fork);
    expect(tip).toMatchObject({
      parent_ids: [own, theirs],
      title: `Merge branch '${source.path_with_namespace}:main' into 'main'`,
      author_name: `Name of ${forker.username}`,
    });
    const { body } = await app().as(forker).get(`/projects/${fork.id}/repository/tree`);
    const names = body.map(({ name }: { name: string }) => name);
    expect(names).toEqual(expect.arrayContaining(['own.txt', 'theirs.txt', 'new.txt']));
    // The source is unchanged.
    expect((await tipOf(owner, source)).id).toBe(theirs);
  });

  it('reports conflicts and stays unchanged', async () => {
    const { owner, forker, source, fork, path, tree, push } = scene;
    await runGit(tree, 'checkout', '-q', '-b', 'clash', 'main');
    await commitFile(tree, 'both.txt', 'here', 'Here');
    await push(forker, fork, 'clash');
    await runGit(tree, 'checkout', '-q', 'main');
    await commitFile(tree, 'both.txt', 'there', 'There');
    await push(owner, source, 'main');
    const before = await tipOf(forker, fork, 'clash');
    expect(await detailsOf(forker, path, 'clash')).toEqual({
      ahead: 1,
      behind: 1,
      hasConflicts: true,
      isSyncing: false,
    });
    const conflict = 'The synchronization cannot happen due to the merge conflict';
    expect(await sync(forker, path, 'clash')).toEqual({ details: null, errors: [conflict], top: undefined });
    await app().settle();
    expect(await tipOf(forker, fork, 'clash')).toEqual(before);
    // Unrelated histories are a conflict too.
    await runGit(tree, 'checkout', '-q', '--orphan', 'alone');
    await commitFile(tree, 'alone.txt', 'alone', 'Alone');
    await push(forker, fork, 'alone');
    expect((await sync(forker, path, 'alone')).errors).toEqual([conflict]);
  });

  it('can be synced only by users who may push to the branch', async () => {
    const { owner, forker, source, fork, path } = scene;
    const before = await tipOf(forker, fork);
    const stranger = await app().make.user();
    const reporter = await app().make.user();
    const developer = await app().make.user();
    await app().make.projectMember(fork, reporter, 20);
    await app().make.projectMember(fork, developer, 30);
    expect((await detailsOf(stranger, path)).behind).toBe(1);
    // Developers may not push to the protected `main`.
    for (const user of [stranger, owner, reporter, developer])
      expect((await sync(user, path)).top).toEqual([UNAVAILABLE]);
    const { errors } = await app().anonymous.graphql(SYNC, { input: { projectPath: path, targetBranch: 'main' } });
    expect(errors).toHaveLength(1);
    const nothing = 'This branch of this project cannot be updated from the upstream';
    expect((await sync(forker, path, 'none')).errors).toEqual([nothing]);
    expect((await sync(forker, path, '-x')).errors).toEqual([nothing]);
    expect((await sync(owner, source.path_with_namespace)).errors).toEqual([nothing]);
    await app().as(forker).put(`/projects/${fork.id}`, { visibility: 'private' });
    expect((await sync(stranger, path)).top).toEqual([UNAVAILABLE]);

    // A source that the forker cannot see provides nothing.
    await app().as(owner).put(`/projects/${source.id}`, { visibility: 'private' });
    expect(await detailsOf(forker, path)).toBeNull();
    expect((await sync(forker, path)).errors).toEqual([nothing]);
    await app().settle();
    expect(await tipOf(forker, fork)).toEqual(before);
    await app().as(owner).put(`/projects/${source.id}`, { visibility: 'public' });
  });

  it('is checked against the push rule, and reports a failure', async () => {
    const { forker, fork, path } = scene;
    const before = await tipOf(forker, fork);
    await app().as(app().root).post(`/projects/${fork.id}/push_rule`, { commit_message_regex: '^FORK' });
    expect((await sync(forker, path)).errors).toEqual([]);
    await app().settle();
    expect((await tipOf(forker, fork)).id).toBe(before.id);
    const failed = await app()
      .hub.services.db.selectFrom('events')
      .select(['payload', 'actor_id', 'min_access_level'])
      .where('project_id', '=', fork.id)
      .where('kind', '=', 'fork.sync_failed')
      .execute();
    expect(failed).toEqual([
      {
        actor_id: forker.id,
        min_access_level: 30,
        payload: { branch: 'main', error: expect.stringContaining('^FORK'), user_id: forker.id },
      },
    ]);
    expect(await detailsOf(forker, path)).toMatchObject({ behind: 1, isSyncing: false });
  });
});
