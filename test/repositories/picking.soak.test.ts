import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { eventsOf } from './support.ts';

const app = useApp();

/** Creates `main` with a file of some lines, and `topic` with a change to its last line. */
const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const path = `/projects/${project.id}/repository`;
  const commit = async (branch: string, content: string, rest: Record<string, unknown> = {}) => {
    const answer = await app()
      .as(owner)
      .post(`${path}/commits`, {
        branch,
        commit_message: `Change ${branch}\n\nWith a body\n`,
        actions: [{ action: 'update', file_path: 'file', content }],
        ...rest,
      });
    expect(answer.status).toBe(201);
    return answer.body;
  };
  const actions = [{ action: 'create', file_path: 'file', content: lines('a', 'z') }];
  const first = await commit('main', '', { actions });
  const change = await commit('topic', lines('a', 'y'), {
    start_branch: 'main',
    author_name: 'Ann',
    author_email: 'ann@example.org',
  });
  const post = (sha: string, action: string, body: Record<string, unknown>) =>
    app().as(owner).post(`${path}/commits/${sha}/${action}`, body);
  return { owner, project, path, first, change, commit, post };
};

const lines = (first: string, last: string) => `${first}\n1\n2\n3\n4\n5\n6\n${last}\n`;

const CANNOT = (what: string, done: string) =>
  `Sorry, we cannot ${what} this commit automatically. This commit may already have been ${done}, or a more recent commit may have updated some of its content.`;

describe('cherry_pick', () => {
  it('applies the change of a commit to another branch, and keeps its author', async () => {
    const { owner, project, change, commit, post } = await setUp();
    const head = await commit('main', lines('b', 'z'));
    const picked = await post(change.id, 'cherry_pick', { branch: 'main' });
    expect(picked.status).toBe(201);
    expect(picked.body).toMatchObject({
      title: 'Change topic',
      message: `Change topic\n\nWith a body\n\n(cherry picked from commit ${change.id})`,
      parent_ids: [head.id],
      author_name: 'Ann',
      author_email: 'ann@example.org',
      authored_date: change.authored_date,
      committer_email: `${owner.username}@example.com`,
    });
    const events = await eventsOf(app(), project.id);
    expect(events.filter(({ kind }) => kind === 'push.received').at(-1)).toMatchObject({
      actor_id: owner.id,
      payload: { ref: 'refs/heads/main', before: head.id, after: picked.body.id },
    });
    const again = await post(change.id, 'cherry_pick', { branch: 'main', message: 'x' });
    expect([again.status, again.body]).toEqual([
      400,
      { message: CANNOT('cherry-pick', 'cherry-picked'), error_code: 'empty' },
    ]);
  });

  it('changes nothing on a conflict or in a dry run', async () => {
    const { path, owner, change, commit, post, project } = await setUp();
    const dry = await post(change.id, 'cherry_pick', { branch: 'main', dry_run: true });
    expect([dry.status, dry.body]).toEqual([200, { dry_run: 'success' }]);
    const head = await commit('main', lines('b', 'x'));
    const before = (await eventsOf(app(), project.id)).length;
    for (const dry_run of [true, false]) {
      const refused = await post(change.id, 'cherry_pick', { branch: 'main', dry_run });
      expect([refused.status, refused.body.error_code]).toEqual([400, 'conflict']);
    }
    expect((await app().as(owner).get(`${path}/branches/main`)).body.commit.id).toBe(head.id);
    expect((await eventsOf(app(), project.id)).length).toBe(before);
  });

  it('reports missing commits and branches, and requires the right to push to the branch', async () => {
    const { project, path, change, post } = await setUp();
    expect((await post('f'.repeat(40), 'cherry_pick', { branch: 'main' })).body).toEqual({
      message: '404 Commit Not Found',
    });
    expect((await post(change.id, 'cherry_pick', { branch: 'none' })).body).toEqual({
      message: '404 Branch Not Found',
    });
    expect((await post(change.id, 'cherry_pick', {})).body).toEqual({ error: 'branch is missing' });
    const url = `${path}/commits/${change.id}`;
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    const reporter = await app().make.user();
    await app().make.projectMember(project, reporter, 20);
    for (const action of ['cherry_pick', 'revert']) {
      expect((await app().anonymous.post(`${url}/${action}`, { branch: 'main' })).status).toBe(401);
      const stranger = await app().make.user();
      expect((await app().as(stranger).post(`${url}/${action}`, { branch: 'main' })).status).toBe(404);
      expect((await app().as(reporter).post(`${url}/${action}`, { branch: 'topic' })).status).toBe(403);
      // Even a dry run on the protected branch is refused.
      const body = { branch: 'main', dry_run: true };
      expect((await app().as(developer).post(`${url}/${action}`, body)).status).toBe(403);
    }
    expect((await app().as(developer).post(`${url}/revert`, { branch: 'topic' })).status).toBe(201);
  });

  it('follows the push rule', async () => {
    const { owner, project, change, post } = await setUp();
    await app().as(owner).post(`/projects/${project.id}/push_rule`, { commit_message_regex: '^AB-\\d' });
    for (const dry_run of [true, false]) {
      const refused = await post(change.id, 'cherry_pick', { branch: 'main', dry_run });
      expect([refused.status, refused.body.message]).toEqual([400, expect.stringContaining('commit_message_regex')]);
    }
    expect((await post(change.id, 'cherry_pick', { branch: 'main', message: 'AB-1' })).status).toBe(201);
  });
});

describe('revert', () => {
  it('undoes the change of a commit, with the caller as author', async () => {
    const { owner, first, change, post } = await setUp();
    const reverted = await post(change.id, 'revert', { branch: 'topic' });
    expect(reverted.status).toBe(201);
    expect(reverted.body).toMatchObject({
      title: 'Revert "Change topic"',
      message: `Revert "Change topic"\n\nThis reverts commit ${change.id}`,
      parent_ids: [change.id],
      author_email: `${owner.username}@example.com`,
    });
    const again = await post(change.id, 'revert', { branch: 'topic' });
    expect([again.status, again.body]).toEqual([400, { message: CANNOT('revert', 'reverted'), error_code: 'empty' }]);
    // Reverting the first commit leaves no file.
    const root = await post(first.id, 'revert', { branch: 'topic' });
    expect(root.status).toBe(201);
    expect((await post(first.id, 'revert', { branch: 'topic' })).body.error_code).toBe('empty');
  });
});
