import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { commitFile, runGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { insertDiff, insertMergeRequest, insertPipeline } from './support.ts';

const app = useApp();
const folder = useFolder();
const db = () => app().hub.services.db;
const SHA = 'a1'.repeat(20);

const titles = ({ body }: { body: { title: string }[] }) => body.map((each) => each.title);

/** Creates a merge request with data in every part. */
const fullMergeRequest = async (projectId: number, authorId: number, mergerId: number) => {
  const milestone = await db()
    .insertInto('milestones')
    .values({ project_id: projectId, iid: 1, title: 'v1' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const label = await db()
    .insertInto('labels')
    .values({ project_id: projectId, title: 'Bug', color: '#ff0000' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const mr = await insertMergeRequest(db(), {
    project_id: projectId,
    title: 'Add <b>all</b>',
    description: '- [x] one\n- [ ] two',
    author_id: authorId,
    merge_user_id: mergerId,
    state: 'merged',
    merged_at: '2026-01-05T12:00:00Z',
    prepared_at: '2026-01-02T12:00:01.5Z',
    milestone_id: milestone.id,
    diff_head_sha: SHA,
    merge_status: 'can_be_merged',
    time_estimate: 3_600,
    squash: true,
    imported: true,
  });
  await db().insertInto('label_links').values({ label_id: label.id, merge_request_id: mr.id }).execute();
  await db().insertInto('merge_request_assignees').values({ merge_request_id: mr.id, user_id: mergerId }).execute();
  await db().insertInto('merge_request_reviewers').values({ merge_request_id: mr.id, user_id: authorId }).execute();
  await db().insertInto('merge_request_approvals').values({ merge_request_id: mr.id, user_id: mergerId }).execute();
  await db()
    .insertInto('award_emoji')
    .values({ name: 'thumbsup', user_id: mergerId, merge_request_id: mr.id })
    .execute();
  await db().insertInto('timelogs').values({ merge_request_id: mr.id, user_id: mergerId, time_spent: 1_800 }).execute();
  const note = { project_id: projectId, noteable_type: 'MergeRequest', merge_request_id: mr.id, author_id: authorId };
  await db()
    .insertInto('notes')
    .values([
      { ...note, note: 'Why?', type: 'DiscussionNote', discussion_id: 'd'.repeat(40) },
      { ...note, note: 'merged', system: true, discussion_id: 'e'.repeat(40) },
    ])
    .execute();
  await insertDiff(db(), mr.id, {
    shas: [SHA, 'b2'.repeat(20)],
    files: [
      { new_path: 'new.txt', new_file: true, a_mode: '0', diff: '@@ -0,0 +1,2 @@\n+one\n+two\n' },
      { new_path: 'old.txt', diff: '--- a/old.txt\n+++ b/old.txt\n@@ -1 +1 @@\n-x\n+y\n' },
    ],
  });
  return mr;
};

describe('a merge request', () => {
  it('shows everything that is stored about it', async () => {
    const { project, path, owner, people } = await makeScene(app());
    const mr = await fullMergeRequest(project.id, people.reporter.id, people.maintainer.id);
    const pipeline = await insertPipeline(db(), {
      project_id: project.id,
      ref: 'feature-1',
      sha: SHA,
      started_at: '2026-01-03T00:00:00Z',
      finished_at: '2026-01-03T00:01:00Z',
    });
    const { status, body } = await owner.get(
      `${path}/merge_requests/${mr.iid}?render_html=true&include_diverged_commits_count=1&include_rebase_in_progress=1`,
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: mr.id,
      iid: 1,
      project_id: project.id,
      target_project_id: project.id,
      source_project_id: project.id,
      title: 'Add <b>all</b>',
      title_html: 'Add &lt;b&gt;all&lt;/b&gt;',
      state: 'merged',
      imported: true,
      imported_from: 'gitlab_project',
      merged_at: '2026-01-05T12:00:00.000Z',
      prepared_at: '2026-01-02T12:00:01.500Z',
      merged_by: { username: people.maintainer.username },
      merge_user: { username: people.maintainer.username },
      author: { username: people.reporter.username },
      assignee: { username: people.maintainer.username },
      assignees: [{ username: people.maintainer.username }],
      reviewers: [{ username: people.reporter.username }],
      labels: ['Bug'],
      milestone: { title: 'v1' },
      upvotes: 1,
      downvotes: 0,
      user_notes_count: 1,
      blocking_discussions_resolved: true,
      has_conflicts: false,
      merge_status: 'can_be_merged',
      detailed_merge_status: 'not_open',
      sha: SHA,
      squash: true,
      references: { short: '!1', relative: '!1', full: `${project.path_with_namespace}!1` },
      web_url: `${app().url}/${project.path_with_namespace}/-/merge_requests/1`,
      time_stats: {
        time_estimate: 3_600,
        total_time_spent: 1_800,
        human_time_estimate: '1h',
        human_total_time_spent: '30m',
      },
      task_completion_status: { count: 2, completed_count: 1 },
      changes_count: '2',
      diff_refs: { base_sha: 'b'.repeat(40), head_sha: SHA, start_sha: 'c'.repeat(40) },
      pipeline: { id: pipeline.id, status: 'success' },
      head_pipeline: { id: pipeline.id, detailed_status: { label: 'passed' } },
      latest_build_started_at: '2026-01-03T00:00:00.000Z',
      first_contribution: false,
      diverged_commits_count: 0,
      rebase_in_progress: false,
      user: { can_merge: true },
    });
    expect((await app().as(people.reporter).get(`${path}/merge_requests/1`)).body.user).toEqual({ can_merge: false });
  });

  it('computes its changes from the repository on request, if the commits are there', async () => {
    const { project, path, owner, guest, people } = await makeScene(app(), { initialize_with_readme: true });
    const base = (await owner.get(`${path}/repository/commits/main`)).body.id;
    const { body: head } = await owner.post(`${path}/repository/commits`, {
      branch: 'feature-1',
      start_branch: 'main',
      commit_message: 'Real',
      actions: [{ action: 'create', file_path: 'real.txt', content: 'real\n' }],
    });
    const { id } = await insertMergeRequest(db(), { project_id: project.id, author_id: people.owner.id });
    await insertDiff(db(), id, { files: [{ new_path: 'stored.txt' }], shas: [head.id] });
    const changes = async (query = '') => {
      const { status, body } = await owner.get(`${path}/merge_requests/1/changes?${query}`);
      expect(status).toBe(200);
      return body.changes;
    };
    // The stored base is of no commit.
    expect(await changes('access_raw_diffs=true')).toMatchObject([{ new_path: 'stored.txt' }]);
    await db()
      .updateTable('merge_request_diffs')
      .set({ base_commit_sha: base })
      .where('merge_request_id', '=', id)
      .execute();
    expect(await changes()).toMatchObject([{ new_path: 'stored.txt' }]);
    const raw = { new_path: 'real.txt', new_file: true };
    expect(await changes('access_raw_diffs=true')).toMatchObject([{ ...raw, diff: '@@ -0,0 +1 @@\n+real\n' }]);
    expect(await changes('access_raw_diffs=true&unidiff=true')).toMatchObject([
      { ...raw, diff: expect.stringContaining('+++ b/real.txt') },
    ]);
    expect((await guest.get(`${path}/merge_requests/1/changes?access_raw_diffs=true`)).status).toBe(403);
  });

  it('returns its diffs, changes, commits and pipelines', async () => {
    const { project, path, reporter, people } = await makeScene(app());
    await fullMergeRequest(project.id, people.reporter.id, people.maintainer.id);
    const own = await insertPipeline(db(), { project_id: project.id, ref: 'feature-1', sha: SHA });
    await insertPipeline(db(), { project_id: project.id, ref: 'main', sha: SHA });
    await insertPipeline(db(), { project_id: project.id, ref: 'feature-1', sha: 'f'.repeat(40) });
    const base = `${path}/merge_requests/1`;
    const diffs = await reporter.get(`${base}/diffs?per_page=1`);
    expect(diffs.headers.get('x-total')).toBe('2');
    expect(diffs.body).toMatchObject([{ new_path: 'new.txt', new_file: true, diff: '@@ -0,0 +1,2 @@\n+one\n+two\n' }]);
    const { body: unified } = await reporter.get(`${base}/diffs?unidiff=true`);
    expect(unified[0].diff).toMatch(/^--- \/dev\/null\n\+\+\+ b\/new.txt\n@@/);
    expect(unified[1].diff).toMatch(/^--- a\/old.txt\n\+\+\+ b\/old.txt\n@@/);
    const changes = await reporter.get(`${base}/changes`);
    expect(changes.body).toMatchObject({ iid: 1, overflow: false, changes: [{}, { new_path: 'old.txt' }] });
    expect((await reporter.get(`${base}/changes?unidiff=true`)).body.changes).toEqual(unified);
    const commits = await reporter.get(`${base}/commits`);
    expect(commits.body).toMatchObject([
      {
        id: SHA,
        short_id: SHA.slice(0, 8),
        title: 'Commit 0',
        message: 'Commit 0\n\nBody',
        authored_date: '2026-01-02T10:00:00.000Z',
        committed_date: '2026-01-02T11:00:00.000Z',
        trailers: { 'Signed-off-by': 'Ada' },
      },
      { title: 'Commit 1' },
    ]);
    const pipelines = await reporter.get(`${base}/pipelines`);
    expect(pipelines.body.map((each: { id: number }) => each.id)).toEqual([own.id]);
    await insertMergeRequest(db(), { project_id: project.id });
    for (const part of ['diffs', 'commits', 'pipelines']) {
      expect((await reporter.get(`${path}/merge_requests/2/${part}`)).body).toEqual([]);
    }
    expect((await reporter.get(`${path}/merge_requests/2`)).body).toMatchObject({
      diff_refs: null,
      changes_count: null,
      pipeline: null,
      author: null,
    });
    expect((await reporter.get(`${path}/merge_requests/99`)).status).toBe(404);
    expect((await reporter.get(`${path}/merge_requests/x`)).status).toBe(400);
  });

  it('counts by how many commits the target branch is ahead', async () => {
    const { project, path, owner, people } = await makeScene(app());
    const tree = await workTree(folder());
    await runGit(tree, 'checkout', '-q', '-b', 'topic');
    await commitFile(tree, 'topic.txt', 't', 'On the topic');
    await runGit(tree, 'checkout', '-q', 'main');
    for (const name of ['a', 'b']) await commitFile(tree, name, name, `On main: ${name}`);
    const token = await app().tokenOf(people.owner);
    const url = new URL(`${app().url}/${project.path_with_namespace}.git`);
    url.username = 'oauth2';
    url.password = token;
    await runGit(tree, 'push', '-q', String(url), 'main', 'topic');
    await insertMergeRequest(db(), { project_id: project.id, source_branch: 'topic' });
    const { body } = await owner.get(`${path}/merge_requests/1?include_diverged_commits_count=true`);
    expect(body.diverged_commits_count).toBe(2);
  });

  it('reports why it cannot be merged', async () => {
    const { project, path, owner } = await makeScene(app());
    const statusOf = async (attributes: Parameters<typeof insertMergeRequest>[1]) => {
      const { iid } = await insertMergeRequest(db(), attributes);
      return (await owner.get(`${path}/merge_requests/${iid}`)).body.detailed_merge_status;
    };
    const project_id = project.id;
    expect(await statusOf({ project_id })).toBe('unchecked');
    expect(await statusOf({ project_id, merge_status: 'checking' })).toBe('checking');
    expect(await statusOf({ project_id, merge_status: 'can_be_merged' })).toBe('mergeable');
    expect(await statusOf({ project_id, merge_status: 'cannot_be_merged' })).toBe('conflict');
    expect(await statusOf({ project_id, merge_status: 'can_be_merged', draft: true })).toBe('draft_status');
    expect(await statusOf({ project_id, state: 'closed', merge_status: 'can_be_merged' })).toBe('not_open');
    // As existing servers have it, an unknown status comes before the state.
    expect(await statusOf({ project_id, state: 'closed' })).toBe('unchecked');
    await owner.put(path, { only_allow_merge_if_pipeline_succeeds: true });
    expect(await statusOf({ project_id, merge_status: 'can_be_merged' })).toBe('ci_must_pass');
    await insertPipeline(db(), { project_id, ref: 'feature-9', sha: SHA, status: 'running' });
    expect(await statusOf({ project_id, merge_status: 'can_be_merged', diff_head_sha: SHA })).toBe('ci_still_running');
  });
});

describe('lists', () => {
  it('are filtered, sorted and paged', async () => {
    const { project, path, owner, people } = await makeScene(app());
    const project_id = project.id;
    const full = await fullMergeRequest(project_id, people.reporter.id, people.maintainer.id);
    await insertMergeRequest(db(), {
      project_id,
      title: 'Draft: beta',
      draft: true,
      author_id: people.guest.id,
      target_branch: 'stable',
      created_at: '2020-01-01T00:00:00Z',
    });
    await insertMergeRequest(db(), { project_id, title: 'Zeta', description: 'needle', state: 'closed' });
    const list = async (query: string) => {
      const answer = await owner.get(`${path}/merge_requests?${query}`);
      expect([query, answer.status]).toEqual([query, 200]);
      return titles(answer);
    };
    const all = ['Zeta', 'Add <b>all</b>', 'Draft: beta'];
    expect(await list('')).toEqual(all);
    expect(await list('order_by=title&sort=asc')).toEqual(['Add <b>all</b>', 'Draft: beta', 'Zeta']);
    expect((await list('order_by=merged_at'))[0]).toBe('Add <b>all</b>');
    expect(await list('state=merged')).toEqual(['Add <b>all</b>']);
    expect(await list('state=opened')).toEqual(['Draft: beta']);
    expect(await list('iids[]=2&iids[]=3')).toEqual(['Zeta', 'Draft: beta']);
    expect(await list('wip=yes')).toEqual(['Draft: beta']);
    expect(await list('wip=no&state=closed')).toEqual(['Zeta']);
    expect(await list('search=NEEDLE')).toEqual(['Zeta']);
    expect(await list('search=needle&in=title')).toEqual([]);
    // All words, in any order, in the title or in the description.
    expect(await list('search=ALL+add')).toEqual(['Add <b>all</b>']);
    expect(await list('search=add+beta')).toEqual([]);
    expect(await list('search=zeta+needle')).toEqual([]);
    expect(await list('source_branch=feature-3')).toEqual(['Zeta']);
    expect(await list('target_branch=stable')).toEqual(['Draft: beta']);
    expect(await list('created_before=2021-01-01')).toEqual(['Draft: beta']);
    expect(await list('created_after=2021-01-01')).toEqual(['Zeta', 'Add <b>all</b>']);
    expect(await list(`author_id=${people.guest.id}`)).toEqual(['Draft: beta']);
    expect(await list(`author_username=${people.reporter.username.toUpperCase()}`)).toEqual(['Add <b>all</b>']);
    expect(await list('labels=bug')).toEqual(['Add <b>all</b>']);
    expect(await list('labels=bug,other')).toEqual([]);
    expect(await list('labels=None')).toEqual(['Zeta', 'Draft: beta']);
    expect(await list('labels=Any')).toEqual(['Add <b>all</b>']);
    expect(await list('milestone=v1')).toEqual(['Add <b>all</b>']);
    expect(await list('milestone=None')).toEqual(['Zeta', 'Draft: beta']);
    expect(await list(`assignee_id=${people.maintainer.id}`)).toEqual(['Add <b>all</b>']);
    expect(await list('assignee_id=Any')).toEqual(['Add <b>all</b>']);
    expect(await list('assignee_id=0')).toEqual(['Zeta', 'Draft: beta']);
    expect(await list(`reviewer_username=${people.reporter.username}`)).toEqual(['Add <b>all</b>']);
    expect(await list(`approved_by_ids[]=${people.maintainer.id}`)).toEqual(['Add <b>all</b>']);
    expect(await list('approved_by_ids=None')).toEqual(['Zeta', 'Draft: beta']);
    expect(await list('approved=yes')).toEqual(['Add <b>all</b>']);
    expect(await list(`merge_user_username=${people.maintainer.username}`)).toEqual(['Add <b>all</b>']);
    expect(await list('my_reaction_emoji=None')).toEqual(all);
    expect(await list('environment=production')).toEqual([]);
    expect(await list('approver_ids=Any')).toEqual([]);
    expect(await list('approver_ids=None')).toEqual(all);
    expect(await list('not[labels]=bug')).toEqual(['Zeta', 'Draft: beta']);
    // A merge request without an author is not by this user either.
    expect(await list(`not[author_id]=${people.guest.id}`)).toEqual(['Zeta', 'Add <b>all</b>']);
    const simple = await owner.get(`${path}/merge_requests?view=simple&state=merged`);
    expect(Object.keys(simple.body[0]).sort()).toEqual(
      ['created_at', 'description', 'id', 'iid', 'project_id', 'state', 'title', 'updated_at', 'web_url'].sort(),
    );
    const detailed = await owner.get(`${path}/merge_requests?with_labels_details=true&state=merged`);
    expect(detailed.body[0].labels).toMatchObject([{ name: 'Bug', color: '#ff0000' }]);
    const page = await owner.get(`${path}/merge_requests?per_page=2&page=2`);
    expect([titles(page), page.headers.get('x-total')]).toEqual([['Draft: beta'], '3']);
    expect(full.iid).toBe(1);
    for (const bad of ['state=x', 'author_id=1&author_username=a', 'order_by=id', 'iids[]=x', 'assignee_id=x']) {
      expect([bad, (await owner.get(`${path}/merge_requests?${bad}`)).status]).toEqual([bad, 400]);
    }
  });

  it('have the merge requests that the caller may see, over all projects and below a group', async () => {
    const { project, group, owner, people, stranger, guest, reporter } = await makeScene(app());
    const open = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
    const archived = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
    await owner.post(`/projects/${archived.id}/archive`);
    const author_id = people.reporter.id;
    await insertMergeRequest(db(), { project_id: project.id, title: 'secret', author_id });
    await insertMergeRequest(db(), { project_id: open.id, title: 'open', author_id });
    await insertMergeRequest(db(), { project_id: archived.id, title: 'archived' });
    const below = `/groups/${group.id}/merge_requests`;
    expect(titles(await owner.get(below))).toEqual(['open', 'secret']);
    expect(titles(await owner.get(`${below}?non_archived=false`))).toEqual(['archived', 'open', 'secret']);
    expect(titles(await reporter.get(below))).toEqual(['open', 'secret']);
    for (const client of [guest, stranger, app().anonymous]) expect(titles(await client.get(below))).toEqual(['open']);
    expect(titles(await reporter.get('/merge_requests'))).toEqual(['open', 'secret']);
    expect(titles(await owner.get('/merge_requests'))).toEqual([]);
    expect(titles(await owner.get('/merge_requests?scope=all'))).toEqual(expect.arrayContaining(['open', 'secret']));
    expect(titles(await stranger.get('/merge_requests?scope=all'))).not.toContain('secret');
    expect((await app().anonymous.get('/merge_requests')).status).toBe(401);
    await app().make.projectMember(open, people.stranger, 20);
    const [{ references }] = (await reporter.get('/merge_requests')).body;
    expect(references.relative).toBe(`${open.path_with_namespace}!1`);
    await owner.put(`/projects/${open.id}`, { merge_requests_access_level: 'disabled' });
    expect(titles(await owner.get(below))).toEqual(['secret']);
  });
});

describe('access to merge requests', () => {
  it('requires the Reporter role in a private project', async () => {
    const { project, path, owner, maintainer, reporter, planner, guest, stranger } = await makeScene(app());
    await insertMergeRequest(db(), { project_id: project.id });
    for (const suffix of ['', '/1', '/1/diffs', '/1/commits', '/1/changes', '/1/pipelines']) {
      const url = `${path}/merge_requests${suffix}`;
      const statuses = [];
      for (const client of [owner, maintainer, reporter, planner, guest, stranger, app().anonymous]) {
        statuses.push((await client.get(url)).status);
      }
      expect([suffix, statuses]).toEqual([suffix, [200, 200, 200, 403, 403, 404, 404]]);
    }
  });

  it('is open to everyone in a public project, unless the feature is for members only or disabled', async () => {
    const { project, group, path, owner, reporter, planner, guest, stranger } = await makeScene(app(), {
      visibility: 'public',
    });
    await insertMergeRequest(db(), { project_id: project.id });
    const clients = [owner, reporter, planner, guest, stranger, app().anonymous];
    const statuses = async () => {
      const found = [];
      for (const client of clients) found.push((await client.get(`${path}/merge_requests/1`)).status);
      return found;
    };
    const listed = async () => {
      const found = [];
      for (const client of clients) found.push((await client.get(`/groups/${group.id}/merge_requests`)).body.length);
      return found;
    };
    const inGraphql = async () => {
      const found = [];
      const query = `{ project(fullPath: "${project.path_with_namespace}") { mergeRequest(iid: "1") { iid } } }`;
      for (const client of clients) found.push((await client.graphql(query)).data.project.mergeRequest?.iid ?? null);
      return found;
    };
    expect(await statuses()).toEqual([200, 200, 200, 200, 200, 200]);
    for (const part of ['merge_requests_access_level', 'repository_access_level']) {
      await owner.put(path, { [part]: 'private' });
      expect([part, await statuses()]).toEqual([part, [200, 200, 403, 403, 404, 404]]);
      expect([part, await listed()]).toEqual([part, [1, 1, 0, 0, 0, 0]]);
      expect([part, await inGraphql()]).toEqual([part, ['1', '1', null, null, null, null]]);
      await owner.put(path, { [part]: 'enabled' });
    }
    await owner.put(path, { merge_requests_access_level: 'disabled' });
    expect(await statuses()).toEqual([404, 404, 404, 404, 404, 404]);
    expect(await listed()).toEqual([0, 0, 0, 0, 0, 0]);
  });
});
