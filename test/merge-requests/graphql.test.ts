import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';
import { insertDiff, insertMergeRequest, insertPipeline } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;
const SHA = 'a1'.repeat(20);

const DETAILS = `{ id iid title description descriptionHtml state draft sourceBranch targetBranch
  sourceProject { fullPath } targetProject { fullPath } project { id } projectId
  author { username } assignees { count nodes { username } } reviewers { nodes { username } } approvedBy { nodes { username } }
  labels { nodes { title } } milestone { title } createdAt mergedAt mergeUser { username }
  mergeStatusEnum detailedMergeStatus conflicts squash squashOnMerge discussionLocked diffHeadSha
  diffRefs { baseSha headSha } diffStats { path additions deletions } diffStatsSummary { additions deletions changes fileCount }
  commitCount commits { count nodes { sha title authoredDate } } headPipeline { iid status mergeRequest { iid } }
  pipelines { count nodes { iid } } taskCompletionStatus { count completedCount } timeEstimate totalTimeSpent
  humanTimeEstimate upvotes userNotesCount webUrl webPath reference(full: true)
  userPermissions { readMergeRequest updateMergeRequest removeMergeRequest } }`;

describe('MergeRequest', () => {
  it('is read by project and number, or by its id', async () => {
    const { project, people, owner, reporter, guest, stranger } = await makeScene(app());
    const mr = await insertMergeRequest(db(), {
      project_id: project.id,
      description: '- [x] done',
      author_id: people.reporter.id,
      diff_head_sha: SHA,
      merge_status: 'can_be_merged',
    });
    await db()
      .insertInto('merge_request_assignees')
      .values({ merge_request_id: mr.id, user_id: people.maintainer.id })
      .execute();
    await insertDiff(db(), mr.id, {
      shas: [SHA],
      files: [{ new_path: 'a', diff: '--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n-x\n+y\n+z\n same\n' }],
    });
    await insertPipeline(db(), { project_id: project.id, ref: 'other', sha: SHA, merge_request_id: mr.id });
    const query = `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") ${DETAILS} } }`;
    const { data, errors } = await owner.graphql(query, { path: project.path_with_namespace });
    expect(errors).toBeUndefined();
    expect(data.project.mergeRequest).toMatchObject({
      id: `gid://gitlab/MergeRequest/${mr.id}`,
      iid: '1',
      state: 'opened',
      sourceProject: { fullPath: project.path_with_namespace },
      author: { username: people.reporter.username },
      assignees: { count: 1, nodes: [{ username: people.maintainer.username }] },
      reviewers: { nodes: [] },
      mergeStatusEnum: 'CAN_BE_MERGED',
      detailedMergeStatus: 'MERGEABLE',
      diffRefs: { baseSha: 'b'.repeat(40), headSha: SHA },
      diffStats: [{ path: 'a', additions: 2, deletions: 1 }],
      diffStatsSummary: { additions: 2, deletions: 1, changes: 3, fileCount: 1 },
      commitCount: 1,
      commits: { count: 1, nodes: [{ sha: SHA, title: 'Commit 0', authoredDate: '2026-01-02T10:00:00.000Z' }] },
      headPipeline: { iid: '1', status: 'SUCCESS', mergeRequest: { iid: '1' } },
      pipelines: { count: 1, nodes: [{ iid: '1' }] },
      taskCompletionStatus: { count: 1, completedCount: 1 },
      webPath: `/${project.path_with_namespace}/-/merge_requests/1`,
      reference: `${project.path_with_namespace}!1`,
      userPermissions: { readMergeRequest: true, updateMergeRequest: true, removeMergeRequest: true },
    });
    const byId = `{ mergeRequest(id: "gid://gitlab/MergeRequest/${mr.id}") { title author { username } } }`;
    expect((await reporter.graphql(byId)).data.mergeRequest).toEqual({
      title: mr.title,
      author: { username: people.reporter.username },
    });
    for (const client of [guest, stranger, app().anonymous]) {
      expect((await client.graphql(byId)).data.mergeRequest).toBeNull();
    }
    const hidden = await guest.graphql(
      `query ($path: ID!) { project(fullPath: $path) { id mergeRequest(iid: "1") { id } mergeRequests { count } pipelines { count } jobs { count } } }`,
      { path: project.path_with_namespace },
    );
    expect(hidden.data.project).toMatchObject({ mergeRequest: null, mergeRequests: null, pipelines: null, jobs: null });
    await owner.put(`/projects/${project.id}`, { visibility: 'public', merge_requests_access_level: 'private' });
    const ofPipeline = await stranger.graphql(
      `query ($path: ID!) { project(fullPath: $path) { pipeline(iid: "1") { iid mergeRequest { id } } } }`,
      { path: project.path_with_namespace },
    );
    expect(ofPipeline.data.project.pipeline).toEqual({ iid: '1', mergeRequest: null });
    const none = await owner.graphql(
      `query ($path: ID!) { project(fullPath: $path) { a: mergeRequest(iid: "x") { id } b: mergeRequest(iid: "99") { id } } }`,
      { path: project.path_with_namespace },
    );
    expect(none).toEqual({ data: { project: { a: null, b: null } } });
  });

  it('is listed with filters and pages below projects, groups and users', async () => {
    const { project, group, people, owner, reporter, guest } = await makeScene(app());
    const project_id = project.id;
    const author_id = people.reporter.id;
    for (const title of ['b', 'c', 'a']) await insertMergeRequest(db(), { project_id, title, author_id });
    await insertMergeRequest(db(), { project_id, title: 'd', state: 'merged', merged_at: '2026-01-01T00:00:00Z' });
    const list = async (args: string) => {
      const { data, errors } = await owner.graphql(
        `query ($path: ID!) { project(fullPath: $path) { mergeRequests${args} {
          count nodes { title webUrl } pageInfo { endCursor hasNextPage } } } }`,
        { path: project.path_with_namespace },
      );
      expect([args, errors]).toEqual([args, undefined]);
      const { count, nodes, pageInfo } = data.project.mergeRequests;
      return { count, titles: nodes.map((each: { title: string }) => each.title).join(''), pageInfo };
    };
    expect(await list('')).toMatchObject({ count: 4, titles: 'dacb' });
    expect((await list('(sort: TITLE_ASC)')).titles).toBe('abcd');
    expect((await list('(sort: MERGED_AT_DESC, first: 1)')).titles).toBe('d');
    expect((await list('(state: merged)')).titles).toBe('d');
    expect((await list('(state: all, iids: ["1", "3"], sort: created_asc)')).titles).toBe('ba');
    expect((await list(`(authorUsername: "${people.reporter.username}", search: "a")`)).titles).toBe('a');
    expect((await list(`(not: { authorUsername: "${people.reporter.username}" })`)).titles).toBe('d');
    expect((await list('(sourceBranches: ["feature-2"])')).titles).toBe('c');
    const first = await list('(sort: TITLE_ASC, first: 3)');
    expect(first).toMatchObject({ titles: 'abc', pageInfo: { hasNextPage: true } });
    expect((await list(`(sort: TITLE_ASC, after: "${first.pageInfo.endCursor}")`)).titles).toBe('d');
    expect((await list('(sort: TITLE_ASC, last: 2)')).titles).toBe('cd');

    const elsewhere = `query ($path: ID!, $name: String!) {
      group(fullPath: $path) { mergeRequests { count nodes { title } } }
      user(username: $name) { authoredMergeRequests(state: opened) { count nodes { title project { fullPath } } }
        assignedMergeRequests { count } reviewRequestedMergeRequests { count } } }`;
    const variables = { path: group.full_path, name: people.reporter.username };
    const seen = await reporter.graphql(elsewhere, variables);
    expect(seen.errors).toBeUndefined();
    expect(seen.data.group.mergeRequests.count).toBe(4);
    expect(seen.data.user).toMatchObject({
      authoredMergeRequests: { count: 3 },
      assignedMergeRequests: { count: 0 },
      reviewRequestedMergeRequests: { count: 0 },
    });
    const unseen = await guest.graphql(elsewhere, variables);
    expect(unseen.data.group.mergeRequests).toEqual({ count: 0, nodes: [] });
    expect(unseen.data.user.authoredMergeRequests).toEqual({ count: 0, nodes: [] });
  });

  it('is loaded with its author below groups and projects with no more statements for many than for one', async () => {
    const { make } = app();
    const owner = await make.user();
    const parent = await make.group({}, owner);
    const fill = async (amount: number) => {
      const group = await make.group({ parent_id: parent.id }, owner);
      const project = await make.project({ namespace_id: group.id }, owner);
      for (let i = 0; i < amount; i++) {
        await insertMergeRequest(db(), { project_id: project.id, author_id: (await make.user()).id });
      }
    };
    const query = `query ($path: ID!) { group(fullPath: $path) { descendantGroups(first: 5) { nodes { fullPath
      projects(first: 5) { nodes { name mergeRequests(first: 10) { nodes { iid title author { username }
        labels(first: 2) { nodes { title } } assignees(first: 2) { nodes { name } } } } } } } } } }`;
    const client = app().as(owner);
    const run = () => client.graphql(query, { path: parent.full_path });
    await fill(1);
    await run();
    const forOne = await countStatements(app(), run);
    await fill(5);
    await fill(3);
    const { data, errors } = await run();
    expect(errors).toBeUndefined();
    const found = data.group.descendantGroups.nodes.flatMap(
      (group: { projects: { nodes: { mergeRequests: { nodes: { author: { username: string } }[] } }[] } }) =>
        group.projects.nodes.flatMap((project) => project.mergeRequests.nodes),
    );
    expect(found).toHaveLength(9);
    expect(found.every((each: { author: { username: string } | null }) => each.author !== null)).toBe(true);
    expect(await countStatements(app(), run)).toBeLessThanOrEqual(forOne);
  });
});
