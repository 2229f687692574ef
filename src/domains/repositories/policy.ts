import { PRIVATE, REPORTER } from '#domains/access/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { JudgedProject } from '#domains/projects/policy.ts';
import { defaultProtection } from '#domains/projects/protection.ts';
import { refusalOfBranchName, refusalOfTagDeletion, refusalsOfObjects } from '#domains/push-rules/judge.ts';
import type { PushRule } from '#domains/push-rules/model.ts';
import { governingRule } from '#domains/push-rules/queries.ts';
import type { Context } from '#platform/context.ts';
import type { PushVerdict, RefRefusal } from '#platform/git/http.ts';
import type { NewObjects } from '#platform/git/objects.ts';
import { onlyBranches } from './collaboration.ts';
import { branchName, type RefUpdate, tagName } from './model.ts';
import { isGranted, matching, type Protections, readProtections } from './protections.ts';

/** The rules that apply to pushes to a project. */
export interface PushPolicy {
  readonly protections: Protections;
  readonly rule: PushRule | null;
  /** The repository is empty, and Developers may make the first push. */
  readonly initialPush: boolean;
}

export const readPushPolicy = async (ctx: Context, project: ProjectRow): Promise<PushPolicy> => {
  const [protections, rule, mayBegin] = await Promise.all([
    readProtections(ctx, project.id),
    governingRule(ctx, project),
    project.empty_repo && developersMayBegin(ctx, project),
  ]);
  return { protections, rule, initialPush: mayBegin };
};

/**
 * Applies protection and the push rule to a push. Returns refusals per ref, and the refs that only accept
 * fast-forwards. A caller without `push_code` may only change the branches of merge requests that allow it. Without `objects` it checks names only; with them it also
 * checks the new objects. Reads the policy unless it is given.
 */
export const judgePush = async (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  objects: NewObjects | null,
  policy?: PushPolicy,
): Promise<PushVerdict> => {
  const { protections, rule, initialPush } = policy ?? (await readPushPolicy(ctx, project));
  const only = await onlyBranches(ctx, project);
  const first = firstBranch(project, updates);
  const refused: RefRefusal[] = [];
  const fastForwardOnly: string[] = [];
  for (const update of updates) {
    const { ref } = update;
    const branch = branchName(ref);
    const tag = tagName(ref);
    const isChange = update.oldOid !== null && update.newOid !== null;
    if (only && !(isChange && branch !== null && only.has(branch))) {
      refused.push({ ref, reason: 'You are not allowed to push to this branch or tag.' });
    } else if (branch !== null) {
      // The first branch becomes the default branch, so the protection of the default branch applies to it.
      const name = branch === first ? (project.default_branch ?? branch) : branch;
      const reason =
        refusalOfBranch(ctx, project, protections, { ...update, branch, name, initialPush }) ??
        refusalOfNewName(rule, project, { ...update, name });
      if (reason !== null) refused.push({ ref, reason });
      const rules = matching(protections.branches, name);
      if (rules.length > 0 && !rules.some((rule) => rule.allow_force_push)) fastForwardOnly.push(ref);
    } else if (tag !== null) {
      const reason =
        refusalOfTag(ctx, project, protections, tag, update) ??
        (rule && update.newOid === null ? refusalOfTagDeletion(rule) : null);
      if (reason !== null) refused.push({ ref, reason });
    }
  }
  if (rule && objects && refused.length === 0) {
    refused.push(...(await refusalsOfObjects(ctx, project, rule, updates, objects)));
  }
  return { refused, fastForwardOnly };
};

/** Checks the name of a new branch. The default branch may have any name. */
const refusalOfNewName = (
  rule: PushRule | null,
  project: ProjectRow,
  { oldOid, newOid, name }: RefUpdate & { readonly name: string },
): string | null =>
  rule && oldOid === null && newOid !== null && name !== project.default_branch
    ? refusalOfBranchName(rule, name)
    : null;

/**
 * Returns the first branch of an empty repository: the configured default branch if the push contains it, else the first
 * one.
 */
export const firstBranch = (project: ProjectRow, updates: readonly RefUpdate[]): string | null => {
  if (!project.empty_repo) return null;
  const created = updates.flatMap(({ ref, newOid }) => (newOid === null ? [] : (branchName(ref) ?? [])));
  return created.includes(project.default_branch ?? '') ? project.default_branch : (created[0] ?? null);
};

/**
 * Returns whether the caller may change the branch as far as protection and collaboration go. `only` are the
 * `onlyBranches` of the caller.
 */
export const mayPushTo = (
  ctx: Pick<Context, 'actor'>,
  project: JudgedProject,
  { protections, only }: { readonly protections: Protections; readonly only: ReadonlySet<string> | null },
  branch: string,
): boolean => {
  if (only && !only.has(branch)) return false;
  const rules = matching(protections.branches, branch);
  return rules.length === 0 || isGranted(ctx, project.access_level, rules, 'push', protections.callersGroups);
};

const PROTECTED_BRANCH_KEPT = 'Protected branch cannot be removed';
const DEFAULT_BRANCH_KEPT = 'The default branch of a project cannot be deleted.';

const refusalOfBranch = (
  ctx: Context,
  project: ProjectRow,
  protections: Protections,
  update: RefUpdate & { readonly branch: string; readonly name: string; readonly initialPush: boolean },
): string | null => {
  const rules = matching(protections.branches, update.name);
  if (update.newOid === null) {
    if (update.branch === project.default_branch) return DEFAULT_BRANCH_KEPT;
    return rules.length > 0 ? PROTECTED_BRANCH_KEPT : null;
  }
  if (rules.length === 0 || (update.initialPush && update.name === project.default_branch)) return null;
  if (isGranted(ctx, project.access_level, rules, 'push', protections.callersGroups)) return null;
  return update.oldOid === null
    ? 'You are not allowed to create protected branches on this project.'
    : 'You are not allowed to push code to protected branches on this project.';
};

const refusalOfTag = (
  ctx: Context,
  project: ProjectRow,
  protections: Protections,
  tag: string,
  { oldOid, newOid }: RefUpdate,
): string | null => {
  const rules = matching(protections.tags, tag);
  if (rules.length === 0) return null;
  if (newOid === null) return 'Protected tags cannot be deleted.';
  if (oldOid !== null) return 'Protected tags cannot be updated.';
  return isGranted(ctx, project.access_level, rules, 'create', protections.callersGroups)
    ? null
    : 'You are not allowed to create this tag as it is protected.';
};

/** Reads `developer_can_initial_push` of the group, else of the instance. */
const developersMayBegin = async (ctx: Context, project: ProjectRow): Promise<boolean> =>
  (await defaultProtection(ctx, project.namespace_id)).developer_can_initial_push;

/** Returns the lowest role that may see pushed code. Null if everyone who sees the project may. */
export const codeAudience = (
  project: Pick<ProjectRow, 'visibility_level' | 'repository_access_level'>,
): number | null => {
  const isOpen = project.visibility_level > PRIVATE && project.repository_access_level === 'enabled';
  return isOpen ? null : REPORTER;
};
