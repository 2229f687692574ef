import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type ProtectedBranch, protectedBranchesByProjects } from '../protected-branches.ts';
import {
  listOfProtections,
  type ProtectionInput,
  protectBranch,
  unprotectBranch,
  updateProtectedBranch,
} from '../protections/branches.ts';
import { describeLevel, type GrantedLevel } from '../protections/levels.ts';
import { projectAt } from './refs.ts';

/** An access level of a protected branch or tag. */
export const LevelRef = builder.objectRef<GrantedLevel>('ProtectedBranchAccessLevel').implement({
  description: 'Who may do something with a protected branch: a role, a user or a group.',
  fields: (t) => ({
    id: t.exposeInt('id', { nullable: false }),
    accessLevel: t.exposeInt('access_level', { nullable: true, description: '0, 30, 40 or 60.' }),
    accessLevelDescription: t.string({ nullable: false, resolve: describeLevel }),
    userId: t.exposeInt('user_id', { nullable: true }),
    groupId: t.exposeInt('group_id', { nullable: true }),
  }),
});

const ProtectedBranchRef = builder.objectRef<ProtectedBranch>('ProtectedBranch').implement({
  description: 'A protected branch, or a wildcard that protects all matching branches.',
  fields: (t) => {
    const levels = (action: string) =>
      t.field({
        type: [LevelRef],
        nullable: { list: false, items: false },
        resolve: (branch: ProtectedBranch) => branch.levels.filter((level) => level.action === action),
      });
    return {
      id: t.exposeInt('id', { nullable: false }),
      name: t.exposeString('name', { nullable: false }),
      allowForcePush: t.exposeBoolean('allow_force_push', { nullable: false }),
      codeOwnerApprovalRequired: t.exposeBoolean('code_owner_approval_required', { nullable: false }),
      pushAccessLevels: levels('push'),
      mergeAccessLevels: levels('merge'),
      unprotectAccessLevels: levels('unprotect'),
    };
  },
});
const ProtectedBranchConnection = builder.connectionObject(
  { type: ProtectedBranchRef, name: 'ProtectedBranchConnection' },
  { name: 'ProtectedBranchEdge' },
);

/** Loads the protected branches of a page of projects in one statement. */
export const loadProtectedBranches = loader(protectedBranchesByProjects);

projectField('protectedBranches', JUDGED, (t) =>
  t.connection(
    {
      type: ProtectedBranchRef,
      nullable: true,
      description: 'Only for Developers and above.',
      args: { search: t.arg.string() },
      resolve: async (project, args, ctx, info) => {
        if (!can(ctx, project, 'read_protected_branch')) return null;
        const all = (await loadProtectedBranches(ctx, project.id)) ?? [];
        return listConnection(args, info, listOfProtections(all, { search: args.search ?? undefined }));
      },
    },
    ProtectedBranchConnection,
  ),
);

const GrantInput = builder.inputType('ProtectedBranchGrantInput', {
  description: 'Exactly one of `accessLevel`, `userId` and `groupId`. On update, `id` selects an existing level.',
  fields: (t) => ({
    id: t.int(),
    accessLevel: t.int({ description: '0, 30, 40 or 60.' }),
    userId: t.field({ type: 'UserID' }),
    groupId: t.field({ type: 'GroupID' }),
    destroy: t.boolean(),
  }),
});
type GrantFields = typeof GrantInput.$inferInput;

const protectionFields = (t: InputFields) => ({
  allowedToPush: t.field({ type: [GrantInput] }),
  allowedToMerge: t.field({ type: [GrantInput] }),
  allowedToUnprotect: t.field({ type: [GrantInput] }),
  allowForcePush: t.boolean(),
  codeOwnerApprovalRequired: t.boolean(),
});

interface ProtectionFields {
  allowedToPush?: readonly GrantFields[] | null | undefined;
  allowedToMerge?: readonly GrantFields[] | null | undefined;
  allowedToUnprotect?: readonly GrantFields[] | null | undefined;
  allowForcePush?: boolean | null | undefined;
  codeOwnerApprovalRequired?: boolean | null | undefined;
}

const toProtection = (input: ProtectionFields): ProtectionInput => {
  const grants = (given: readonly GrantFields[] | null | undefined) =>
    given?.map((grant) => ({
      id: grant.id ?? undefined,
      access_level: grant.accessLevel ?? undefined,
      user_id: grant.userId ?? undefined,
      group_id: grant.groupId ?? undefined,
      destroy: grant.destroy ?? undefined,
    }));
  return {
    allowed_to_push: grants(input.allowedToPush),
    allowed_to_merge: grants(input.allowedToMerge),
    allowed_to_unprotect: grants(input.allowedToUnprotect),
    allow_force_push: input.allowForcePush ?? undefined,
    code_owner_approval_required: input.codeOwnerApprovalRequired ?? undefined,
  };
};

const protectionTarget = (t: InputFields) => ({
  projectPath: t.id({ required: true }),
  name: t.string({ required: true, description: '`*` matches any characters.' }),
});

mutationField('protectedBranchCreate', {
  description: 'Protects a branch, or all branches that match a wildcard. Absent levels default to Maintainers.',
  input: (t) => ({ ...protectionTarget(t), ...protectionFields(t) }),
  payload: { protectedBranch: ProtectedBranchRef },
  run: async (ctx, { projectPath, name, ...input }) => ({
    protectedBranch: await protectBranch(ctx, await projectAt(ctx, projectPath), name, toProtection(input)),
  }),
});

mutationField('protectedBranchUpdate', {
  description: 'Changes a protection.',
  input: (t) => ({ ...protectionTarget(t), ...protectionFields(t) }),
  payload: { protectedBranch: ProtectedBranchRef },
  run: async (ctx, { projectPath, name, ...input }) => ({
    protectedBranch: await updateProtectedBranch(ctx, await projectAt(ctx, projectPath), name, toProtection(input)),
  }),
});

mutationField('protectedBranchDestroy', {
  description: 'Removes a protection.',
  input: (t) => protectionTarget(t),
  payload: { protectedBranch: ProtectedBranchRef },
  run: async (ctx, { projectPath, name }) => ({
    protectedBranch: await unprotectBranch(ctx, await projectAt(ctx, projectPath), name),
  }),
});
