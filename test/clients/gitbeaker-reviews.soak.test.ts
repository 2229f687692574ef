import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// The methods of gitbeaker for merge requests that gitbeaker-merge-requests.soak.test.ts does not call. Three are left out,
// because gitbeaker 43 sends them with the wrong method or to no known address: `mergeToDefault` is a GET elsewhere,
// `MergeRequestDraftNotes.edit` a PUT, and there are no todos here.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
type Api = InstanceType<typeof Gitlab>;
let owner: TestUser;
let reviewer: TestUser;
let api: Api;
let asReviewer: Api;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  reviewer = await app().make.user();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
  asReviewer = new Gitlab({ host: front.url, token: await app().tokenOf(reviewer) });
});
afterAll(() => front.close());

const refusal = (description: string) => ({ cause: { description: expect.stringContaining(description) } });

/** Creates a project with an open merge request of one commit on `topic`. */
const makeMergeRequest = async (attributes: Record<string, unknown> = {}, description = 'Why') => {
  const { id } = await app().make.project({ initialize_with_readme: true, ...attributes }, owner);
  await api.ProjectMembers.add(id, 40, { userId: reviewer.id });
  const commit = (branch: string, filePath: string, content: string, startBranch?: string) =>
    api.Commits.create(id, branch, `Add ${filePath}`, [{ action: 'create', filePath, content }], {
      ...(startBranch === undefined ? {} : { startBranch }),
    });
  const head = await commit('topic', 'a.txt', 'one\ntwo\nthree\n', 'main');
  await api.MergeRequests.create(id, 'topic', 'main', 'Add a file', { description });
  await app().settle();
  return { id, commit, head };
};

/** The position of a line that `a.txt` has in the merge request. The types of gitbeaker do not name `diff_refs`. */
const positionOf = async (id: number, newLine: string) => {
  const { diff_refs } = (await app().as(owner).get(`/projects/${id}/merge_requests/1`)).body;
  return {
    baseSha: `${diff_refs.base_sha}`,
    startSha: `${diff_refs.start_sha}`,
    headSha: `${diff_refs.head_sha}`,
    positionType: 'text',
    oldPath: 'a.txt',
    newPath: 'a.txt',
    newLine,
  } as const;
};

describe('gitbeaker', () => {
  it('rebases, merges, picks and reverts', async () => {
    const { id, commit } = await makeMergeRequest({ merge_method: 'rebase_merge' });
    const target = await commit('main', 'b.txt', 'more');
    await app().settle();
    expect(await api.MergeRequests.show(id, 1)).toMatchObject({ detailed_merge_status: 'need_rebase' });
    expect(await api.MergeRequests.rebase(id, 1, { skipCI: true })).toMatchObject({ rebase_in_progress: true });
    await app().settle();
    const rebased = await api.MergeRequests.show(id, 1, { includeRebaseInProgress: true });
    expect(rebased).toMatchObject({ detailed_merge_status: 'mergeable', rebase_in_progress: false, merge_error: null });
    expect(await api.Commits.show(id, `${rebased.sha}`)).toMatchObject({ parent_ids: [target.id] });
    const merged = await api.MergeRequests.accept(id, 1, { mergeCommitMessage: 'Accepted', squash: false });
    expect(merged).toMatchObject({ state: 'merged' });
    const { merge_commit_sha } = merged;
    await api.Branches.create(id, 'stable', target.id);
    const picked = await api.Commits.cherryPick(id, `${merge_commit_sha}`, 'stable');
    expect(picked).toMatchObject({ title: 'Accepted' });
    expect(await api.Commits.revert(id, picked.id, 'stable')).toMatchObject({ title: 'Revert "Accepted"' });
  });

  it('configures approvals, and makes, changes and removes their rules', async () => {
    const { id, head } = await makeMergeRequest();
    const options = { mergerequestIId: 1 };
    const changed = await api.MergeRequestApprovals.editConfiguration(id, {
      mergeRequestsAuthorApproval: true,
      resetApprovalsOnPush: false,
    });
    expect(changed).toMatchObject({ merge_requests_author_approval: true, reset_approvals_on_push: false });
    expect(await api.MergeRequestApprovals.showConfiguration(id)).toMatchObject(changed);
    const rule = await api.MergeRequestApprovals.createApprovalRule(id, 'Security', 1, { userIds: [reviewer.id] });
    expect(rule).toMatchObject({ rule_type: 'regular', users: [{ id: reviewer.id }] });
    const renamed = await api.MergeRequestApprovals.editApprovalRule(id, rule.id, 'Safety', 2, {
      usernames: [owner.username],
      userIds: [reviewer.id],
    });
    expect(renamed).toMatchObject({ name: 'Safety', approvals_required: 2 });
    expect(renamed.users).toHaveLength(2);
    expect(await api.MergeRequestApprovals.showApprovalRule(id, rule.id)).toMatchObject({ name: 'Safety' });
    expect(await api.MergeRequestApprovals.allApprovalRules(id)).toMatchObject([{ id: rule.id }]);
    const own = await api.MergeRequestApprovals.createApprovalRule(id, 'Own', 1, {
      ...options,
      userIds: [reviewer.id],
    });
    expect(await api.MergeRequestApprovals.allApprovalRules(id, options)).toMatchObject([{ id: own.id }]);
    await api.MergeRequestApprovals.editApprovalRule(id, own.id, 'Ours', 1, options);
    await expect(api.MergeRequests.merge(id, 1)).rejects.toMatchObject(refusal('405 Method Not Allowed'));
    expect(await api.MergeRequestApprovals.showApprovalState(id, 1)).toMatchObject({
      approval_rules_overwritten: true,
      rules: [{ name: 'Ours', approved: false }],
    });
    await asReviewer.MergeRequestApprovals.approve(id, 1, { sha: head.id });
    expect(await api.MergeRequestApprovals.showApprovalState(id, 1)).toMatchObject({
      rules: [{ name: 'Ours', approved: true }],
    });
    await api.MergeRequestApprovals.removeApprovalRule(id, own.id, options);
    await api.MergeRequestApprovals.removeApprovalRule(id, rule.id);
    expect(await api.MergeRequestApprovals.allApprovalRules(id)).toEqual([]);
  });

  it('drafts comments and publishes them', async () => {
    const { id } = await makeMergeRequest();
    const drafts = asReviewer.MergeRequestDraftNotes;
    const first = await drafts.create(id, 1, 'First');
    expect(await drafts.show(id, 1, first.id)).toMatchObject({ author_id: reviewer.id, note: 'First' });
    expect(await api.MergeRequestDraftNotes.all(id, 1)).toEqual([]);
    await drafts.publish(id, 1, first.id);
    const placed = await drafts.create(id, 1, 'On a line', { position: await positionOf(id, '2') });
    expect(placed).toMatchObject({ position: { new_line: 2 } });
    const gone = await drafts.create(id, 1, 'Gone');
    await drafts.remove(id, 1, gone.id);
    await drafts.create(id, 1, 'Last');
    expect((await drafts.all(id, 1)).map(({ note }) => note)).toEqual(['On a line', 'Last']);
    await drafts.publishBulk(id, 1);
    expect(await drafts.all(id, 1)).toEqual([]);
    const notes = (await api.MergeRequestNotes.all(id, 1, { sort: 'asc' })).filter(({ system }) => !system);
    expect(notes.map(({ body }) => body)).toEqual(['First', 'On a line', 'Last']);
    expect(await api.MergeRequestNotes.show(id, 1, notes[1]?.id ?? 0)).toMatchObject({ type: 'DiffNote' });
  });

  it('resolves threads, removes their comments, and applies suggestions', async () => {
    const { id, head } = await makeMergeRequest();
    const position = await positionOf(id, '2');
    const discussions = asReviewer.MergeRequestDiscussions;
    const suggest = async (text: string, newLine: string) => {
      const body = `\`\`\`suggestion\n${text}\n\`\`\``;
      const thread = await discussions.create(id, 1, body, { position: { ...position, newLine } });
      const { body: found } = await app().as(owner).get(`/projects/${id}/merge_requests/1/discussions/${thread.id}`);
      return { thread, suggestion: Number(found.notes[0].suggestions[0].id) };
    };
    const [one, two, three] = [await suggest('ONE', '1'), await suggest('TWO', '2'), await suggest('THREE', '3')];
    expect(await api.Suggestions.edit(one.suggestion, { commitMessage: 'Shout' })).toMatchObject({ applied: true });
    await app().settle();
    const batch = await api.Suggestions.editBatch([two.suggestion, three.suggestion]);
    expect(batch).toMatchObject([{ applied: true }, { applied: true }]);
    await app().settle();
    const commits = await api.MergeRequests.allCommits(id, 1);
    expect(commits.map(({ title }) => title)).toEqual([expect.any(String), 'Shout', 'Add a.txt']);
    const file = await api.RepositoryFiles.showRaw(id, 'a.txt', 'topic');
    expect(`${file}`).toBe('ONE\nTWO\nTHREE\n');
    const thread = await discussions.create(id, 1, 'On a commit', { commitId: head.id, position });
    const reply = await api.MergeRequestDiscussions.addNote(id, 1, thread.id, 'Reply');
    await discussions.editNote(id, 1, thread.id, thread.notes?.[0]?.id ?? 0, { resolved: true });
    expect(await api.MergeRequestDiscussions.show(id, 1, thread.id)).toMatchObject({
      notes: expect.arrayContaining([expect.objectContaining({ body: 'On a commit', resolved: true })]),
    });
    await api.MergeRequestDiscussions.resolve(id, 1, thread.id, false);
    await api.MergeRequestDiscussions.removeNote(id, 1, thread.id, reply.id);
    expect(await api.MergeRequestDiscussions.show(id, 1, thread.id)).toMatchObject({
      notes: expect.not.arrayContaining([expect.objectContaining({ body: 'Reply' })]),
    });
  });

  it('reads emoji, events, issues and lists', async () => {
    const { id } = await makeMergeRequest({}, 'Closes #1, and see #2');
    for (const title of ['First', 'Second']) await api.Issues.create(id, title);
    expect((await api.MergeRequests.allIssuesClosed(id, 1)).map(({ iid }) => iid)).toEqual([1]);
    expect((await api.MergeRequests.allIssuesRelated(id, 1)).map(({ iid }) => iid).sort()).toEqual([1, 2]);
    const award = await api.MergeRequestAwardEmojis.award(id, 1, 'rocket');
    expect(await api.MergeRequestAwardEmojis.show(id, 1, award.id)).toMatchObject({ name: 'rocket' });
    expect(await api.MergeRequestAwardEmojis.all(id, 1)).toHaveLength(1);
    await api.MergeRequestAwardEmojis.remove(id, 1, award.id);
    const note = await api.MergeRequestNotes.create(id, 1, 'Well');
    const onNote = await api.MergeRequestNoteAwardEmojis.award(id, 1, note.id, 'tada');
    expect(await api.MergeRequestNoteAwardEmojis.all(id, 1, note.id)).toHaveLength(1);
    expect(await api.MergeRequestNoteAwardEmojis.show(id, 1, note.id, onNote.id)).toMatchObject({ name: 'tada' });
    await api.MergeRequestNoteAwardEmojis.remove(id, 1, note.id, onNote.id);
    const milestone = await api.ProjectMilestones.create(id, 'v1');
    await api.MergeRequests.edit(id, 1, { labels: 'bug', milestoneId: milestone.id });
    await api.MergeRequests.edit(id, 1, { stateEvent: 'close' });
    const [labelled] = await api.MergeRequestLabelEvents.all(id, 1);
    expect(await api.MergeRequestLabelEvents.show(id, 1, labelled?.id ?? 0)).toMatchObject({ action: 'add' });
    const [planned] = await api.MergeRequestMilestoneEvents.all(id, 1);
    expect(await api.MergeRequestMilestoneEvents.show(id, 1, planned?.id ?? 0)).toMatchObject({ action: 'add' });
    expect(await api.MergeRequestStateEvents.all(id, 1)).toMatchObject([{ state: 'closed' }]);
    expect(await api.ProjectMilestones.allAssignedMergeRequests(id, milestone.id)).toMatchObject([{ iid: 1 }]);
    expect(await api.MergeRequests.all({ projectId: id, not: { labels: 'bug' }, state: 'closed' })).toEqual([]);
  });

  it('merges when the pipeline succeeds, and cancels that', async () => {
    const { id, head } = await makeMergeRequest();
    const report = async (state: 'running' | 'success') => {
      await api.Commits.editStatus(id, head.id, state, { ref: 'topic' });
      await app().settle();
    };
    await report('running');
    const [pipeline] = await api.MergeRequests.allPipelines(id, 1);
    expect(pipeline).toMatchObject({ ref: 'topic', status: 'running' });
    const waiting = await api.MergeRequests.merge(id, 1, { mergeWhenPipelineSucceeds: true });
    expect(waiting).toMatchObject({ state: 'opened', merge_when_pipeline_succeeds: true });
    await api.MergeRequests.cancelOnPipelineSuccess(id, 1);
    expect(await api.MergeRequests.show(id, 1)).toMatchObject({ merge_when_pipeline_succeeds: false });
    await api.MergeRequests.accept(id, 1, { mergeWhenPipelineSucceeds: true });
    await report('success');
    expect(await api.MergeRequests.show(id, 1)).toMatchObject({ state: 'merged', merge_user: { id: owner.id } });
  });

  it('makes pipelines for merge requests', async () => {
    const { id } = await makeMergeRequest();
    await expect(api.MergeRequests.createPipeline(id, 1)).rejects.toMatchObject({
      cause: { response: { status: 400 } },
    });
    const only = 'test:\n  script: [echo]\n  rules:\n    - if: $CI_PIPELINE_SOURCE == "merge_request_event"\n';
    await api.RepositoryFiles.create(id, '.gitlab-ci.yml', 'topic', only, 'Add CI');
    await app().settle();
    expect(await api.MergeRequests.createPipeline(id, 1)).toMatchObject({ ref: 'refs/merge-requests/1/head' });
  });
});
