import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { makeReview } from './support.ts';

const app = useApp();

describe('the rules that govern a merge request', () => {
  it('are those of its project for the target branch, and those of the groups above for protected branches', async () => {
    const { owner, at, path, group, users } = await makeReview(app());
    const required = async () => (await owner.get(`${at}/approvals`)).body.approvals_required;
    const { body: main } = await owner.get(`${path}/protected_branches/main`);
    const { body: release } = await owner.post(`${path}/protected_branches`, { name: 'release/*' });
    const { body: rule } = await owner.post(`${path}/approval_rules`, {
      name: 'Review',
      approvals_required: 2,
      user_ids: [users.ada.id, users.bob.id],
      protected_branch_ids: [release.id],
    });
    const change = (attributes: Record<string, unknown>) => owner.put(`${path}/approval_rules/${rule.id}`, attributes);
    expect(await required()).toBe(0);
    await change({ protected_branch_ids: [main.id] });
    expect(await required()).toBe(2);
    await change({ applies_to_all_protected_branches: true });
    expect(await required()).toBe(2);
    await app().make.groupMember(group, users.eve, 30);
    await owner.post(`/groups/${group.id}/approval_rules`, {
      name: 'Everywhere',
      approvals_required: 1,
      user_ids: [users.eve.id],
    });
    expect(await required()).toBe(3);
    // Rules of a merge request replace those of its project, not those of groups.
    const { body: own } = await owner.post(`${at}/approval_rules`, { name: 'Anyone', approvals_required: 0 });
    expect(await required()).toBe(1);
    await owner.delete(`${at}/approval_rules/${own.id}`);
    await owner.delete(`${path}/protected_branches/main`);
    expect(await required()).toBe(0);
    await change({ applies_to_all_protected_branches: false });
    expect(await required()).toBe(2);
  });

  it('fall back to the deprecated number where people wrote no rule', async () => {
    const { owner, at, path } = await makeReview(app());
    const required = async () => (await owner.get(`${at}/approvals`)).body.approvals_required;
    await owner.post(`${path}/approvals`, { approvals_before_merge: 1 });
    expect(await required()).toBe(1);
    await owner.post(`${at}/approvals`, { approvals_required: 3 });
    expect(await required()).toBe(3);
    await owner.post(`${path}/approvals`, { disable_overriding_approvers_per_merge_request: true });
    expect(await required()).toBe(1);
    await owner.post(`${path}/approval_rules`, { name: 'Anyone', approvals_required: 2 });
    expect(await required()).toBe(2);
  });

  it('keep out a committer who hides behind a no-reply address', async () => {
    const { owner, author, ada, at, path, users } = await makeReview(app());
    const { db } = app().hub.services;
    await db.updateTable('users').set({ commit_email: '_private' }).where('id', '=', users.ada.id).execute();
    await owner.post(`${path}/approvals`, { merge_requests_disable_committers_approval: true });
    const commit = await ada.post(`${path}/repository/commits`, {
      branch: 'feature',
      commit_message: 'Add more',
      actions: [{ action: 'create', file_path: 'more.txt', content: 'more\n' }],
    });
    expect(commit).toMatchObject({
      status: 201,
      body: { committer_email: expect.stringContaining('@users.noreply.') },
    });
    await app().settle();
    expect((await ada.post(`${at}/approve`)).status).toBe(401);
    expect((await author.get(`${at}/approvals`)).body).toMatchObject({ approved_by: [] });
  });
});
