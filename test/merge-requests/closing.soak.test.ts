import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { commit, makeMergeRequest, makeMergeRequestFromFork, tipOf } from './merge-scene.ts';

const app = useApp();

const makeIssues = async (client: Client, path: string, count: number) => {
  for (let i = 1; i <= count; i += 1)
    expect((await client.post(`${path}/issues`, { title: `Issue ${i}` })).status).toBe(201);
};
const statesOf = async (client: Client, path: string): Promise<string[]> =>
  (await client.get(`${path}/issues?sort=asc`)).body.map(({ state }: { state: string }) => state);

describe('closing issues', () => {
  it('closes the issues that a merged merge request names, and names them in the message', async () => {
    const { owner, maintainer, people, path, at } = await makeMergeRequest(
      app(),
      {},
      { description: 'Closes #1, #2 and #3' },
    );
    await makeIssues(owner, path, 4);
    const { body } = await maintainer.put(`${at}/merge`);
    const { body: merged } = await owner.get(`${path}/repository/commits/${body.merge_commit_sha}`);
    expect(merged.message).toContain('\n\nCloses #1, #2, and #3\n\nSee merge request');
    await app().settle();
    expect(await statesOf(owner, path)).toEqual(['closed', 'closed', 'closed', 'opened']);
    expect((await owner.get(`${path}/issues/1`)).body.closed_by.id).toBe(people.maintainer.id);
  });

  it('leaves issues open if the project says so, or the target is another branch', async () => {
    const kept = await makeMergeRequest(app(), { autoclose_referenced_issues: false }, { description: 'Closes #1' });
    await makeIssues(kept.owner, kept.path, 1);
    await kept.owner.put(`${kept.at}/merge`);
    const other = await makeMergeRequest(app(), {}, { description: 'Closes #1' });
    await makeIssues(other.owner, other.path, 1);
    await other.owner.post(`${other.path}/repository/branches`, { branch: 'stable', ref: 'main' });
    await other.owner.put(other.at, { target_branch: 'stable' });
    expect((await other.owner.put(`${other.at}/merge`)).body.state).toBe('merged');
    await app().settle();
    expect(await statesOf(kept.owner, kept.path)).toEqual(['opened']);
    expect(await statesOf(other.owner, other.path)).toEqual(['opened']);
  });

  it('closes the issues that commits pushed to the default branch name, if the pusher may', async () => {
    const { owner, path, people } = await makeMergeRequest(app(), { visibility: 'public' });
    await makeIssues(owner, path, 3);
    const push = (client: Client, project: string, branch: string, message: string) =>
      client.post(`${project}/repository/commits`, {
        branch,
        commit_message: message,
        actions: [{ action: 'create', file_path: `${message.length}.txt`, content: 'x' }],
      });
    await push(owner, path, 'feature', 'Fixes #1 elsewhere');
    await push(owner, path, 'main', 'Fixes #2 here');
    const stranger = app().as(people.stranger);
    const { body: own } = await stranger.post('/projects', { name: 'own', initialize_with_readme: true });
    expect(
      (
        await push(
          stranger,
          `/projects/${own.id}`,
          'main',
          `Closes ${(await owner.get(path)).body.path_with_namespace}#3`,
        )
      ).status,
    ).toBe(201);
    await app().settle();
    expect(await statesOf(owner, path)).toEqual(['opened', 'closed', 'opened']);
    // A push of several commits. An older one names the issue.
    await owner.post(`${path}/repository/branches`, { branch: 'work', ref: 'main' });
    await push(owner, path, 'work', 'Fixes #1 as well');
    const { status } = await owner.post(`${path}/repository/commits`, {
      branch: 'main',
      start_branch: 'work',
      force: true,
      commit_message: 'On top',
      actions: [{ action: 'create', file_path: 'top.txt', content: 'x' }],
    });
    expect(status).toBe(201);
    await app().settle();
    expect(await statesOf(owner, path)).toEqual(['closed', 'closed', 'opened']);
  });
});

describe('a deleted target branch', () => {
  it('is replaced by the branch that it was merged into', async () => {
    const { owner, path, at } = await makeMergeRequest(app());
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await owner.post(`${path}/repository/branches`, { branch: name, ref: 'feature' });
      await commit(owner, path, name, `${name}.txt`);
      const made = await owner.post(`${path}/merge_requests`, {
        source_branch: name,
        target_branch: 'feature',
        title: name,
      });
      expect(made.status).toBe(201);
    }
    await app().settle();
    await owner.put(`${at}/merge`, { should_remove_source_branch: true });
    await app().settle();
    const { body } = await owner.get(`${path}/merge_requests?state=opened&sort=asc`);
    expect(body.map((each: { target_branch: string }) => each.target_branch)).toEqual([
      'main',
      'main',
      'main',
      'main',
      'feature',
    ]);
    expect(await tipOf(owner, path, 'feature')).toBeUndefined();
    const { body: notes } = await owner.get(`${path}/merge_requests/${body[0].iid}/notes`);
    expect(notes).toContainEqual(
      expect.objectContaining({
        body: 'changed target branch from `feature` to `main`',
        author: expect.objectContaining({ username: expect.any(String) }),
      }),
    );
  });

  it('leaves a merge request open that cannot be merged until the branch is back', async () => {
    const { owner, path } = await makeMergeRequest(app());
    await owner.post(`${path}/repository/branches`, { branch: 'release', ref: 'main' });
    const opened = { source_branch: 'feature', target_branch: 'release', title: 'For the release' };
    const { body } = await owner.post(`${path}/merge_requests`, opened);
    await app().settle();
    const at = `${path}/merge_requests/${body.iid}`;
    const before = (await owner.get(at)).body;
    expect(before).toMatchObject({ detailed_merge_status: 'mergeable', changes_count: '2' });
    await owner.delete(`${path}/repository/branches/release`);
    await app().settle();
    const { diff_refs } = before;
    const missing = { state: 'opened', detailed_merge_status: 'commits_status', changes_count: '2', diff_refs };
    expect((await owner.get(at)).body).toMatchObject(missing);
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    expect((await owner.get(`${at}/versions`)).body).toHaveLength(1);
    await owner.post(`${path}/repository/branches`, { branch: 'release', ref: 'main' });
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ detailed_merge_status: 'mergeable' });
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
  });
});

describe('the push rule of the target', () => {
  it('judges the commits and files that a fork brings', async () => {
    const { owner, path, project, people } = await makeMergeRequest(app(), { visibility: 'public' });
    const contributor = app().as(people.stranger);
    const { request } = await makeMergeRequestFromFork(
      app(),
      contributor,
      { path, project },
      { path: 'id_rsa', content: 'a key\n' },
    );
    await app().settle();
    const at = `${path}/merge_requests/${request.iid}`;
    const refuses = async (rule: Record<string, unknown>, name: string) => {
      await owner.post(`${path}/push_rule`, rule);
      expect((await owner.put(`${at}/merge`)).status).toBe(422);
      expect((await owner.get(at)).body.merge_error).toContain(name);
      await owner.delete(`${path}/push_rule`);
    };
    await refuses({ prevent_secrets: true }, 'prevent_secrets');
    await refuses({ commit_message_regex: '^Merge' }, 'commit_message_regex');
    // The contributor committed, not the person who merges.
    await owner.post(`${path}/push_rule`, { commit_committer_check: true });
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
  });
});

describe('a merged merge request', () => {
  it('can be taken back and repeated on other branches', async () => {
    const { owner, stranger, path, at, project } = await makeMergeRequest(app());
    await owner.post(`${path}/repository/branches`, { branch: 'stable', ref: 'main' });
    const pick = (client: Client, name: 'mergeRequestRevert' | 'mergeRequestCherryPick', branch: string) =>
      client.graphql(
        `mutation ($projectPath: ID!, $branch: String!) {
          ${name}(input: { projectPath: $projectPath, iid: "1", branch: $branch, message: "Picked" }) {
            commit { sha message } errors } }`,
        { projectPath: project.path_with_namespace, branch },
      );
    expect((await pick(owner, 'mergeRequestRevert', 'main')).data.mergeRequestRevert).toEqual({
      commit: null,
      errors: ['The merge request is not merged'],
    });
    await owner.put(`${at}/merge`);
    const reverted = (await pick(owner, 'mergeRequestRevert', 'main')).data.mergeRequestRevert;
    expect(reverted).toMatchObject({ commit: { message: 'Picked' }, errors: [] });
    expect(await tipOf(owner, path, 'main')).toBe(reverted.commit.sha);
    const names = async (ref: string) =>
      (await owner.get(`${path}/repository/tree?ref=${ref}`)).body.map(({ name }: { name: string }) => name);
    expect(await names('main')).toEqual(['README.md', 'other.txt']);
    expect((await pick(owner, 'mergeRequestCherryPick', 'stable')).data.mergeRequestCherryPick.errors).toEqual([]);
    expect(await names('stable')).toEqual(['README.md', 'one.txt', 'other.txt', 'two.txt']);
    expect((await pick(stranger, 'mergeRequestRevert', 'main')).data.mergeRequestRevert).toBeNull();
  });
});
