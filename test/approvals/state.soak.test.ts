import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { commitFiles, insertRule, makeReview } from './support.ts';

const app = useApp();

it('the approval state shows each rule, where it comes from, and whether it is met', async () => {
  const { ada, author, reporter, guest, stranger, owner, at, path, id, project, users } = await makeReview(app());
  const source_rule_id = await insertRule(
    app(),
    { project_id: project.id },
    { name: 'Team', approvals_required: 1, users: [users.ada] },
  );
  await commitFiles(owner, path, { branch: 'main', files: { CODEOWNERS: `[Texts]\n*.txt @${users.bob.username}` } });
  await app().settle();
  const state = async (client = author) => (await client.get(`${at}/approval_state`)).body;
  expect(await state(reporter)).toMatchObject({
    approval_rules_overwritten: false,
    rules: [
      {
        id: source_rule_id,
        name: 'Team',
        rule_type: 'regular',
        report_type: null,
        approvals_required: 1,
        eligible_approvers: [{ id: users.ada.id }],
        users: [{ id: users.ada.id }],
        groups: [],
        contains_hidden_groups: false,
        approved: false,
        approved_by: [],
        section: null,
        source_rule: null,
        overridden: false,
      },
      { name: '*.txt', rule_type: 'code_owner', section: 'Texts', approvals_required: 0, approved: true },
    ],
  });
  // The rule of the merge request counts instead of the one that it was copied from.
  const own = await insertRule(
    app(),
    { merge_request_id: id },
    { name: 'Team', approvals_required: 1, users: [users.ada, users.author], source_rule_id },
  );
  await ada.post(`${at}/approve`);
  const { rules, approval_rules_overwritten } = await state();
  expect(approval_rules_overwritten).toBe(true);
  expect(rules.map((rule: { id: number }) => rule.id)).toEqual([own, expect.any(Number)]);
  expect(rules[0]).toMatchObject({
    approved: true,
    approved_by: [{ id: users.ada.id }],
    // The author cannot approve.
    eligible_approvers: [{ id: users.ada.id }],
    source_rule: { id: source_rule_id, name: 'Team' },
    overridden: true,
  });
  expect((await app().anonymous.get(`${at}/approval_state`)).status).toBe(401);
  expect((await stranger.get(`${at}/approval_state`)).status).toBe(404);
  expect((await guest.get(`${at}/approval_state`)).status).toBe(403);
});
