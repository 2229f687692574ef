import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { insertRule, makeReview } from './support.ts';

const app = useApp();

const FIELDS = `approved approvalsRequired approvalsLeft approvedBy { nodes { username } }
  userPermissions { canApprove } approvalState { approvalRulesOverwritten invalidApproversRules { name }
    rules { id name type reportType section approvalsRequired approved invalid overridden
      approvedBy { nodes { username } } eligibleApprovers { username } } }`;

const mutate = async (client: Client, name: string, input: Record<string, unknown>) => {
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  const query = `mutation ($input: ${type}!) { ${name}(input: $input) { errors mergeRequest { ${FIELDS} } } }`;
  const { data, errors } = await client.graphql(query, { input });
  return errors ? { errors } : data[name];
};

describe('approvals over GraphQL', () => {
  it('follow the same rules', async () => {
    const { ada, author, reporter, stranger, project, users, head } = await makeReview(app());
    await insertRule(app(), { project_id: project.id }, { name: 'Team', approvals_required: 1, users: [users.ada] });
    const one = { projectPath: project.path_with_namespace, iid: '1' };
    expect(await mutate(ada, 'mergeRequestApprove', { ...one, sha: 'a'.repeat(40) })).toMatchObject({
      errors: [expect.stringContaining('SHA does not match')],
    });
    expect(await mutate(ada, 'mergeRequestApprove', { ...one, sha: head, approvalPassword: 'not asked for' })).toEqual({
      errors: [],
      mergeRequest: {
        approved: true,
        approvalsRequired: 1,
        approvalsLeft: 0,
        approvedBy: { nodes: [{ username: users.ada.username }] },
        userPermissions: { canApprove: true },
        approvalState: {
          approvalRulesOverwritten: false,
          invalidApproversRules: [],
          rules: [
            {
              id: expect.stringContaining('gid://gitlab/ApprovalMergeRequestRule/'),
              name: 'Team',
              type: 'REGULAR',
              reportType: null,
              section: null,
              approvalsRequired: 1,
              approved: true,
              invalid: false,
              overridden: false,
              approvedBy: { nodes: [{ username: users.ada.username }] },
              eligibleApprovers: [{ username: users.ada.username }],
            },
          ],
        },
      },
    });
    // Repeating it is not an error.
    expect(await mutate(ada, 'mergeRequestApprove', one)).toMatchObject({ errors: [] });
    for (const client of [author, reporter, stranger]) {
      expect((await mutate(client, 'mergeRequestApprove', one)).errors).toHaveLength(1);
    }
    expect(await mutate(ada, 'mergeRequestUnapprove', one)).toMatchObject({
      errors: [],
      mergeRequest: { approved: false, approvalsLeft: 1 },
    });
  });

  it('let reviewers ask for changes, which blocks the merge until they approve', async () => {
    const { ada, bob, owner, at, project, users } = await makeReview(app());
    const one = { projectPath: project.path_with_namespace, iid: '1' };
    expect((await mutate(bob, 'mergeRequestRequestChanges', one)).errors).toHaveLength(1);
    await owner.put(at, { reviewer_ids: [users.ada.id] });
    await ada.post(`${at}/approve`);
    expect(await mutate(ada, 'mergeRequestRequestChanges', one)).toMatchObject({
      errors: [],
      mergeRequest: { approvedBy: { nodes: [] } },
    });
    expect((await owner.get(at)).body.detailed_merge_status).toBe('requested_changes');
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    expect(await mutate(ada, 'mergeRequestDestroyRequestedChanges', one)).toMatchObject({ errors: [] });
    expect((await owner.get(at)).body.detailed_merge_status).toBe('mergeable');
    await mutate(ada, 'mergeRequestRequestChanges', one);
    await ada.post(`${at}/approve`);
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
  });

  it('go when another review is asked for, which does not take back that changes are needed', async () => {
    const { ada, author, owner, at, project, users } = await makeReview(app());
    const one = { projectPath: project.path_with_namespace, iid: '1' };
    await owner.put(at, { reviewer_ids: [users.ada.id] });
    await ada.post(`${at}/approve`);
    const again = { ...one, userId: `gid://gitlab/User/${users.ada.id}` };
    expect(await mutate(author, 'mergeRequestReviewerRereview', again)).toMatchObject({
      errors: [],
      mergeRequest: { approvedBy: { nodes: [] } },
    });
    await mutate(ada, 'mergeRequestRequestChanges', one);
    await mutate(author, 'mergeRequestReviewerRereview', again);
    expect((await owner.get(at)).body.detailed_merge_status).toBe('requested_changes');
  });
});
