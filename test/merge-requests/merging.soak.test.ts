import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { settleMerges } from '#domains/merge-requests/merging/landing.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { commit, makeMergeRequest, makeMergeRequestFromFork, tipOf } from './merge-scene.ts';
import { insertPipeline } from './support.ts';

const app = useApp();

const commitAt = async (client: Client, path: string, sha: string) =>
  (await client.get(`${path}/repository/commits/${sha}`)).body;

const files = async (client: Client, path: string): Promise<string[]> =>
  (await client.get(`${path}/repository/tree`)).body.map((entry: { name: string }) => entry.name);

describe('merging', () => {
  it('makes a merge commit with both parents and the default message', async () => {
    const { owner, path, at, head, target, project, people } = await makeMergeRequest(app());
    const merged = await owner.put(`${at}/merge`, { sha: head });
    expect(merged).toMatchObject({
      status: 200,
      body: {
        state: 'merged',
        merged_at: expect.any(String),
        merge_user: { id: people.owner.id },
        merged_by: { id: people.owner.id },
        merge_commit_sha: expect.any(String),
        squash_commit_sha: null,
        merge_error: null,
      },
    });
    const tip = await tipOf(owner, path, 'main');
    expect(merged.body.merge_commit_sha).toBe(tip);
    expect(await commitAt(owner, path, tip)).toMatchObject({
      parent_ids: [target, head],
      message: `Merge branch 'feature' into 'main'\n\nAdd two files\n\nSee merge request ${project.path_with_namespace}!1`,
      author_name: expect.stringContaining('Name of'),
    });
    expect(await files(owner, path)).toEqual(['README.md', 'one.txt', 'other.txt', 'two.txt']);
    // The branch stays unless its removal is asked for.
    await app().settle();
    expect(await tipOf(owner, path, 'feature')).toBe(head);
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
  });

  it('squashes to one commit, with the given messages', async () => {
    const { owner, path, at, target } = await makeMergeRequest(app());
    const merged = await owner.put(`${at}/merge`, {
      squash: true,
      squash_commit_message: 'All in one',
      merge_commit_message: 'Merge it',
      should_remove_source_branch: true,
    });
    expect(merged).toMatchObject({ status: 200, body: { squash: true } });
    const { merge_commit_sha, squash_commit_sha } = merged.body;
    expect(await commitAt(owner, path, merge_commit_sha)).toMatchObject({
      parent_ids: [target, squash_commit_sha],
      message: 'Merge it',
    });
    expect(await commitAt(owner, path, squash_commit_sha)).toMatchObject({
      parent_ids: [target],
      message: 'All in one',
    });
    await app().settle();
    expect((await owner.get(`${path}/repository/branches/feature`)).status).toBe(404);
    // The deletion of the branch does not close it.
    expect((await owner.get(at)).body.state).toBe('merged');
  });

  it('fast-forwards where the project says so, and refuses where it cannot', async () => {
    const linear = await makeMergeRequest(app(), { merge_method: 'ff' }, { moves: false });
    const merged = await linear.owner.put(`${linear.at}/merge`);
    expect(merged).toMatchObject({ status: 200, body: { merge_commit_sha: null, state: 'merged' } });
    expect(await tipOf(linear.owner, linear.path, 'main')).toBe(linear.head);
    for (const merge_method of ['ff', 'rebase_merge']) {
      const { owner, path, at, target } = await makeMergeRequest(app(), { merge_method });
      expect(await owner.put(`${at}/merge`)).toMatchObject({
        status: 422,
        body: { message: 'Branch cannot be merged' },
      });
      expect((await owner.get(at)).body).toMatchObject({
        state: 'opened',
        merge_error: expect.stringContaining('Only fast-forward merge is allowed'),
      });
      expect(await tipOf(owner, path, 'main')).toBe(target);
    }
  });

  it('fills the templates of the project', async () => {
    const { owner, path, at, project } = await makeMergeRequest(app(), {
      merge_commit_template:
        '%{title} (%{local_reference})\n\n%{issues}\n%{description}\nin %{reference} by %{merged_by}',
      squash_commit_template: '%{first_commit}\n\n%{all_commits}\n%{co_authored_by}\n%{unknown}',
    });
    const { body } = await owner.put(`${at}/merge`, { squash: true });
    expect((await commitAt(owner, path, body.merge_commit_sha)).message).toMatch(
      new RegExp(`^Add two files \\(!1\\)\nWhy\nin ${project.path_with_namespace}!1 by Name of .* <.*>$`),
    );
    expect((await commitAt(owner, path, body.squash_commit_sha)).message).toMatch(
      /^Change one\.txt\n\n\* Change two\.txt\n\n\* Change one\.txt\nCo-authored-by: Name of .*\n%\{unknown\}$/,
    );
  });

  it('refuses merge requests that are not mergeable, with the reason', async () => {
    const { owner, path, at, head } = await makeMergeRequest(app());
    expect(await owner.put(`${at}/merge`, { sha: '0'.repeat(40) })).toMatchObject({
      status: 409,
      body: { message: `SHA does not match HEAD of source branch: ${head}` },
    });
    expect((await owner.put(`${at}/merge`, { merge_when_pipeline_succeeds: true })).status).toBe(405);
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).status).toBe(405);
    await owner.put(at, { title: 'Draft: not yet' });
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    await owner.put(at, { title: 'Ready' });
    await commit(owner, path, 'main', 'one.txt', 'something else\n');
    expect(await owner.put(`${at}/merge`)).toMatchObject({ status: 422, body: { message: 'Branch cannot be merged' } });
    expect((await owner.get(at)).body.state).toBe('opened');
    await owner.put(at, { state_event: 'close' });
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
  });

  it('counts only a pipeline of the head', async () => {
    const { owner, path, at, head, project } = await makeMergeRequest(app(), {
      only_allow_merge_if_pipeline_succeeds: true,
    });
    const { db } = app().hub.services;
    await insertPipeline(db, { project_id: project.id, ref: 'feature', sha: head, status: 'success' });
    expect((await owner.get(at)).body.detailed_merge_status).toBe('mergeable');
    await commit(owner, path, 'feature', 'three.txt');
    await app().settle();
    expect((await owner.get(at)).body.detailed_merge_status).toBe('ci_must_pass');
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
  });

  it.each(['merge_when_pipeline_succeeds', 'auto_merge'])(
    'merges at once with %s if the pipeline has succeeded',
    async (name) => {
      const { owner, at, head, project } = await makeMergeRequest(app());
      const { db } = app().hub.services;
      await insertPipeline(db, { project_id: project.id, ref: 'feature', sha: head, status: 'success' });
      expect(await owner.put(`${at}/merge`, { [name]: true })).toMatchObject({
        status: 200,
        body: { state: 'merged' },
      });
    },
  );

  it('obeys the push rules of the project', async () => {
    const { owner, path, at, target } = await makeMergeRequest(app());
    await owner.post(`${path}/push_rule`, { commit_message_regex: '^(Change|Merge)' });
    const merged = await owner.put(`${at}/merge`, { merge_commit_message: 'Evade the rule' });
    expect(merged).toMatchObject({ status: 422, body: { message: 'Branch cannot be merged' } });
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', merge_error: expect.any(String) });
    expect(await tipOf(owner, path, 'main')).toBe(target);
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
  });

  it('keeps the target branch of a merge request that is merged, or about to be', async () => {
    const { owner, path, at, project } = await makeMergeRequest(app());
    await owner.post(`${path}/repository/branches`, { branch: 'other', ref: 'main' });
    const { db } = app().hub.services;
    const lock = (state: string) =>
      db.updateTable('merge_requests').set({ state }).where('project_id', '=', project.id).execute();
    for (const state of ['locked', 'merged']) {
      await lock(state);
      expect((await owner.put(at, { target_branch: 'other' })).status).toBe(400);
      expect((await owner.put(at, { title: `Title while ${state}` })).status).toBe(200);
    }
    expect((await owner.get(at)).body.target_branch).toBe('main');
  });

  it('leaves the branch of a fork to those who may push there', async () => {
    const { owner, path, project, people } = await makeMergeRequest(app(), { visibility: 'public' });
    const contributor = app().as(people.stranger);
    const { own, request } = await makeMergeRequestFromFork(app(), contributor, { path, project });
    await app().settle();
    const answer = await owner.put(`${path}/merge_requests/${request.iid}/merge`, {
      should_remove_source_branch: true,
    });
    expect(answer).toMatchObject({ status: 200, body: { state: 'merged' } });
    await app().settle();
    expect((await contributor.get(`${own}/repository/branches/mine`)).status).toBe(200);
  });

  it('uses the default messages if the given ones are blank', async () => {
    const { owner, path, at } = await makeMergeRequest(app());
    const blank = { squash: true, merge_commit_message: '', squash_commit_message: ' \n' };
    const { body } = await owner.put(`${at}/merge`, blank);
    expect((await commitAt(owner, path, body.merge_commit_sha)).message).toMatch(/^Merge branch 'feature' into 'main'/);
    expect((await commitAt(owner, path, body.squash_commit_sha)).message).toBe('Add two files');
  });

  it('removes the branch of a fork if the author of the merge request asked for it', async () => {
    const { owner, path, project, people } = await makeMergeRequest(app(), { visibility: 'public' });
    const contributor = app().as(people.stranger);
    const { own, request } = await makeMergeRequestFromFork(app(), contributor, { path, project });
    // The person who merges need not see the fork.
    await contributor.put(own, { visibility: 'private' });
    const at = `${path}/merge_requests/${request.iid}`;
    expect((await contributor.put(at, { remove_source_branch: true })).status).toBe(200);
    await app().settle();
    expect(await owner.put(`${at}/merge`)).toMatchObject({
      status: 200,
      body: { state: 'merged', should_remove_source_branch: true },
    });
    await app().settle();
    expect((await contributor.get(`${own}/repository/branches/mine`)).status).toBe(404);
    const { rows } = await sql`
      select actor_id from events where kind = 'push.received' and project_id = ${request.source_project_id}
      order by id desc limit 1`.execute(app().hub.services.db);
    expect(rows).toEqual([{ actor_id: people.owner.id }]);
  });

  it('is for those who may push or merge to the target branch', async () => {
    const { path, at, project, people, owner, reporter, stranger } = await makeMergeRequest(app());
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    expect((await reporter.put(`${at}/merge`)).status).toBe(401);
    expect((await stranger.put(`${at}/merge`)).status).toBe(404);
    expect((await app().anonymous.put(`${at}/merge`)).status).toBe(401);
    // The default branch is protected: Maintainers only.
    expect((await app().as(developer).put(`${at}/merge`)).status).toBe(401);
    expect((await app().as(people.maintainer).put(`${at}/merge`)).status).toBe(200);
    expect(await files(owner, path)).toContain('two.txt');
  });

  it('happens once if many ask at the same time', async () => {
    const { owner, path, at, target } = await makeMergeRequest(app());
    const answers = await Promise.all([1, 2, 3, 4].map(() => owner.put(`${at}/merge`)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.every(({ status }) => [200, 405, 422].includes(status))).toBe(true);
    const [first] = (await owner.get(`${path}/repository/commits?ref_name=main&first_parent=true`)).body;
    expect(first.parent_ids[0]).toBe(target);
  });

  it('gets along with pushes to both branches at the same time', async () => {
    const { owner, path, at, head } = await makeMergeRequest(app());
    const [merged] = await Promise.all([
      owner.put(`${at}/merge`),
      commit(owner, path, 'main', 'beside.txt'),
      commit(owner, path, 'feature', 'late.txt'),
    ]);
    expect(merged.body.state).toBe('merged');
    await app().settle();
    expect(await files(owner, path)).toEqual(expect.arrayContaining(['beside.txt', 'one.txt', 'other.txt', 'two.txt']));
    // The merge request shows the merged commits.
    const { body } = await owner.get(at);
    const { parent_ids } = await commitAt(owner, path, body.merge_commit_sha);
    expect(parent_ids[1]).toBe(body.sha);
    expect(parent_ids[1] === head).toBe(!(await files(owner, path)).includes('late.txt'));
  });

  it('is completed after the process has died once the branch has moved, and taken back before', async () => {
    const { owner, path, at, project, people, head } = await makeMergeRequest(app());
    const { db, git } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const ours = await tipOf(owner, path, 'main');
    const who = { name: 'Ada', email: 'ada@example.com', date: new Date() };
    const merge = { message: 'Merge', author: who, committer: who };
    const made = await git.mergeCommits(disk_path, { ours, theirs: head, merge });
    if ('failed' in made) throw new Error('the branches conflict');
    const { id } = await db
      .selectFrom('merge_requests')
      .select('id')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    const merging = JSON.stringify({
      ref: 'refs/heads/main',
      oid: made.oid,
      squash_oid: null,
      has_merge_commit: true,
      user_id: people.owner.id,
      remove_source_branch: false,
    });
    const die = () => db.updateTable('merge_requests').set({ state: 'locked', merging }).where('id', '=', id).execute();
    const settle = async () => {
      await app()
        .context()
        .transaction(async (tx) => tx.enqueue(settleMerges, { id }));
      await app().settle();
    };
    await die();
    expect((await owner.get(at)).body.state).toBe('locked');
    await settle();
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', detailed_merge_status: 'mergeable' });
    await die();
    await git.updateRefs(disk_path, [{ ref: 'refs/heads/main', oldOid: ours, newOid: made.oid }]);
    await settle();
    await settle();
    expect((await owner.get(at)).body).toMatchObject({
      state: 'merged',
      merge_commit_sha: made.oid,
      merge_user: { id: people.owner.id },
    });
    const events = await db
      .selectFrom('events')
      .select('actor_id')
      .where('project_id', '=', project.id)
      .where('kind', '=', 'merge_request.merged')
      .execute();
    expect(events).toEqual([{ actor_id: people.owner.id }]);
  });

  it('works over GraphQL by the same rules', async () => {
    const { owner, path, project, head, at } = await makeMergeRequest(app());
    const query = `mutation ($input: MergeRequestAcceptInput!) {
      mergeRequestAccept(input: $input) { mergeRequest { state squash } errors } }`;
    const accept = async (input: Record<string, unknown>) =>
      owner.graphql(query, { input: { projectPath: project.path_with_namespace, iid: '1', ...input } });
    expect((await accept({ sha: '0'.repeat(40) })).data.mergeRequestAccept).toEqual({
      mergeRequest: null,
      errors: ['The merge-head is not at the anticipated SHA'],
    });
    const { data } = await accept({
      sha: head,
      commitMessage: 'Merged over GraphQL',
      squash: true,
      squashCommitMessage: 'Squashed',
      shouldRemoveSourceBranch: true,
    });
    expect(data.mergeRequestAccept).toMatchObject({ errors: [], mergeRequest: { state: 'merged' } });
    const { body } = await owner.get(at);
    expect((await commitAt(owner, path, body.merge_commit_sha)).message).toBe('Merged over GraphQL');
    expect((await commitAt(owner, path, body.squash_commit_sha)).message).toBe('Squashed');
  });
});
