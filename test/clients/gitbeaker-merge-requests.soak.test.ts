import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

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

/** Creates a project with a branch `topic` that is one commit ahead of `main`. */
const makeProject = async (attributes: Record<string, unknown> = {}) => {
  const { id } = await app().make.project({ initialize_with_readme: true, ...attributes }, owner);
  await api.ProjectMembers.add(id, 40, { userId: reviewer.id });
  const commit = (branch: string, filePath: string, content: string, startBranch?: string) =>
    api.Commits.create(id, branch, `Add ${filePath}`, [{ action: 'create', filePath, content }], {
      ...(startBranch === undefined ? {} : { startBranch }),
    });
  const head = await commit('topic', 'a.txt', 'one\ntwo\n', 'main');
  return { id, commit, head };
};

describe('gitbeaker', () => {
  it('opens, lists, changes, merges, closes, reopens and deletes merge requests', async () => {
    const { id, commit, head } = await makeProject();
    const made = await api.MergeRequests.create(id, 'topic', 'main', 'Add a file', {
      description: 'Why',
      labels: 'bug,new',
      assigneeId: owner.id,
      reviewerIds: [reviewer.id],
      removeSourceBranch: true,
      squash: false,
    });
    expect(made).toMatchObject({
      iid: 1,
      state: 'opened',
      labels: ['bug', 'new'],
      assignee: { id: owner.id },
      reviewers: [{ id: reviewer.id }],
    });
    await expect(api.MergeRequests.create(id, 'topic', 'main', 'Again')).rejects.toMatchObject(
      refusal('Another open merge request already exists for this source branch: !1'),
    );
    await app().settle();
    const shown = await api.MergeRequests.show(id, 1, {
      includeDivergedCommitsCount: true,
      includeRebaseInProgress: true,
    });
    expect(shown).toMatchObject({ sha: head.id, changes_count: '1', rebase_in_progress: false });
    expect((await api.MergeRequests.all({ projectId: id, state: 'opened' })).map(({ iid }) => iid)).toEqual([1]);
    const detailed = await api.MergeRequests.all({ projectId: id, withLabelsDetails: true });
    expect(detailed).toMatchObject([{ labels: [{ name: 'bug' }, { name: 'new' }] }]);
    expect(await api.MergeRequests.all({ scope: 'assigned_to_me' })).toHaveLength(1);
    const edited = await api.MergeRequests.edit(id, 1, { title: 'Draft: Better', addLabels: 'more', assigneeId: 0 });
    expect(edited).toMatchObject({ draft: true, labels: ['bug', 'more', 'new'], assignees: [] });
    await expect(api.MergeRequests.merge(id, 1)).rejects.toMatchObject(refusal('405 Method Not Allowed'));
    await api.MergeRequests.edit(id, 1, { title: 'Better' });
    expect((await api.MergeRequests.allCommits(id, 1)).map((each) => each.id)).toEqual([head.id]);
    expect((await api.MergeRequests.allDiffs(id, 1)).map(({ new_path }) => new_path)).toEqual(['a.txt']);
    expect(await api.MergeRequests.showChanges(id, 1)).toMatchObject({ changes: [{ new_path: 'a.txt' }] });
    const second = await commit('topic', 'b.txt', 'two\n');
    await app().settle();
    const versions = await api.MergeRequests.allDiffVersions(id, 1);
    expect(versions.map(({ head_commit_sha }) => head_commit_sha)).toEqual([second.id, head.id]);
    const [newest] = versions;
    const version = await api.MergeRequests.showDiffVersion(id, 1, newest?.id ?? 0);
    expect(version).toMatchObject({ commits: [{ id: second.id }, { id: head.id }] });
    expect(await api.MergeRequests.edit(id, 1, { stateEvent: 'close' })).toMatchObject({ state: 'closed' });
    expect(await api.MergeRequests.edit(id, 1, { stateEvent: 'reopen' })).toMatchObject({ state: 'opened' });
    await expect(api.MergeRequests.merge(id, 1, { sha: head.id })).rejects.toMatchObject(refusal('SHA does not match'));
    const merged = await api.MergeRequests.merge(id, 1, { sha: second.id, shouldRemoveSourceBranch: true });
    expect(merged).toMatchObject({ state: 'merged', merge_user: { id: owner.id } });
    await app().settle();
    expect((await api.Branches.all(id)).map(({ name }) => name)).toEqual(['main']);
    const found = await api.Commits.allMergeRequests(id, second.id);
    expect(found.map(({ iid }) => iid)).toEqual([1]);
    await api.MergeRequests.remove(id, 1);
    await expect(api.MergeRequests.show(id, 1)).rejects.toMatchObject(refusal('404'));
  });

  it('comments on merge requests', async () => {
    const { id } = await makeProject();
    await api.MergeRequests.create(id, 'topic', 'main', 'Add a file');
    const note = await asReviewer.MergeRequestNotes.create(id, 1, 'Looks good');
    expect(note).toMatchObject({ body: 'Looks good', author: { id: reviewer.id } });
    expect(await asReviewer.MergeRequestNotes.edit(id, 1, note.id, { body: 'Looks great' })).toMatchObject({
      body: 'Looks great',
    });
    await api.MergeRequestNoteAwardEmojis.award(id, 1, note.id, 'thumbsup');
    await api.MergeRequestAwardEmojis.award(id, 1, 'rocket');
    expect((await api.MergeRequestNotes.all(id, 1)).filter(({ system }) => !system)).toHaveLength(1);
    await asReviewer.MergeRequestNotes.remove(id, 1, note.id);
    expect((await api.MergeRequestNotes.all(id, 1)).filter(({ system }) => !system)).toEqual([]);
  });

  it('reviews, approves, and tracks time', async () => {
    const { id, head } = await makeProject();
    await api.MergeRequests.create(id, 'topic', 'main', 'Add a file', { reviewerIds: [reviewer.id] });
    await app().settle();
    // The types of gitbeaker do not name these.
    const { diff_refs } = (await app().as(owner).get(`/projects/${id}/merge_requests/1`)).body;
    const position = {
      baseSha: diff_refs.base_sha,
      startSha: diff_refs.start_sha,
      headSha: diff_refs.head_sha,
      positionType: 'text',
      oldPath: 'a.txt',
      newPath: 'a.txt',
      newLine: '2',
    } as const;
    const thread = await asReviewer.MergeRequestDiscussions.create(id, 1, 'Why two?', { position });
    expect(thread.notes).toMatchObject([{ type: 'DiffNote', position: { new_line: 2, old_line: null } }]);
    await api.MergeRequestDiscussions.addNote(id, 1, thread.id, 'Because');
    const at = `/projects/${id}/merge_requests/1/discussions/${thread.id}`;
    const [first] = (await app().as(owner).get(at)).body.notes;
    await asReviewer.MergeRequestDiscussions.editNote(id, 1, thread.id, first.id, { body: 'Why really?' });
    expect(await api.MergeRequestDiscussions.show(id, 1, thread.id)).toMatchObject({
      notes: [{ body: 'Why really?', resolvable: true, resolved: false }, { body: 'Because' }],
    });
    await asReviewer.MergeRequestDiscussions.resolve(id, 1, thread.id, true);
    const threads = await api.MergeRequestDiscussions.all(id, 1);
    expect(threads.find((each) => each.id === thread.id)?.notes).toMatchObject([{ resolved: true }, {}]);
    expect(await api.MergeRequests.show(id, 1)).toMatchObject({ blocking_discussions_resolved: true });

    await asReviewer.MergeRequestApprovals.approve(id, 1, { sha: head.id });
    const approvals = await api.MergeRequestApprovals.showConfiguration(id, { mergerequestIId: 1 });
    expect(approvals).toMatchObject({ approved_by: [{ user: { id: reviewer.id } }] });
    await asReviewer.MergeRequestApprovals.unapprove(id, 1);

    await api.MergeRequests.setTimeEstimate(id, 1, '1d 2h');
    await api.MergeRequests.addSpentTime(id, 1, '30m');
    expect(await api.MergeRequests.showTimeStats(id, 1)).toMatchObject({
      time_estimate: 36_000,
      human_total_time_spent: '30m',
    });
    await api.MergeRequests.resetSpentTime(id, 1);
    expect(await api.MergeRequests.resetTimeEstimate(id, 1)).toMatchObject({ time_estimate: 0, total_time_spent: 0 });
    const people = await api.MergeRequests.allParticipants(id, 1);
    expect(people.map((each) => each.id).sort()).toEqual([owner.id, reviewer.id].sort());
    expect(await api.MergeRequests.showReviewers(id, 1)).toMatchObject([{ user: { id: reviewer.id } }]);
    expect(await api.MergeRequests.unsubscribe(id, 1)).toMatchObject({ subscribed: false });
    expect(await api.MergeRequests.subscribe(id, 1)).toMatchObject({ subscribed: true });
  });

  it('opens merge requests from a fork', async () => {
    const { id } = await makeProject({ visibility: 'public' });
    const stranger = await app().make.user();
    const asStranger = new Gitlab({ host: front.url, token: await app().tokenOf(stranger) });
    const fork = await asStranger.Projects.fork(id);
    await app().settle();
    const made = await asStranger.MergeRequests.create(fork.id, 'topic', 'main', 'From a fork', {
      targetProjectId: id,
    });
    expect(made).toMatchObject({ project_id: id, source_project_id: fork.id, target_project_id: id });
    await app().settle();
    await expect(asStranger.MergeRequests.merge(id, made.iid)).rejects.toMatchObject(refusal('401'));
    expect(await api.MergeRequests.merge(id, made.iid)).toMatchObject({ state: 'merged' });
  });
});
