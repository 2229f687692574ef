import { sql } from 'kysely';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { conflict, forbidden, invalid, notFound, requireUnchanged } from '#platform/errors.ts';
import { branchProtected, branchProtectionUpdated, branchUnprotected } from '../events.ts';
import { type ProtectedBranch, readProtectedBranches } from '../protected-branches.ts';
import { isGranted, readProtections } from '../protections.ts';
import {
  aboutProtection,
  addLevels,
  allowedFromStart,
  type Grant,
  idsToRemove,
  nameProblem,
  removeLevels,
} from './levels.ts';

export interface ProtectionInput {
  readonly push_access_level?: number | undefined;
  readonly merge_access_level?: number | undefined;
  readonly unprotect_access_level?: number | undefined;
  readonly allowed_to_push?: readonly Grant[] | undefined;
  readonly allowed_to_merge?: readonly Grant[] | undefined;
  readonly allowed_to_unprotect?: readonly Grant[] | undefined;
  readonly allow_force_push?: boolean | undefined;
  readonly code_owner_approval_required?: boolean | undefined;
}

export interface ProtectionChanges extends ProtectionInput {
  /** A new name or wildcard. */
  readonly name?: string | undefined;
  /** Whether given levels replace all earlier levels of the same action. Otherwise they are added. */
  readonly replaces?: boolean | undefined;
}

export interface ProtectionFilter {
  /** Part of the name, case-insensitive. */
  readonly search?: string | undefined;
}

/** Returns protected branches and wildcards by name. @throws DomainError as `requireAbility(read_protected_branch)` */
export const listProtectedBranches = async (
  ctx: Context,
  project: ProjectRow,
  filter: ProtectionFilter = {},
): Promise<List<ProtectedBranch>> => {
  requireAbility(ctx, project, 'read_protected_branch');
  return listOfProtections(await readProtectedBranches(ctx, sql`b.project_id = ${project.id}`), filter);
};

/** Returns the loaded protections of one project as a list. */
export const listOfProtections = <Row extends ProtectedBranch>(
  all: readonly Row[],
  { search }: ProtectionFilter = {},
): List<Row> => {
  const term = search?.toLowerCase() ?? '';
  return listOfRows(
    all.filter(({ name }) => name.toLowerCase().includes(term)),
    ({ name }) => name,
  );
};

/** Returns the protection with exactly this name, including wildcards. @throws DomainError `not_found` */
export const getProtectedBranch = async (ctx: Context, project: ProjectRow, name: string): Promise<ProtectedBranch> => {
  requireAbility(ctx, project, 'read_protected_branch');
  return named(ctx, project, name);
};

/**
 * Returns a protection by id, with its project.
 *
 * @throws DomainError `not_found`, also if the caller may not know of it
 */
export const getProtectedBranchById = async (
  ctx: Context,
  id: number,
): Promise<{ readonly project: ProjectRow; readonly branch: ProtectedBranch }> => {
  const [branch] = await readProtectedBranches(ctx, sql`b.id = ${id}`);
  if (!branch) throw notFound();
  const project = await findProject(ctx, { id: branch.project_id });
  if (!project || !can(ctx, project, 'read_protected_branch')) throw notFound();
  return { project, branch };
};

/**
 * Protects a branch, or all branches that match a wildcard. Absent levels default to Maintainers.
 *
 * @throws DomainError `forbidden`, `conflict` if it is protected already, `invalid`, `unprocessable` for people and
 * groups without access to the project
 */
export const protectBranch = async (
  ctx: Context,
  given: ProjectRow,
  name: string,
  input: ProtectionInput,
): Promise<ProtectedBranch> => {
  requireAbility(ctx, given, 'admin_protected_branch');
  requireName(name);
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_protected_branch');
    const created = await tx.db
      .insertInto('protected_branches')
      .values({
        project_id: project.id,
        name,
        allow_force_push: input.allow_force_push ?? false,
        code_owner_approval_required: input.code_owner_approval_required ?? false,
      })
      .onConflict((clash) => clash.columns(['project_id', 'name']).doNothing())
      .returning('id')
      .executeTakeFirst();
    if (!created) throw conflict(`Protected branch '${name}' already exists`);
    for (const [action, level, grants] of wishes(input)) {
      await addLevels(tx, project, { protected_branch_id: created.id }, action, allowedFromStart(level, grants));
    }
    tx.emit(branchProtected, { ...aboutProtection(project), payload: { id: created.id, name } });
    return named(tx, project, name);
  });
};

/** Changes a protection. Requires the right to remove it. @throws DomainError as `protectBranch`, `not_found` */
export const updateProtectedBranch = async (
  ctx: Context,
  given: ProjectRow,
  oldName: string,
  input: ProtectionChanges,
): Promise<ProtectedBranch> => {
  requireAbility(ctx, given, 'admin_protected_branch');
  const { name = oldName } = input;
  if (name !== oldName) requireName(name);
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_protected_branch');
    const before = await named(tx, project, oldName);
    await requireUnprotect(tx, project, before, 'you are not allowed to change the protection of this branch');
    const { allow_force_push = before.allow_force_push } = input;
    const { code_owner_approval_required = before.code_owner_approval_required } = input;
    await tx.db
      .updateTable('protected_branches')
      .set({ name, allow_force_push, code_owner_approval_required, updated_at: sql`now()` })
      .where('id', '=', before.id)
      .execute()
      .catch(asTaken);
    for (const [action, level, grants] of wishes(input)) {
      const present = before.levels.filter((each) => each.action === action);
      const replaced = present.filter(
        // A plain level replaces all roles given before.
        ({ access_level }) =>
          (level !== undefined && access_level !== null) || (input.replaces && grants !== undefined),
      );
      await removeLevels(tx, [...replaced.map(({ id }) => id), ...idsToRemove(present, grants ?? [])]);
      const added = (grants ?? []).filter(({ destroy }) => !destroy);
      await addLevels(tx, project, { protected_branch_id: before.id }, action, [
        ...(level === undefined ? [] : [{ access_level: level }]),
        ...added,
      ]);
    }
    tx.emit(branchProtectionUpdated, { ...aboutProtection(project), payload: { id: before.id, name } });
    return named(tx, project, name);
  });
};

/** Removes a protection. Its own levels must allow that. @throws DomainError `forbidden`, `not_found`, `modified` */
export const unprotectBranch = async (
  ctx: Context,
  given: ProjectRow,
  name: string,
  unchangedSince: Date | null = null,
): Promise<ProtectedBranch> => {
  requireAbility(ctx, given, 'admin_protected_branch');
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_protected_branch');
    const before = await named(tx, project, name);
    await requireUnprotect(tx, project, before, 'you are not allowed to unprotect this branch');
    const gone = await tx.db
      .deleteFrom('protected_branches')
      .where('id', '=', before.id)
      .returning('updated_at')
      .executeTakeFirstOrThrow();
    requireUnchanged(gone, unchangedSince);
    tx.emit(branchUnprotected, { ...aboutProtection(project), payload: { id: before.id, name } });
    return before;
  });
};

/**
 * Callers who may not remove a protection may not weaken it either. Without `unprotect` levels, everyone who
 * administers protections may.
 */
const requireUnprotect = async (
  tx: Tx,
  project: ProjectRow,
  { id, levels }: ProtectedBranch,
  refusal: string,
): Promise<void> => {
  if (!levels.some(({ action }) => action === 'unprotect')) return;
  const { branches, callersGroups } = await readProtections(tx, project.id);
  const rules = branches.filter((rule) => rule.id === id);
  if (!isGranted(tx, project.access_level, rules, 'unprotect', callersGroups)) throw forbidden(refusal);
};

const requireName = (name: string): void => {
  const problem = nameProblem(name);
  if (problem !== null) throw invalid({ name: [problem] });
};

const asTaken = (error: unknown): never => {
  if (brokenConstraint(error) === 'protected_branches_project_id_name_key') {
    throw invalid({ name: ['has already been taken'] });
  }
  throw error;
};

const wishes = (input: ProtectionInput) =>
  [
    ['push', input.push_access_level, input.allowed_to_push],
    ['merge', input.merge_access_level, input.allowed_to_merge],
    ['unprotect', input.unprotect_access_level, input.allowed_to_unprotect],
  ] as const;

const named = async (ctx: Context, project: ProjectRow, name: string): Promise<ProtectedBranch> => {
  const [found] = await readProtectedBranches(ctx, sql`b.project_id = ${project.id} and b.name = ${name}`);
  if (!found) throw notFound();
  return found;
};
