import { describe, expect, it } from 'vitest';
import { changeNotes } from '#domains/notes/system.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { commit, makeReview } from './support.ts';

const app = useApp();

const activity = async (client: Client, at: string): Promise<string[]> => {
  const answer = await client.get(`${at}/notes?activity_filter=only_activity&sort=asc`);
  expect(answer.body.every(({ system }: { readonly system: boolean }) => system)).toBe(true);
  return answer.body.map(({ body }: { readonly body: string }) => body);
};

describe('system notes', () => {
  it('record the changes of a merge request', async () => {
    const { owner, at, path, people, project } = await makeReview(app());
    await owner.post(`${path}/milestones`, { title: 'First' });
    const milestone = (await owner.get(`${path}/milestones`)).body[0];
    await owner.post(`${path}/repository/branches`, { branch: 'other', ref: 'main' });
    const changes: [Record<string, unknown>, string][] = [
      [{ title: 'Improve the file' }, 'changed title from **Improve {-a-} file** to **Improve {+the+} file**'],
      [{ title: 'Draft: Improve the file' }, 'marked this merge request as **draft**'],
      [{ title: 'Improve the file' }, 'marked this merge request as **ready**'],
      [{ description: 'Why' }, 'changed the description'],
      [{ labels: 'bug,two words' }, 'added ~bug ~"two words" labels'],
      [{ labels: 'bug,new' }, 'added ~new label and removed ~"two words" label'],
      [{ milestone_id: milestone.id }, 'changed milestone to %"First"'],
      [{ milestone_id: 0 }, 'removed milestone'],
      [{ assignee_ids: [people.owner.id] }, `assigned to @${people.owner.username}`],
      [
        { assignee_ids: [people.maintainer.id] },
        `assigned to @${people.maintainer.username} and unassigned @${people.owner.username}`,
      ],
      [{ reviewer_ids: [people.reporter.id] }, `requested review from @${people.reporter.username}`],
      [{ reviewer_ids: [0] }, `removed review request for @${people.reporter.username}`],
      [{ discussion_locked: true }, 'locked the discussion in this merge request'],
      [{ discussion_locked: false }, 'unlocked the discussion in this merge request'],
      [{ target_branch: 'other' }, 'changed target branch from `main` to `other`'],
      [{ target_branch: 'main' }, 'changed target branch from `other` to `main`'],
      [{ state_event: 'close' }, 'closed'],
      [{ state_event: 'reopen' }, 'reopened'],
    ];
    for (const [change] of changes) expect((await owner.put(at, change)).status).toBe(200);
    expect(await activity(owner, at)).toEqual(changes.map(([, body]) => body));
    expect((await owner.get(at)).body.user_notes_count).toBe(0);
    await app().settle();
    const kinds = await app()
      .hub.services.db.selectFrom('events')
      .select('kind')
      .where('project_id', '=', project.id)
      .where('kind', 'like', 'note.%')
      .execute();
    expect(kinds).toEqual([]);
  });

  it('record pushes by the person who pushed, and of the merge', async () => {
    const { owner, maintainer, at, path, people } = await makeReview(app());
    const sha = await commit(maintainer, path, 'feature', [{ action: 'create', file_path: '<c>', content: 'x' }]);
    await app().settle();
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
    expect(await activity(owner, at)).toEqual([
      `added 1 commit\n\n<ul><li>${sha.slice(0, 8)} - Change &lt;c&gt;</li></ul>`,
      'merged',
    ]);
    const [pushed] = (await owner.get(`${at}/notes?sort=asc`)).body;
    expect(pushed).toMatchObject({ author: { id: people.maintainer.id }, system: true, type: null, resolvable: false });
    // Nobody changes or answers them.
    expect((await maintainer.put(`${at}/notes/${pushed.id}`, { body: 'x' })).status).toBe(403);
  });

  it('record a commit that makes a draft of the merge request', async () => {
    const { owner, maintainer, at, path, project, people } = await makeReview(app());
    const push = async (file_path: string, commit_message: string) => {
      const sha = await commit(maintainer, path, 'feature', [{ action: 'create', file_path, content: 'x' }], {
        commit_message,
      });
      await app().settle();
      return sha;
    };
    await push('c', 'Mention Draft: and fixup! later');
    expect((await owner.get(at)).body).toMatchObject({ title: 'Improve a file', draft: false });
    for (const [file, message] of [
      ['d', 'draft: Try it'],
      ['e', 'fixup! Improve a file'],
      ['f', 'squash! Improve a file'],
    ] as const) {
      const sha = await push(file, message);
      expect((await owner.get(at)).body).toMatchObject({
        title: 'Draft: Improve a file',
        draft: true,
        detailed_merge_status: 'draft_status',
        sha,
      });
      expect((await activity(owner, at)).at(-1)).toBe(`marked this merge request as **draft** from ${sha.slice(0, 8)}`);
      const [updated] = await app()
        .hub.services.db.selectFrom('events')
        .select('payload')
        .where('project_id', '=', project.id)
        .where('kind', '=', 'merge_request.updated')
        .orderBy('id', 'desc')
        .limit(1)
        .execute();
      expect(updated).toMatchObject({
        payload: {
          by_id: people.maintainer.id,
          changes: {
            title: { previous: 'Improve a file', current: 'Draft: Improve a file' },
            draft: { previous: false, current: true },
          },
        },
      });
      await owner.put(at, { title: 'Improve a file' });
    }
    // Commits that were there before do not count again.
    await push('g', 'Finish');
    expect((await owner.get(at)).body.draft).toBe(false);
  });

  it('record a source branch that is deleted and restored', async () => {
    const { owner, path } = await makeReview(app());
    const at = `${path}/merge_requests/2`;
    await owner.post(`${path}/merge_requests`, { source_branch: 'later', target_branch: 'main', title: 'Later' });
    await app().settle();
    await owner.post(`${path}/repository/branches`, { branch: 'later', ref: 'feature' });
    await app().settle();
    await owner.delete(`${path}/repository/branches/later`);
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('closed');
    const [restored, added, ...deleted] = await activity(owner, at);
    expect(restored).toBe('restored source branch `later`');
    expect(added).toMatch(/^added 1 commit/);
    expect(deleted).toEqual(['deleted source branch `later`', 'closed']);
  });

  it('record the changes of an issue', async () => {
    const { owner, path } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'i', labels: 'bug' });
    const at = `${path}/issues/1`;
    await owner.put(at, { confidential: true, due_date: '2026-01-31', weight: 3, issue_type: 'incident' });
    await owner.put(at, { confidential: false, due_date: null, weight: null, discussion_locked: true });
    await owner.put(at, { state_event: 'close' });
    expect(await activity(owner, at)).toEqual([
      'added ~bug label',
      'made the issue confidential',
      'changed type from issue to incident',
      'changed due date to 2026-01-31',
      'set weight to **3**',
      'locked the discussion in this issue',
      'made the issue visible to everyone',
      'removed due date',
      'removed the weight',
      'closed',
    ]);
    expect((await owner.get(at)).body.user_notes_count).toBe(0);
  });

  it('mark the part of a title that differs', () => {
    const bodyOf = (previous: string, current: string) =>
      changeNotes('issue', { title: { previous, current } }).map(({ body }) => body);
    expect(bodyOf('a', 'a b')).toEqual(['changed title from **a** to **a{+ b+}**']);
    expect(bodyOf('aa', 'a')).toEqual(['changed title from **a{-a-}** to **a**']);
    expect(bodyOf('x', 'y')).toEqual(['changed title from **{-x-}** to **{+y+}**']);
    expect(bodyOf('same', 'same')).toEqual([]);
  });
});
