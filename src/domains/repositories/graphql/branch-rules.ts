import { GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import type { ProjectWith } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection, listConnection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { matchesPattern } from '../model.ts';
import type { ProtectedBranch } from '../protected-branches.ts';
import {
  getProtectedBranchById,
  listOfProtections,
  protectBranch,
  unprotectBranch,
  updateProtectedBranch,
} from '../protections/branches.ts';
import { describeLevel, type Grant, type GrantedLevel, roleToTell } from '../protections/levels.ts';
import { branchNamesOf } from '../queries/branches.ts';
import { loadProtectedBranches } from './protected-branches.ts';
import { type InProject, inProject, projectAt, READS_GIT } from './refs.ts';

// Protected branches in the terms of existing frontends: a rule for a branch, or for all branches that match a
// wildcard.

const loadBranchNames = loader(branchNamesOf);

/** Defines a kind of access level and its connection. All kinds have the same fields. */
const accessLevels = (name: 'MergeAccessLevel' | 'PushAccessLevel' | 'UnprotectAccessLevel', description: string) => {
  const type = builder.objectRef<GrantedLevel>(name).implement({
    description,
    fields: (t) => ({
      accessLevel: t.int({
        nullable: false,
        description: 'A role: 0 (no one), 30, 40 or 60 (administrators). Always 40 for a user or a group.',
        resolve: roleToTell,
      }),
      accessLevelDescription: t.string({ nullable: false, resolve: describeLevel }),
      user: t.field({
        type: UserRef,
        nullable: true,
        resolve: ({ user_id }, _args, ctx) => (user_id === null ? null : loadUser(ctx, user_id)),
      }),
      group: t.field({
        type: GroupRef,
        nullable: true,
        description: 'Also null if the caller may not see the group.',
        resolve: ({ group_id }, _args, ctx) => (group_id === null ? null : loadGroup(ctx, group_id)),
      }),
    }),
  });
  return { type, paged: builder.connectionObject({ type, name: `${name}Connection` }, { name: `${name}Edge` }) };
};
const MergeAccessLevel = accessLevels('MergeAccessLevel', 'Who may merge.');
const PushAccessLevel = accessLevels('PushAccessLevel', 'Who may push.');
const UnprotectAccessLevel = accessLevels('UnprotectAccessLevel', 'Who may remove the protection.');

const BranchProtection = builder.objectRef<ProtectedBranch>('BranchProtection').implement({
  description: 'The protection of the branches that a branch rule matches.',
  fields: (t) => {
    const levels = ({ type, paged }: ReturnType<typeof accessLevels>, action: string) =>
      t.connection(
        {
          type,
          nullable: true,
          extensions: { usualSize: 5 },
          resolve: (branch: ProtectedBranch, args, _ctx, info) =>
            connection(args, info, async (page) =>
              pageOfAll(
                page,
                branch.levels.filter((level) => level.action === action),
                ({ id }) => [id],
              ),
            ),
        },
        paged,
      );
    return {
      allowForcePush: t.exposeBoolean('allow_force_push', { nullable: false }),
      codeOwnerApprovalRequired: t.exposeBoolean('code_owner_approval_required', { nullable: false }),
      isGroupLevel: t.boolean({
        nullable: false,
        description: 'Always false: groups have no branch rules.',
        resolve: () => false,
      }),
      mergeAccessLevels: levels(MergeAccessLevel, 'merge'),
      pushAccessLevels: levels(PushAccessLevel, 'push'),
      unprotectAccessLevels: levels(UnprotectAccessLevel, 'unprotect'),
    };
  },
});

/** The parts of a project that the fields of its rules read. */
const RULED = ['id', ...JUDGED, 'default_branch', 'disk_path'] as const;
type RuledProject = ProjectWith<typeof RULED>;

const BranchRuleRef = builder.objectRef<InProject<ProtectedBranch, RuledProject>>('BranchRule').implement({
  description: 'A rule for a branch, or for all branches that match a wildcard.',
  fields: (t) => ({
    id: t.field({ type: 'ProjectsBranchRuleID', nullable: true, resolve: ({ id }) => id }),
    name: t.exposeString('name', { nullable: false, description: '`*` matches any characters.' }),
    isDefault: t.boolean({
      nullable: false,
      description: 'Whether the rule names the default branch exactly.',
      resolve: ({ name, project }) => name === project.default_branch,
    }),
    isProtected: t.boolean({
      nullable: false,
      description: 'Always true: all rules protect branches.',
      resolve: () => true,
    }),
    matchingBranchesCount: t.int({
      nullable: false,
      ...READS_GIT,
      description: 'The number of branches that the rule matches. 0 if the caller may not read the code.',
      resolve: async ({ name, project }, _args, ctx) => {
        const names = can(ctx, project, 'read_code') ? await loadBranchNames(ctx, project) : null;
        return (names ?? []).filter((branch) => matchesPattern(name, branch)).length;
      },
    }),
    branchProtection: t.field({ type: BranchProtection, nullable: true, resolve: (rule) => rule }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: true }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: true }),
  }),
});
const BranchRuleConnection = builder.connectionObject(
  { type: BranchRuleRef, name: 'BranchRuleConnection' },
  { name: 'BranchRuleEdge' },
);

projectField('branchRules', RULED, (t) =>
  t.connection(
    {
      type: BranchRuleRef,
      nullable: true,
      description: 'Protected branches in the form that frontends expect. Only for Developers and above.',
      resolve: async (project, args, ctx, info) => {
        if (!can(ctx, project, 'read_protected_branch')) return null;
        const all = (await loadProtectedBranches(ctx, project.id)) ?? [];
        return listConnection(args, info, listOfProtections(inProject(project, all)));
      },
    },
    BranchRuleConnection,
  ),
);

const levelInput = (name: 'MergeAccessLevelInput' | 'PushAccessLevelInput') =>
  builder.inputType(name, {
    description: 'Exactly one of the three fields.',
    fields: (t) => ({
      accessLevel: t.int({ description: '0, 30, 40 or 60.' }),
      userId: t.field({ type: 'UserID' }),
      groupId: t.field({ type: 'GroupID' }),
    }),
  });
const MergeAccessLevelInput = levelInput('MergeAccessLevelInput');
const PushAccessLevelInput = levelInput('PushAccessLevelInput');

const BranchProtectionInput = builder.inputType('BranchProtectionInput', {
  description: 'Absent fields stay unchanged. A list replaces all earlier levels.',
  fields: (t) => ({
    allowForcePush: t.boolean(),
    codeOwnerApprovalRequired: t.boolean(),
    mergeAccessLevels: t.field({ type: [MergeAccessLevelInput] }),
    pushAccessLevels: t.field({ type: [PushAccessLevelInput] }),
  }),
});

const toGrants = (
  given: readonly (typeof MergeAccessLevelInput.$inferInput)[] | null | undefined,
): readonly Grant[] | undefined =>
  given?.map(({ accessLevel, userId, groupId }) => ({
    access_level: accessLevel ?? undefined,
    user_id: userId ?? undefined,
    group_id: groupId ?? undefined,
  }));

mutationField('branchRuleCreate', {
  description: 'Protects a branch, or all branches that match a wildcard. Only Maintainers may then push and merge.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    name: t.string({ required: true, description: '`*` matches any characters.' }),
  }),
  payload: { branchRule: BranchRuleRef },
  run: async (ctx, { projectPath, name }) => {
    const project = await projectAt(ctx, projectPath);
    return { branchRule: { ...(await protectBranch(ctx, project, name, {})), project } };
  },
});

mutationField('branchRuleUpdate', {
  description: 'Changes a rule. Only for callers who may remove it.',
  input: (t) => ({
    id: t.field({ type: 'ProjectsBranchRuleID', required: true }),
    name: t.string({ required: true, description: 'The current or a new name.' }),
    branchProtection: t.field({ type: BranchProtectionInput }),
  }),
  payload: { branchRule: BranchRuleRef },
  run: async (ctx, { id, name, branchProtection }) => {
    const { project, branch } = await getProtectedBranchById(ctx, id);
    const changed = await updateProtectedBranch(ctx, project, branch.name, {
      name,
      replaces: true,
      allow_force_push: branchProtection?.allowForcePush ?? undefined,
      code_owner_approval_required: branchProtection?.codeOwnerApprovalRequired ?? undefined,
      allowed_to_merge: toGrants(branchProtection?.mergeAccessLevels),
      allowed_to_push: toGrants(branchProtection?.pushAccessLevels),
    });
    return { branchRule: { ...changed, project } };
  },
});

mutationField('branchRuleDelete', {
  description: 'Removes a rule. Only for callers that the rule allows to.',
  input: (t) => ({ id: t.field({ type: 'ProjectsBranchRuleID', required: true }) }),
  payload: { branchRule: BranchRuleRef },
  run: async (ctx, { id }) => {
    const { project, branch } = await getProtectedBranchById(ctx, id);
    await unprotectBranch(ctx, project, branch.name);
    return {};
  },
});
