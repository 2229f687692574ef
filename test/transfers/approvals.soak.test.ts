import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { packProject, readTree } from './archive.ts';
import { downloadExport, importArchive } from './support.ts';

const app = useApp();

const protectedNames = ({ protected_branches }: { protected_branches: readonly { name: string }[] }) =>
  protected_branches.map(({ name }) => name);

describe('approval rules and settings', () => {
  it('arrive with the project', async () => {
    const { root } = app();
    const as = app().as(root);
    // The address by which an import knows her again.
    const ada = await app().make.user({ username: 'ada-of-rules', public_email: 'ada-of-rules@example.com' });
    const project = await app().make.project({ initialize_with_readme: true }, root);
    await app().make.projectMember(project, ada, 30);
    const path = `/projects/${project.id}`;
    const { body: release } = await as.post(`${path}/protected_branches`, { name: 'release/*' });
    const configuration = {
      reset_approvals_on_push: false,
      selective_code_owner_removals: true,
      merge_requests_author_approval: true,
      merge_requests_disable_committers_approval: true,
      require_reauthentication_to_approve: true,
      approvals_before_merge: 1,
    };
    await as.post(`${path}/approvals`, configuration);
    const post = (at: string, name: string, more: Record<string, unknown>) =>
      as.post(`${at}/approval_rules`, { name, approvals_required: 1, ...more });
    const { body: security } = await post(path, 'Security', {
      user_ids: [ada.id],
      protected_branch_ids: [release.id],
    });
    await post(path, 'Protected', { user_ids: [ada.id], applies_to_all_protected_branches: true });
    await post(path, 'Coverage-Check', { report_type: 'code_coverage', user_ids: [ada.id] });
    await as.post(`${path}/repository/branches`, { branch: 'topic', ref: 'main' });
    const { body: opened } = await as.post(`${path}/merge_requests`, {
      source_branch: 'topic',
      target_branch: 'main',
      title: 'Add',
    });
    expect(opened.iid).toBe(1);
    await post(`${path}/merge_requests/1`, 'x', { approval_project_rule_id: security.id });
    await post(`${path}/merge_requests/1`, 'Anyone', { approvals_required: 2 });
    await app().settle();

    const { bytes } = await downloadExport(app(), root, project.id);
    expect(await readTree(bytes)).toMatchObject({
      approval_rules: [
        { name: 'Security', rule_type: 'regular', approvals_required: 1, users: [{ user_id: ada.id }] },
        { name: 'Protected', applies_to_all_protected_branches: true },
        { name: 'Coverage-Check', rule_type: 'report_approver', report_type: 'code_coverage' },
      ],
      merge_requests: [{ approval_rules: [{ name: 'Security', source_rule: 'Security' }, { name: 'Anyone' }] }],
    });
    const started = await importArchive(app(), root, bytes, { path: 'with-rules' });
    expect(started.status).toBe(201);
    await app().settle();
    const copy = `/projects/${started.body.id}`;
    expect((await as.get(`${copy}/import`)).body).toMatchObject({ import_status: 'finished', failed_relations: [] });
    expect((await as.get(`${copy}/approvals`)).body).toMatchObject(configuration);
    const { body: rules } = await as.get(`${copy}/approval_rules`);
    expect(rules).toMatchObject([
      { name: 'Security', rule_type: 'regular', users: [{ id: ada.id }], applies_to_all_protected_branches: false },
      { name: 'Protected', users: [{ id: ada.id }], applies_to_all_protected_branches: true },
      { name: 'Coverage-Check', rule_type: 'report_approver', report_type: 'code_coverage' },
    ]);
    expect(protectedNames(rules[0])).toEqual(['release/*']);
    expect((await as.get(`${copy}/merge_requests/1/approval_rules`)).body).toMatchObject([
      { name: 'Security', users: [{ id: ada.id }], source_rule: { id: rules[0].id }, overridden: false },
      { name: 'Anyone', rule_type: 'any_approver', approvals_required: 2, source_rule: null },
    ]);
  });

  it('leave out invalid rules, and strangers', async () => {
    const owner = await app().make.user();
    const victim = await app().make.user();
    const rule = { rule_type: 'regular', approvals_required: 1 };
    const archive = await packProject(
      {
        approval_rules: [
          { ...rule, name: 'Kept', users: [{ user_id: victim.id }, 'x'], protected_branches: [{ name: 'no-such' }] },
          { ...rule, name: 'Kept' },
          { ...rule, name: 'Too many', approvals_required: 101 },
          { ...rule, name: 'No type', rule_type: 'owner' },
          { ...rule, name: 'No report', rule_type: 'report_approver' },
          { ...rule, name: 'a.txt', rule_type: 'code_owner' },
          { ...rule, name: 'Anyone', rule_type: 'any_approver' },
          { ...rule, name: 'Anyone else', rule_type: 'any_approver' },
        ],
        merge_requests: [
          {
            iid: 1,
            title: 'x',
            source_branch: 'a',
            target_branch: 'main',
            approval_rules: [
              { ...rule, name: 'Mine', source_rule: 'Kept' },
              { ...rule, name: 'Mine' },
            ],
          },
        ],
      },
      {
        'tree/project.json': JSON.stringify({
          reset_approvals_on_push: true,
          selective_code_owner_removals: true,
          merge_requests_author_approval: 'yes',
          require_password_to_approve: true,
        }),
      },
    );
    const as = app().as(owner);
    const started = await importArchive(app(), owner, archive, { path: 'hostile-rules' });
    expect(started.status).toBe(201);
    await app().settle();
    const copy = `/projects/${started.body.id}`;
    expect((await as.get(`${copy}/approval_rules`)).body).toMatchObject([
      { name: 'Kept', users: [], eligible_approvers: [] },
      { name: 'Anyone', rule_type: 'any_approver' },
    ]);
    expect((await as.get(`${copy}/merge_requests/1/approval_rules`)).body).toMatchObject([
      { name: 'Mine', source_rule: { name: 'Kept' }, overridden: true },
    ]);
    expect((await as.get(`${copy}/approvals`)).body).toMatchObject({
      reset_approvals_on_push: true,
      selective_code_owner_removals: false,
      merge_requests_author_approval: false,
      require_reauthentication_to_approve: true,
    });
    const { body } = await as.get(`${copy}/import`);
    expect(
      body.failed_relations.map(({ exception_message }: { exception_message: string }) => exception_message).sort(),
    ).toEqual([
      'approval_rules: name has already been taken',
      'approvals_required must be from 0 to 100',
      'merge_requests_author_approval is invalid: it was left out',
      'name has already been taken',
      'name has already been taken',
      'report_type does not fit',
      'rule_type is not included in the list',
      'users: is not an object',
    ]);
  });
});
