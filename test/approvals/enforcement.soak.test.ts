import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';
import { commitFiles, insertRule, makeReview, setSettings } from './support.ts';

const app = useApp();

describe('merging', () => {
  it('needs the approvals, also those that a push has just removed', async () => {
    const { ada, author, owner, at, path, project } = await makeReview(app());
    await insertRule(
      app(),
      { project_id: project.id },
      { name: 'All', rule_type: 'any_approver', approvals_required: 1 },
    );
    expect((await owner.get(at)).body.detailed_merge_status).toBe('not_approved');
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    await ada.post(`${at}/approve`);
    expect((await owner.get(at)).body.detailed_merge_status).toBe('mergeable');
    await commitFiles(author, path, { branch: 'feature', files: { 'more.txt': 'x' } });
    // Whether or not the job has made the version yet.
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    expect((await owner.get(`${at}/approvals`)).body.approved_by).toEqual([]);
    await ada.post(`${at}/approve`);
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
    // Its approvals stay.
    expect((await owner.get(`${at}/approvals`)).body).toMatchObject({ approved: true, state: 'merged' });
    expect((await ada.post(`${at}/approve`)).status).toBe(403);
    expect((await ada.post(`${at}/unapprove`)).status).toBe(403);
  });

  it('names a missing approval before the closed state', async () => {
    const { ada, author, at, project } = await makeReview(app());
    await insertRule(app(), { project_id: project.id }, { rule_type: 'any_approver', approvals_required: 1 });
    const statusNow = async () => (await author.get(at)).body.detailed_merge_status;
    await author.put(at, { state_event: 'close' });
    expect(await statusNow()).toBe('not_approved');
    await author.put(at, { state_event: 'reopen' });
    await app().settle();
    await ada.post(`${at}/approve`);
    await author.put(at, { state_event: 'close' });
    expect(await statusNow()).toBe('not_open');
  });

  it('does not count the approvals of people who have lost their access', async () => {
    const { ada, reporter, owner, at, path, project, people, users } = await makeReview(app());
    await insertRule(app(), { project_id: project.id }, { rule_type: 'any_approver', approvals_required: 2 });
    const named = await insertRule(
      app(),
      { project_id: project.id },
      { name: 'Named', approvals_required: 1, users: [people.reporter] },
    );
    await ada.post(`${at}/approve`);
    await reporter.post(`${at}/approve`);
    const state = async () => {
      const { approved, approvals_left, approved_by } = (await owner.get(`${at}/approvals`)).body;
      return [approved, approvals_left, approved_by.length];
    };
    expect(await state()).toEqual([true, 0, 2]);
    const block = (verb: string) => app().as(app().root).post(`/users/${users.ada.id}/${verb}`);
    await block('block');
    expect(await state()).toEqual([false, 1, 2]);
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    await block('unblock');
    expect(await state()).toEqual([true, 0, 2]);
    // A Reporter approves only because a rule names them.
    await owner.delete(`${path}/approval_rules/${named}`);
    expect(await state()).toEqual([false, 1, 2]);
    await owner.put(`${path}/members/${people.reporter.id}`, { access_level: 30 });
    expect(await state()).toEqual([true, 0, 2]);
    await owner.delete(`${path}/members/${users.ada.id}`);
    expect(await state()).toEqual([false, 1, 2]);
    // A merged one keeps its approvals.
    await owner.post(`${path}/members`, { user_id: users.ada.id, access_level: 30 });
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
    await owner.delete(`${path}/members/${users.ada.id}`);
    expect((await owner.get(`${at}/approvals`)).body).toMatchObject({ state: 'merged', approved: true });
  });

  it('shows the status of approvals in lists, with as many statements for many as for one', async () => {
    const { owner, author, at, path, project, users, ada } = await makeReview(app(), {
      main: { CODEOWNERS: '* @nobody-at-all' },
    });
    await insertRule(app(), { project_id: project.id }, { name: 'Ada', approvals_required: 1, users: [users.ada] });
    await setSettings(app(), project.id, { allow_committer_approval: false });
    const list = () => owner.get(`${path}/merge_requests`);
    const statuses = async () =>
      (await list()).body.map((each: { detailed_merge_status: string }) => each.detailed_merge_status);
    expect(await statuses()).toEqual(['not_approved']);
    const one = await countStatements(app(), list);
    for (const name of ['second', 'third']) {
      await commitFiles(author, path, { branch: name, start_branch: 'main', files: { [`${name}.txt`]: 'x' } });
      await author.post(`${path}/merge_requests`, { source_branch: name, target_branch: 'main', title: name });
    }
    await app().settle();
    expect(await statuses()).toEqual(['not_approved', 'not_approved', 'not_approved']);
    expect(await countStatements(app(), list)).toBe(one);
    await ada.post(`${at}/approve`);
    expect(await statuses()).toEqual(['not_approved', 'not_approved', 'mergeable']);
  });

  it('merges automatically once the rule of a group above or the protection of the branch is gone', async () => {
    for (const end of ['rule', 'protection'] as const) {
      const { owner, at, path, group } = await makeReview(app());
      const made = await owner.post(`/groups/${group.id}/approval_rules`, { name: 'All', approvals_required: 1 });
      expect(made.status).toBe(201);
      const asked = await owner.put(`${at}/merge`, { auto_merge: true });
      expect(asked.body).toMatchObject({ state: 'opened', detailed_merge_status: 'not_approved' });
      const ended = await owner.delete(
        end === 'rule' ? `/groups/${group.id}/approval_rules/${made.body.id}` : `${path}/protected_branches/main`,
      );
      expect(ended.status).toBe(204);
      await app().settle();
      expect((await owner.get(at)).body).toMatchObject({ state: 'merged' });
    }
  });

  it('merges automatically once it is approved', async () => {
    const { ada, owner, at, project } = await makeReview(app());
    await insertRule(app(), { project_id: project.id }, { rule_type: 'any_approver', approvals_required: 1 });
    expect(await owner.put(`${at}/merge`, { auto_merge: true })).toMatchObject({
      status: 200,
      body: { state: 'opened', merge_when_pipeline_succeeds: true },
    });
    await ada.post(`${at}/approve`);
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ state: 'merged' });
  });

  it('waits while approvals of another head have not been compared', async () => {
    const { ada, owner, at, id, project } = await makeReview(app());
    await setSettings(app(), project.id, { allow_author_approval: true });
    await insertRule(
      app(),
      { project_id: project.id },
      { name: 'All', rule_type: 'any_approver', approvals_required: 1 },
    );
    await ada.post(`${at}/approve`);
    await app()
      .hub.services.db.updateTable('merge_request_approvals')
      .set({ head_sha: 'f'.repeat(40) })
      .where('merge_request_id', '=', id)
      .execute();
    expect((await owner.get(at)).body.detailed_merge_status).toBe('approvals_syncing');
    // Merging compares them at once: the changes are the same.
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
  });
});
