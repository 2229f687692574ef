import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { rebaseMergeRequest } from '#domains/merge-requests/rebasing.ts';
import { removeMergeRef } from '#domains/merge-requests/refs.ts';
import { useApp } from '../support/app.ts';
import { commit, makeMergeRequest, makeMergeRequestFromFork, tipOf } from './merge-scene.ts';

const app = useApp();

const files = async (client: { get(path: string): Promise<{ body: { name: string }[] }> }, path: string, ref: string) =>
  (await client.get(`${path}/repository/tree?ref=${ref}`)).body.map(({ name }) => name);

describe('rebasing', () => {
  it('puts the commits on top of the target branch, with their authors and messages', async () => {
    const { owner, maintainer, people, path, at, head, target, project } = await makeMergeRequest(app(), {
      merge_method: 'ff',
    });
    expect((await owner.get(at)).body.detailed_merge_status).toBe('need_rebase');
    const asked = await maintainer.put(`${at}/rebase`);
    expect(asked).toMatchObject({ status: 202, body: { rebase_in_progress: true } });
    await app().settle();
    const { body } = await owner.get(`${at}?include_rebase_in_progress=true`);
    expect(body).toMatchObject({ rebase_in_progress: false, merge_error: null, detailed_merge_status: 'mergeable' });
    const tip = await tipOf(owner, path, 'feature');
    expect(body.sha).toBe(tip);
    expect(tip).not.toBe(head);
    const { body: commits } = await owner.get(`${path}/repository/commits?ref_name=feature`);
    expect(commits.map(({ title }: { title: string }) => title).slice(0, 3)).toEqual([
      'Change two.txt',
      'Change one.txt',
      'Change other.txt',
    ]);
    expect(commits[1].parent_ids).toEqual([target]);
    const { body: before } = await owner.get(`${path}/repository/commits/${head}`);
    expect(commits[0]).toMatchObject({ author_name: before.author_name, authored_date: before.authored_date });
    expect(commits[0].committer_name).not.toBe(before.committer_name);
    const push = await app()
      .hub.services.db.selectFrom('events')
      .select(['actor_id', 'payload'])
      .where('project_id', '=', project.id)
      .where('kind', '=', 'push.received')
      .orderBy('id', 'desc')
      .executeTakeFirstOrThrow();
    expect(push).toMatchObject({ actor_id: people.maintainer.id, payload: { before: head, after: tip } });
    expect((await owner.put(`${at}/merge`)).body.state).toBe('merged');
    expect(await tipOf(owner, path, 'main')).toBe(tip);
  });

  it('drops the status of the old head as soon as it ends', async () => {
    const { owner, people, at, id, head } = await makeMergeRequest(app(), { merge_method: 'ff' });
    const rebasing = JSON.stringify({ user_id: people.owner.id, skip_ci: true, head, oid: null });
    await app().hub.services.db.updateTable('merge_requests').set({ rebasing }).where('id', '=', id).execute();
    await rebaseMergeRequest.run(app().context(), { id }, { attempt: 1, lastAttempt: false });
    // The push may have been followed already.
    expect(['unchecked', 'mergeable']).toContain((await owner.get(at)).body.detailed_merge_status);
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ merge_error: null, detailed_merge_status: 'mergeable' });
  });

  it('leaves out merges and commits that the target has already', async () => {
    const { owner, path, at } = await makeMergeRequest(app());
    const { body: picked } = await owner.get(`${path}/repository/commits?ref_name=feature`);
    await owner.post(`${path}/repository/commits/${picked[1].id}/cherry_pick`, { branch: 'main' });
    await owner.put(`${at}/rebase`, { skip_ci: true });
    await app().settle();
    const { body: commits } = await owner.get(`${path}/repository/commits?ref_name=feature&first_parent=true`);
    expect(commits[0].title).toBe('Change two.txt');
    expect(commits[0].parent_ids).toEqual([await tipOf(owner, path, 'main')]);
    expect(await files(owner, path, 'feature')).toEqual(['README.md', 'one.txt', 'other.txt', 'two.txt']);
    const { payload } = await app()
      .hub.services.db.selectFrom('events')
      .select('payload')
      .where('kind', '=', 'push.received')
      .orderBy('id', 'desc')
      .executeTakeFirstOrThrow();
    expect(payload).toMatchObject({ push_options: { ci: { skip: true } } });
    // There is nothing left to do.
    const tip = await tipOf(owner, path, 'feature');
    await owner.put(`${at}/rebase`);
    await app().settle();
    expect(await tipOf(owner, path, 'feature')).toBe(tip);
    expect((await owner.get(at)).body).toMatchObject({ merge_error: null, detailed_merge_status: 'mergeable' });
  });

  it('reports conflicts, and changes nothing', async () => {
    const { owner, path, at, head, people, project } = await makeMergeRequest(app());
    await commit(owner, path, 'main', 'one.txt', 'something else\n');
    expect((await owner.put(`${at}/rebase`)).status).toBe(202);
    await app().settle();
    const { rows } = await sql`
      select actor_id from events where kind = 'merge_request.updated' and project_id = ${project.id}
      order by id desc limit 1`.execute(app().hub.services.db);
    expect(rows).toEqual([{ actor_id: people.owner.id }]);
    expect((await owner.get(at)).body).toMatchObject({
      state: 'opened',
      merge_error: 'Rebase failed: Rebase locally, resolve all conflicts, then push the branch.',
    });
    expect(await tipOf(owner, path, 'feature')).toBe(head);
  });

  it('obeys the push rule', async () => {
    const { owner, path, at, head } = await makeMergeRequest(app());
    await owner.post(`${path}/push_rule`, { commit_message_regex: '^Add' });
    await owner.put(`${at}/rebase`);
    await app().settle();
    expect((await owner.get(at)).body.merge_error).toMatch(/^Rebase failed: .*commit_message_regex/);
    expect(await tipOf(owner, path, 'feature')).toBe(head);
  });

  it('is for those who may rewrite the source branch of an open merge request', async () => {
    const { owner, reporter, stranger, path, at } = await makeMergeRequest(app());
    expect(await reporter.put(`${at}/rebase`)).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - Cannot push to source branch' },
    });
    expect((await stranger.put(`${at}/rebase`)).status).toBe(404);
    expect((await app().anonymous.put(`${at}/rebase`)).status).toBe(401);
    await owner.post(`${path}/protected_branches`, { name: 'feature' });
    expect(await owner.put(`${at}/rebase`)).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - Source branch is protected from force push' },
    });
    await owner.delete(`${path}/protected_branches/feature`);
    await owner.put(at, { state_event: 'close' });
    expect((await owner.put(`${at}/rebase`)).status).toBe(409);
    await owner.delete(`${path}/repository/branches/feature`);
    expect(await owner.put(`${at}/rebase`)).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - Source branch does not exist' },
    });
  });

  it('keeps the merge request from being merged or rebased meanwhile', async () => {
    const { owner, at, id, head, people } = await makeMergeRequest(app());
    const rebasing = JSON.stringify({ user_id: people.owner.id, skip_ci: false, head, oid: null });
    await app().hub.services.db.updateTable('merge_requests').set({ rebasing }).where('id', '=', id).execute();
    expect((await owner.get(`${at}?include_rebase_in_progress=true`)).body).toMatchObject({
      rebase_in_progress: true,
      detailed_merge_status: 'checking',
    });
    expect((await owner.put(`${at}/rebase`)).status).toBe(409);
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
  });

  it('brings the target branch to a fork', async () => {
    const { owner, path, project, people } = await makeMergeRequest(app(), { visibility: 'public' });
    const contributor = app().as(people.stranger);
    const { own, request } = await makeMergeRequestFromFork(app(), contributor, { path, project });
    const target = await commit(owner, path, 'main', 'later.txt');
    await app().settle();
    const at = `${path}/merge_requests/${request.iid}`;
    expect((await owner.put(`${at}/rebase`)).status).toBe(403);
    expect((await contributor.put(`${at}/rebase`)).status).toBe(202);
    await app().settle();
    const tip = await tipOf(contributor, own, 'mine');
    expect((await contributor.get(`${own}/repository/commits/${tip}`)).body.parent_ids).toEqual([target]);
    expect((await owner.get(at)).body).toMatchObject({ sha: tip, detailed_merge_status: 'mergeable' });
  });

  it('works over GraphQL', async () => {
    const { owner, path, project, target } = await makeMergeRequest(app());
    const { data } = await owner.graphql(
      `mutation ($input: MergeRequestRebaseInput!) {
        mergeRequestRebase(input: $input) { mergeRequest { rebaseInProgress } errors } }`,
      { input: { projectPath: project.path_with_namespace, iid: '1', skipCi: true } },
    );
    expect(data.mergeRequestRebase).toEqual({ mergeRequest: { rebaseInProgress: true }, errors: [] });
    await app().settle();
    const { body: commits } = await owner.get(`${path}/repository/commits?ref_name=feature`);
    expect(commits[2].id).toBe(target);
  });
});

describe('the merge ref', () => {
  it('names a merge of both branches while they merge cleanly', async () => {
    const { owner, path, at, head, target, stranger, project } = await makeMergeRequest(app());
    const { git, db } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const ref = () => git.resolve(disk_path, 'refs/merge-requests/1/merge');
    const oid = await ref();
    expect((await git.readCommits(disk_path, [oid ?? '']))[0]?.parent_ids).toEqual([target, head]);
    expect((await owner.get(`${at}/merge_ref`)).body).toEqual({ commit_id: oid });
    const later = await commit(owner, path, 'main', 'later.txt');
    const { body } = await owner.get(`${at}/merge_ref`);
    expect((await git.readCommits(disk_path, [body.commit_id]))[0]?.parent_ids).toEqual([later, head]);
    expect((await stranger.get(`${at}/merge_ref`)).status).toBe(404);
    await commit(owner, path, 'main', 'one.txt', 'something else\n');
    expect(await owner.get(`${at}/merge_ref`)).toMatchObject({
      status: 400,
      body: { message: 'Merge request is not mergeable' },
    });
    expect(await ref()).toBeNull();
  });

  it('goes with the merge request', async () => {
    const { owner, at, project } = await makeMergeRequest(app());
    const { git, db } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect((await owner.delete(at)).status).toBe(204);
    await app().settle();
    expect(await git.listRefs(disk_path, { prefix: 'refs/merge-requests/' })).toEqual([]);
  });
});

describe('the merge ref of a closed merge request', () => {
  it('is removed after two weeks, unless it was reopened', async () => {
    const { owner, at, project, id } = await makeMergeRequest(app());
    const { git, db } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const refs = async () =>
      [
        ...(await git.refValues(disk_path, ['refs/merge-requests/1/head', 'refs/merge-requests/1/merge'])).keys(),
      ].sort();
    const runNow = async () => {
      await app()
        .context()
        .transaction(async (tx) => tx.enqueue(removeMergeRef, { id }));
      await app().settle();
    };
    const waiting = async () => {
      const jobs = await db
        .withTables<{ 'graphile_worker.jobs': { key: string | null; run_at: Date | string } }>()
        .selectFrom('graphile_worker.jobs')
        .select('run_at')
        .where('key', '=', `merge_requests.remove_merge_ref:${id}`)
        .execute();
      return jobs.map(({ run_at }) => Math.round((new Date(run_at).getTime() - Date.now()) / 86_400_000));
    };
    await owner.put(at, { state_event: 'close' });
    expect(await waiting()).toEqual([14]);
    await owner.put(at, { state_event: 'reopen' });
    await app().settle();
    await runNow();
    expect(await refs()).toHaveLength(2);
    await owner.put(at, { state_event: 'close' });
    await app().settle();
    expect(await refs()).toHaveLength(2);
    await runNow();
    expect(await refs()).toEqual(['refs/merge-requests/1/head']);
    await runNow();
  });
});

describe('a merge request whose status is open', () => {
  it('is checked again when somebody reads it', async () => {
    const { owner, at, id } = await makeMergeRequest(app());
    const { db } = app().hub.services;
    await db.updateTable('merge_requests').set({ merge_status: 'unchecked' }).where('id', '=', id).execute();
    expect((await owner.get(at)).body.detailed_merge_status).toBe('unchecked');
    await app().settle();
    expect((await owner.get(at)).body.detailed_merge_status).toBe('mergeable');
  });
});
