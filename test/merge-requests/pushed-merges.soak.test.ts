import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { commitFile, remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();

/** Creates a project with `main` and open merge requests from branches of one commit each, in this order. */
const setUp = async (...branches: readonly string[]) => {
  const scene = await makeScene(app());
  const { owner, path, people, project } = scene;
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, people.owner);
  await runGit(tree, 'push', '-q', remote, 'main');
  for (const branch of branches) {
    await runGit(tree, 'checkout', '-q', '-b', branch, 'main');
    await commitFile(tree, `${branch}.txt`, branch, `Add ${branch}`);
    await runGit(tree, 'push', '-q', remote, branch);
    await owner.post(`${path}/merge_requests`, { source_branch: branch, target_branch: 'main', title: branch });
  }
  await runGit(tree, 'checkout', '-q', 'main');
  await app().settle();
  const git = (...args: string[]) => runGit(tree, ...args);
  const merge = async (branch: string) => {
    await git('merge', '-q', '--no-ff', '-m', `Merge ${branch}`, branch);
    return (await git('rev-parse', 'HEAD')).trim();
  };
  const push = async () => {
    await git('push', '-q', remote, 'main');
    await app().settle();
  };
  const read = async (iid: number) => (await owner.get(`${path}/merge_requests/${iid}`)).body;
  return { ...scene, tree, git, merge, push, read };
};

describe('a merge request that a push merges', () => {
  it('names the merge commit that brought its branch into the target', async () => {
    const { git, tree, merge, push, read, owner, path, people, project } = await setUp('one', 'two', 'three');
    const first = await merge('one');
    await commitFile(tree, 'between.txt', 'x', 'Between');
    // The target gets a descendant of the branch.
    await git('checkout', '-q', '-b', 'more', 'two');
    await commitFile(tree, 'more.txt', 'x', 'More');
    await git('checkout', '-q', 'main');
    const second = await merge('more');
    await commitFile(tree, 'after.txt', 'x', 'After');
    await push();
    expect(await read(1)).toMatchObject({
      state: 'merged',
      merge_commit_sha: first,
      merge_user: { id: people.owner.id },
    });
    expect(await read(2)).toMatchObject({ state: 'merged', merge_commit_sha: second });
    expect(await read(3)).toMatchObject({ state: 'opened', merge_commit_sha: null });
    const { data } = await owner.graphql(
      `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") { state mergeCommitSha } } }`,
      { path: project.path_with_namespace },
    );
    expect(data.project.mergeRequest).toEqual({ state: 'merged', mergeCommitSha: first });
    const found = await owner.get(`${path}/repository/commits/${first}/merge_requests`);
    expect(found.body).toMatchObject([{ iid: 1 }]);
  });

  it('names none after a fast-forward, even if something is merged on top', async () => {
    const { git, merge, push, read } = await setUp('one', 'two');
    await git('merge', '-q', '--ff-only', 'one');
    const second = await merge('two');
    await push();
    expect(await read(1)).toMatchObject({ state: 'merged', merge_commit_sha: null });
    expect(await read(2)).toMatchObject({ state: 'merged', merge_commit_sha: second });
  });
});
