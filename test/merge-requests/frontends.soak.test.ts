import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { countStatements } from '../support/statements.ts';
import { commit, makeMergeRequestFromFork } from './merge-scene.ts';
import { insertMergeRequest } from './support.ts';

// The fields that frontends ask for, under their names (reference: merge-requests §8).

const app = useApp();

const BOX = `iid state mergeable mergeOngoing mergeableDiscussionsState divergedFromTargetBranch squashReadOnly hasCi sourceBranchExists targetBranchExists
  sourceBranchProtected shouldBeRebased userPermissions { canMerge updateMergeRequest pushToSourceBranch canApprove }`;

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), { initialize_with_readme: true, ...attributes });
  const { owner, path, project } = scene;
  await owner.post(`${path}/repository/commits`, {
    branch: 'topic',
    start_branch: 'main',
    commit_message: 'Change',
    actions: [{ action: 'create', file_path: 'a.txt', content: 'x\n' }],
  });
  const named = { projectPath: project.path_with_namespace, iid: '1' };
  await mutate(
    owner,
    'mergeRequestCreate',
    { projectPath: named.projectPath, title: 'Change', sourceBranch: 'topic', targetBranch: 'main', labels: ['a'] },
    'mergeRequest { iid labels { nodes { title } } }',
  );
  await app().settle();
  return { ...scene, named, at: `${path}/merge_requests/1` };
};

describe('the dashboard', () => {
  it('lists merge requests that the caller wrote, is assigned to and reviews', async () => {
    const { owner, people, named, reporter, stranger } = await setUp();
    const { username } = people.reporter;
    await mutate(owner, 'mergeRequestSetAssignees', { ...named, assigneeUsernames: [username] });
    await mutate(owner, 'mergeRequestSetReviewers', {
      ...named,
      reviewerUsernames: [username],
      operationMode: 'APPEND',
    });
    const query = `{ currentUser {
      authoredMergeRequests(state: opened, first: 20) { count nodes { iid title } }
      assignedMergeRequests(state: opened, first: 20) { count nodes { iid project { fullPath } } }
      reviewRequestedMergeRequests(state: opened, first: 20) { count nodes { iid reviewers { nodes { username } } } } } }`;
    const mine = (await owner.graphql(query)).data.currentUser;
    expect(mine).toMatchObject({ authoredMergeRequests: { count: 1 }, assignedMergeRequests: { count: 0 } });
    expect((await reporter.graphql(query)).data.currentUser).toEqual({
      authoredMergeRequests: { count: 0, nodes: [] },
      assignedMergeRequests: { count: 1, nodes: [{ iid: '1', project: { fullPath: named.projectPath } }] },
      reviewRequestedMergeRequests: { count: 1, nodes: [{ iid: '1', reviewers: { nodes: [{ username }] } }] },
    });
    await owner.delete(`/projects/${encodeURIComponent(named.projectPath)}/members/${people.reporter.id}`);
    for (const client of [reporter, stranger]) {
      expect((await client.graphql(query)).data.currentUser.assignedMergeRequests).toEqual({ count: 0, nodes: [] });
    }
  });
});

describe('the box that offers to merge', () => {
  const query = `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") { ${BOX} } } }`;

  it('shows the obstacles, and the rights of the caller', async () => {
    const { owner, maintainer, reporter, stranger, named, path } = await setUp({ squash_option: 'always' });
    const read = async (client: typeof owner) =>
      (await client.graphql(query, { path: named.projectPath })).data.project?.mergeRequest;
    expect(await read(owner)).toEqual({
      iid: '1',
      state: 'opened',
      mergeable: true,
      mergeOngoing: false,
      mergeableDiscussionsState: true,
      divergedFromTargetBranch: false,
      squashReadOnly: true,
      hasCi: false,
      sourceBranchExists: true,
      targetBranchExists: true,
      sourceBranchProtected: false,
      shouldBeRebased: false,
      userPermissions: {
        canMerge: true,
        updateMergeRequest: true,
        pushToSourceBranch: true,
        canApprove: expect.any(Boolean),
      },
    });
    expect(await read(reporter)).toMatchObject({
      userPermissions: { canMerge: false, updateMergeRequest: false, pushToSourceBranch: false },
    });
    expect(await read(stranger)).toBeUndefined();
    await owner.post(`${path}/protected_branches`, { name: 'topic' });
    await owner.delete(`${path}/protected_branches/main`);
    await owner.post(`${path}/protected_branches`, { name: 'main', push_access_level: 0, merge_access_level: 0 });
    await mutate(owner, 'mergeRequestSetDraft', { ...named, draft: true });
    expect(await read(maintainer)).toMatchObject({
      mergeable: false,
      sourceBranchProtected: true,
      userPermissions: { canMerge: false },
    });
    await mutate(owner, 'mergeRequestUpdate', { ...named, removeSourceBranch: true, targetBranch: 'gone' });
    expect(await read(owner)).toMatchObject({ targetBranchExists: false });
  });

  it('shows the issues that it closes, the messages of the merge, and the reviews', async () => {
    const { owner, maintainer, stranger, people, named, path, at } = await setUp({ visibility: 'public' });
    for (const title of ['One', 'Two']) await owner.post(`${path}/issues`, { title });
    await owner.post(`${path}/issues`, { title: 'Hidden', confidential: true });
    await owner.put(at, { description: 'Closes #1. See #2 and #3.', reviewer_ids: [people.maintainer.id] });
    await app().settle();
    const details = `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") {
      closesIssues { count nodes { iid } } relatedIssues { nodes { iid } }
      defaultMergeCommitMessage defaultSquashCommitMessage
      reviewers { nodes { username mergeRequestInteraction { approved reviewed reviewState } } } } } }`;
    const read = async (client: typeof owner) =>
      (await client.graphql(details, { path: named.projectPath })).data.project.mergeRequest;
    const { username } = people.maintainer;
    const iids = (...all: string[]) => ({ nodes: all.map((iid) => ({ iid })) });
    expect(await read(owner)).toEqual({
      closesIssues: { count: 1, ...iids('1') },
      relatedIssues: iids('1', '2', '3'),
      defaultMergeCommitMessage: `Merge branch 'topic' into 'main'\n\nChange\n\nCloses #1\n\nSee merge request ${named.projectPath}!1`,
      defaultSquashCommitMessage: 'Change',
      reviewers: {
        nodes: [{ username, mergeRequestInteraction: { approved: false, reviewed: false, reviewState: 'UNREVIEWED' } }],
      },
    });
    await maintainer.post(`${at}/approve`);
    expect((await read(owner)).reviewers.nodes).toEqual([
      { username, mergeRequestInteraction: { approved: true, reviewed: true, reviewState: 'APPROVED' } },
    ]);
    expect((await read(stranger)).relatedIssues).toEqual(iids('1', '2'));
    expect(await read(app().anonymous)).toMatchObject({ defaultMergeCommitMessage: null, closesIssues: { count: 1 } });
  });

  it('lets an author below Developer change what they proposed', async () => {
    const { path, named, owner, project } = await setUp({ visibility: 'public' });
    const contributor = app().as(await app().make.user());
    await makeMergeRequestFromFork(app(), contributor, { path, project });
    const read = async (client: typeof owner, iid: string) => {
      const { data } = await client.graphql(
        `query ($path: ID!, $iid: String!) { project(fullPath: $path) { mergeRequest(iid: $iid) {
          userPermissions { updateMergeRequest adminMergeRequest } } } }`,
        { path: named.projectPath, iid },
      );
      return data.project.mergeRequest.userPermissions;
    };
    expect(await read(contributor, '2')).toEqual({ updateMergeRequest: true, adminMergeRequest: false });
    expect(await read(contributor, '1')).toEqual({ updateMergeRequest: false, adminMergeRequest: false });
    expect(await read(owner, '2')).toEqual({ updateMergeRequest: true, adminMergeRequest: true });
  });

  it('shows whether threads and new commits of the target are in the way, and which commits are no merges', async () => {
    const { owner, named, path, at } = await setUp({ only_allow_merge_if_all_discussions_are_resolved: true });
    await commit(owner, path, 'main', 'other.txt');
    await owner.post(`${at}/discussions`, { body: 'Why?' });
    await app().settle();
    const read = async () => {
      const { data } = await owner.graphql(
        `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") {
          divergedFromTargetBranch mergeableDiscussionsState commitCount
          commits { nodes { title } } commitsWithoutMergeCommits(first: 1) { count nodes { title } pageInfo { hasNextPage } } } } }`,
        { path: named.projectPath },
      );
      return data.project.mergeRequest;
    };
    expect(await read()).toMatchObject({ divergedFromTargetBranch: true, mergeableDiscussionsState: false });
    // The other way round.
    await owner.post(`${path}/merge_requests`, { source_branch: 'main', target_branch: 'topic', title: 'Catch up' });
    expect((await owner.put(`${path}/merge_requests/2/merge`)).status).toBe(200);
    await app().settle();
    expect(await read()).toEqual({
      divergedFromTargetBranch: false,
      mergeableDiscussionsState: false,
      commitCount: 2,
      commits: { nodes: [{ title: "Merge branch 'main' into 'topic'" }, { title: 'Change' }] },
      commitsWithoutMergeCommits: { count: 1, nodes: [{ title: 'Change' }], pageInfo: { hasNextPage: false } },
    });
  });

  it('shows which reviewers can merge', async () => {
    const { owner, people, named, path, project, at } = await setUp();
    const [developer, mate] = await app().make.users(2);
    if (!developer || !mate) throw new Error('there are too few users');
    await app().make.projectMember(project, developer, 30);
    const team = await app().make.group({ visibility: 'public' }, people.owner);
    await app().make.groupMember(team, mate, 30);
    expect((await owner.post(`${path}/share`, { group_id: team.id, group_access: 30 })).status).toBe(201);
    const reviewers = { maintainer: people.maintainer, reporter: people.reporter, developer, mate };
    await owner.put(at, { reviewer_ids: Object.values(reviewers).map(({ id }) => id) });
    const query = `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") {
      reviewers { nodes { username mergeRequestInteraction { canMerge } } } } } }`;
    const whoCan = async () => {
      const { data } = await owner.graphql(query, { path: named.projectPath });
      const nodes: { username: string; mergeRequestInteraction: { canMerge: boolean } }[] =
        data.project.mergeRequest.reviewers.nodes;
      const names = nodes.flatMap((node) => (node.mergeRequestInteraction.canMerge ? node.username : []));
      return Object.entries(reviewers).flatMap(([role, { username }]) => (names.includes(username) ? role : []));
    };
    expect(await whoCan()).toEqual(['maintainer']);
    await owner.delete(`${path}/protected_branches/main`);
    expect(await whoCan()).toEqual(['maintainer', 'developer', 'mate']);
    const allowed_to_merge = [{ user_id: developer.id }, { group_id: team.id }];
    const rule = { name: 'ma*', push_access_level: 0, allowed_to_merge };
    expect((await owner.post(`${path}/protected_branches`, rule)).status).toBe(201);
    expect(await whoCan()).toEqual(['developer', 'mate']);
    await owner.post(`${path}/archive`);
    expect(await whoCan()).toEqual([]);
  });

  it('takes no more statements for many than for one', async () => {
    const { owner, project } = await setUp();
    const list = `query ($path: ID!) { project(fullPath: $path) { mergeRequests(first: 20) { nodes { ${BOX} } } } }`;
    const run = () => owner.graphql(list, { path: project.path_with_namespace });
    await run();
    const forOne = await countStatements(app(), run);
    for (let i = 0; i < 8; i++) await insertMergeRequest(app().hub.services.db, { project_id: project.id });
    expect((await run()).data.project.mergeRequests.nodes).toHaveLength(9);
    expect(await countStatements(app(), run)).toBeLessThanOrEqual(forOne);
  });

  it('merges with the errors that frontends know', async () => {
    const { owner, named, at, path } = await setUp();
    const { sha } = (await owner.get(at)).body;
    const accept = async (input: Record<string, unknown>) => {
      const { data } = await owner.graphql(
        `mutation ($input: MergeRequestAcceptInput!) { mergeRequestAccept(input: $input) { mergeRequest { state } errors } }`,
        { input: { ...named, sha, ...input } },
      );
      return data.mergeRequestAccept;
    };
    expect(await accept({ sha: '0'.repeat(40) })).toEqual({
      mergeRequest: null,
      errors: ['The merge-head is not at the anticipated SHA'],
    });
    await mutate(owner, 'mergeRequestSetDraft', { ...named, draft: true });
    expect((await accept({})).errors).toEqual(['This branch cannot be merged']);
    await mutate(owner, 'mergeRequestSetDraft', { ...named, draft: false });
    await owner.post(`${path}/push_rule`, { commit_message_regex: '^Never' });
    expect((await accept({})).errors).toEqual(['Pre-merge hooks failed']);
    await owner.delete(`${path}/push_rule`);
    expect(await accept({})).toEqual({ mergeRequest: { state: 'merged' }, errors: [] });
    expect((await accept({})).errors).toEqual(['This branch cannot be merged']);
  });
});

describe('a frontend', () => {
  it('opens, changes and deletes merge requests with all that REST takes', async () => {
    const { owner, maintainer, stranger, path, project, people, named } = await setUp({ visibility: 'public' });
    const { body: milestone } = await owner.post(`${path}/milestones`, { title: 'm' });
    await owner.post(`${path}/repository/branches`, { branch: 'second', ref: 'topic' });
    const gidOf = ({ id }: { readonly id: number }) => `gid://gitlab/User/${id}`;
    const fields = `mergeRequest { iid squash allowCollaboration forceRemoveSourceBranch mergeAfter milestone { title }
      assignees { nodes { username } } reviewers { nodes { username } } }`;
    const created = await mutate(
      owner,
      'mergeRequestCreate',
      {
        projectPath: named.projectPath,
        title: 'With everything',
        sourceBranch: 'second',
        targetBranch: 'main',
        assigneeIds: [gidOf(people.maintainer)],
        reviewerIds: [gidOf(people.reporter)],
        milestoneId: `gid://gitlab/Milestone/${milestone.id}`,
        mergeAfter: '2030-01-01T00:00:00Z',
        squash: true,
        removeSourceBranch: true,
        allowCollaboration: true,
      },
      fields,
    );
    expect(created.mergeRequest).toEqual({
      iid: '2',
      squash: true,
      // Only of forks.
      allowCollaboration: false,
      forceRemoveSourceBranch: true,
      mergeAfter: '2030-01-01T00:00:00.000Z',
      milestone: { title: 'm' },
      assignees: { nodes: [{ username: people.maintainer.username }] },
      reviewers: { nodes: [{ username: people.reporter.username }] },
    });
    const contributor = app().as(await app().make.user());
    await makeMergeRequestFromFork(app(), contributor, { path, project });
    const fromFork = { projectPath: named.projectPath, iid: '3', allowCollaboration: true };
    const allowed = await mutate(contributor, 'mergeRequestUpdate', fromFork, fields);
    expect(allowed.mergeRequest).toMatchObject({ iid: '3', allowCollaboration: true });
    const one = { projectPath: named.projectPath, iid: '2' };
    const changed = await mutate(
      owner,
      'mergeRequestUpdate',
      { ...one, squash: false, removeSourceBranch: false },
      fields,
    );
    expect(changed.mergeRequest).toMatchObject({ squash: false, forceRemoveSourceBranch: false });
    for (const client of [maintainer, stranger]) {
      const refused = await client.graphql(
        'mutation ($input: MergeRequestDeleteInput!) { mergeRequestDelete(input: $input) { errors } }',
        { input: one },
      );
      expect(refused.errors).toHaveLength(1);
    }
    expect((await owner.get(`${path}/merge_requests/2`)).status).toBe(200);
    await mutate(owner, 'mergeRequestDelete', one);
    expect((await owner.get(`${path}/merge_requests/2`)).status).toBe(404);
  });
});

describe('lists without page sizes', () => {
  it('may hold the small lists of their items', async () => {
    const { owner, named } = await setUp();
    const people = '{ nodes { username } }';
    for (const list of [
      `issues { nodes { iid labels { nodes { title } } assignees ${people} participants ${people}
        closingMergeRequests { nodes { iid } } relatedMergeRequests { nodes { iid } } } }`,
      `mergeRequests { nodes { iid labels { nodes { title } } assignees ${people} reviewers ${people}
        approvedBy ${people} participants ${people} closesIssues { nodes { iid } } relatedIssues { nodes { iid } } } }`,
      `mergeRequest(iid: "1") { discussions { nodes { notes { nodes { body author { username } } } } }
        approvalState { rules { approvedBy ${people} } } }`,
      'pipelines { nodes { id jobs { nodes { name status artifacts { nodes { downloadPath } } } } } }',
      'pipelines { nodes { id stages { nodes { name jobs { nodes { name } } } } } }',
      `approvalRules { nodes { users ${people} eligibleApprovers ${people} groups { nodes { fullPath } } } }`,
    ]) {
      const query = `query ($path: ID!) { queryComplexity { score limit } project(fullPath: $path) { ${list} } }`;
      const { data, errors } = await owner.graphql(query, { path: named.projectPath });
      expect(errors, list).toBeUndefined();
      expect(data.queryComplexity.score).toBeLessThanOrEqual(data.queryComplexity.limit);
    }
  });
});
