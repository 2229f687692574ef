import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { mutate } from '../support/graphql.ts';
import { makeReview } from './support.ts';

const app = useApp();

const gid = (model: string, id: number) => `gid://gitlab/${model}/${id}`;

/** Runs a mutation that has to fail, and returns its errors. */
const refusal = async (client: Client, name: string, input: Record<string, unknown>): Promise<unknown> => {
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  const answer = await client.graphql(`mutation ($input: ${type}!) { ${name}(input: $input) { errors } }`, { input });
  return answer.data[name].errors;
};

const RULE = `id name type approvalsRequired containsHiddenGroups
  users { nodes { username } } groups { nodes { fullPath } } eligibleApprovers { nodes { username } }`;
const SETTINGS = `allowAuthorApproval { value locked inheritedFrom } allowCommitterApproval { value }
  allowOverridesToApproverListPerMergeRequest { value } retainApprovalsOnPush { value }
  selectiveCodeOwnerRemovals { value } requireReauthenticationToApprove { value }`;

describe('approval rules over GraphQL', () => {
  it('are written and read for a project', async () => {
    const scene = await makeReview(app());
    const { maintainer, reporter, stranger, project, users, path } = scene;
    const team = await app().make.group({}, scene.people.maintainer);
    const release = (await maintainer.post(`${path}/protected_branches`, { name: 'release/*' })).body.id;
    const made = await mutate(
      maintainer,
      'approvalProjectRuleCreate',
      {
        projectPath: project.path_with_namespace,
        name: 'Security',
        approvalsRequired: 2,
        userIds: [gid('User', users.ada.id)],
        groupIds: [gid('Group', team.id)],
        type: 'REGULAR',
        protectedBranchIds: [release],
        appliesToAllProtectedBranches: false,
      },
      `approvalRule { ${RULE} reportType appliesToAllProtectedBranches }`,
    );
    const { id } = made.approvalRule;
    expect(made).toMatchObject({
      errors: [],
      approvalRule: {
        name: 'Security',
        type: 'REGULAR',
        reportType: null,
        approvalsRequired: 2,
        containsHiddenGroups: false,
        users: { nodes: [{ username: users.ada.username }] },
        groups: { nodes: [{ fullPath: team.full_path }] },
        eligibleApprovers: {
          nodes: [{ username: scene.people.maintainer.username }, { username: users.ada.username }],
        },
        appliesToAllProtectedBranches: false,
      },
    });
    const query = `query ($path: ID!) { project(fullPath: $path) { approvalRules(first: 20) { nodes { ${RULE} } } } }`;
    const rulesFor = async (client: typeof maintainer) =>
      (await client.graphql(query, { path: project.path_with_namespace })).data.project?.approvalRules ?? null;
    expect(await rulesFor(reporter)).toMatchObject({ nodes: [{ id, name: 'Security' }] });
    expect(await rulesFor(stranger)).toBeNull();
    const changed = await mutate(
      maintainer,
      'approvalProjectRuleUpdate',
      {
        id,
        name: 'Review',
        approvalsRequired: 1,
        userIds: [gid('User', users.bob.id)],
        groupIds: [],
        removeHiddenGroups: true,
        protectedBranchIds: [],
        appliesToAllProtectedBranches: true,
      },
      `approvalRule { ${RULE} appliesToAllProtectedBranches }`,
    );
    expect(changed.approvalRule).toMatchObject({
      name: 'Review',
      approvalsRequired: 1,
      users: { nodes: [{ username: users.bob.username }] },
      groups: { nodes: [] },
      appliesToAllProtectedBranches: true,
    });
    expect(await refusal(maintainer, 'approvalProjectRuleUpdate', { id, approvalsRequired: 101 })).toEqual([
      'Approvals required must be less than or equal to 100',
    ]);
    const coverage = await mutate(
      maintainer,
      'approvalProjectRuleCreate',
      {
        projectPath: project.path_with_namespace,
        name: 'Coverage-Check',
        approvalsRequired: 1,
        reportType: 'CODE_COVERAGE',
      },
      'approvalRule { type reportType }',
    );
    expect(coverage.approvalRule).toEqual({ type: 'REPORT_APPROVER', reportType: 'CODE_COVERAGE' });
    const DELETE =
      'mutation ($id: ApprovalProjectRuleID!) { approvalProjectRuleDelete(input: { id: $id }) { errors } }';
    expect((await reporter.graphql(DELETE, { id })).errors).toHaveLength(1);
    expect((await stranger.graphql(DELETE, { id })).errors?.[0]?.message).toContain('does not exist');
    expect((await maintainer.graphql(DELETE, { id })).data.approvalProjectRuleDelete).toEqual({ errors: [] });
    expect((await maintainer.graphql(DELETE, { id })).errors?.[0]?.message).toContain('does not exist');
  });

  it('are written and read for a group', async () => {
    const { owner, stranger, group, people } = await makeReview(app());
    const made = await mutate(
      owner,
      'approvalGroupRuleCreate',
      {
        groupPath: group.full_path,
        name: 'Everywhere',
        approvalsRequired: 1,
        userIds: [gid('User', people.owner.id)],
        groupIds: [gid('Group', group.id)],
      },
      `approvalRule { ${RULE} }`,
    );
    const { id } = made.approvalRule;
    expect(made.approvalRule).toMatchObject({
      type: 'REGULAR',
      eligibleApprovers: { nodes: [{ username: people.owner.username }] },
    });
    const query = `query ($path: ID!) { group(fullPath: $path) { approvalRules { nodes { id } } approvalSettings { ${SETTINGS} } } }`;
    expect((await owner.graphql(query, { path: group.full_path })).data.group).toMatchObject({
      approvalRules: { nodes: [{ id }] },
      approvalSettings: { allowAuthorApproval: { value: true, locked: false, inheritedFrom: null } },
    });
    expect((await stranger.graphql(query, { path: group.full_path })).data.group).toEqual({
      approvalRules: null,
      approvalSettings: null,
    });
    const changed = await mutate(
      owner,
      'approvalGroupRuleUpdate',
      {
        id,
        name: 'Anywhere',
        approvalsRequired: 2,
        userIds: [],
        groupIds: [gid('Group', group.id)],
        removeHiddenGroups: false,
      },
      `approvalRule { ${RULE} }`,
    );
    expect(changed.approvalRule).toMatchObject({ name: 'Anywhere', approvalsRequired: 2, users: { nodes: [] } });
    const DELETE = 'mutation ($id: ApprovalGroupRuleID!) { approvalGroupRuleDelete(input: { id: $id }) { errors } }';
    expect((await stranger.graphql(DELETE, { id })).errors).toHaveLength(1);
    expect((await owner.graphql(DELETE, { id })).data.approvalGroupRuleDelete).toEqual({ errors: [] });
    expect((await owner.graphql(DELETE, { id: gid('ApprovalGroupRule', 999_999_999) })).errors).toHaveLength(1);
  });

  it('are written and read for a merge request', async () => {
    const { owner, author, reporter, project, users, path, id: mergeRequestId } = await makeReview(app());
    const { body: source } = await owner.post(`${path}/approval_rules`, {
      name: 'Security',
      approvals_required: 2,
      user_ids: [users.ada.id],
    });
    const place = { projectPath: project.path_with_namespace, iid: '1' };
    const made = await mutate(
      author,
      'approvalMergeRequestRuleCreate',
      {
        ...place,
        name: 'x',
        approvalsRequired: 1,
        userIds: [gid('User', users.bob.id)],
        groupIds: [],
        approvalProjectRuleId: gid('ApprovalProjectRule', source.id),
      },
      `approvalRule { ${RULE} overridden sourceRule { id name } }`,
    );
    const { id } = made.approvalRule;
    expect(made.approvalRule).toMatchObject({
      name: 'Security',
      overridden: true,
      sourceRule: { id: gid('ApprovalProjectRule', source.id), name: 'Security' },
      eligibleApprovers: { nodes: [{ username: users.bob.username }] },
    });
    const query = `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") {
      approvalRules(first: 20) { nodes { id sourceRule { name } overridden eligibleApprovers { nodes { username } } } } } } }`;
    const shown = await reporter.graphql(query, { path: project.path_with_namespace });
    expect(shown.data.project.mergeRequest.approvalRules.nodes).toMatchObject([{ id, overridden: true }]);
    const changed = await mutate(
      author,
      'approvalMergeRequestRuleUpdate',
      { ...place, id, name: 'Mine', approvalsRequired: 0, userIds: [], groupIds: [], removeHiddenGroups: true },
      `approvalRule { ${RULE} overridden sourceRule { id } }`,
    );
    expect(changed.approvalRule).toMatchObject({ name: 'Mine', approvalsRequired: 0, users: { nodes: [] } });
    const DELETE = `mutation ($input: ApprovalMergeRequestRuleDeleteInput!) {
      approvalMergeRequestRuleDelete(input: $input) { errors } }`;
    expect((await reporter.graphql(DELETE, { input: { ...place, id } })).errors).toHaveLength(1);
    expect((await author.graphql(DELETE, { input: { ...place, iid: 'x', id } })).errors).toHaveLength(1);
    expect((await author.graphql(DELETE, { input: { ...place, id } })).data.approvalMergeRequestRuleDelete).toEqual({
      errors: [],
    });
    expect(mergeRequestId).toBeGreaterThan(0);
  });
});

describe('approval settings over GraphQL', () => {
  it('change for groups and projects', async () => {
    const { owner, reporter, group, project } = await makeReview(app());
    const all = {
      allowAuthorApproval: true,
      allowCommitterApproval: false,
      allowOverridesToApproverListPerMergeRequest: false,
      retainApprovalsOnPush: true,
      selectiveCodeOwnerRemovals: true,
      requireReauthenticationToApprove: true,
    };
    const changed = await mutate(
      owner,
      'projectApprovalSettingsUpdate',
      { projectPath: project.path_with_namespace, ...all },
      `approvalSettings { ${SETTINGS} }`,
    );
    expect(changed.approvalSettings).toEqual(
      Object.fromEntries(
        Object.entries(all).map(([name, value]) => [
          name,
          name === 'allowAuthorApproval' ? { value, locked: false, inheritedFrom: null } : { value },
        ]),
      ),
    );
    const ofGroup = await mutate(
      owner,
      'groupApprovalSettingsUpdate',
      { groupPath: group.full_path, ...all, allowAuthorApproval: false },
      `approvalSettings { ${SETTINGS} }`,
    );
    expect(ofGroup.approvalSettings).toMatchObject({ allowAuthorApproval: { value: false, locked: false } });
    const query = `query ($path: ID!) { project(fullPath: $path) { approvalSettings { ${SETTINGS} } } }`;
    expect(
      (await reporter.graphql(query, { path: project.path_with_namespace })).data.project.approvalSettings,
    ).toMatchObject({ allowAuthorApproval: { value: false, locked: true, inheritedFrom: 'group' } });
    const undone = { projectPath: project.path_with_namespace, allowAuthorApproval: true };
    expect(await refusal(owner, 'projectApprovalSettingsUpdate', undone)).toEqual([
      'Allow author approval is restricted by a group above',
    ]);
  });
});
