import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { conflict, forbidden, invalid, notFound } from '#platform/errors.ts';
import { branchProtected, branchProtectionUpdated, branchUnprotected } from './events.ts';
import {
  aboutProtection,
  addLevels,
  allowedFromStart,
  type Grant,
  type GrantedLevel,
  idsToRemove,
  levelsOf,
  nameProblem,
  removeLevels,
} from './protection-levels.ts';
import { isGranted, readProtections } from './protections.ts';

export interface ProtectedBranch {
  readonly id: number;
  readonly name: string;
  readonly allow_force_push: boolean;
  readonly code_owner_approval_required: boolean;
  readonly levels: readonly GrantedLevel[];
}

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

/** Protected branches and wildcards by name. @throws DomainError as `requireAbility(read_protected_branch)` */
export const listProtectedBranches = async (
  ctx: Context,
  project: ProjectRow,
  { search }: { readonly search?: string | undefined } = {},
): Promise<List<ProtectedBranch>> => {
  requireAbility(ctx, project, 'read_protected_branch');
  const all = await readAll(ctx, project.id);
  const term = search?.toLowerCase() ?? '';
  return listOfRows(
    all.filter(({ name }) => name.toLowerCase().includes(term)),
    ({ name }) => name,
  );
};

/** By its exact name, wildcards and all. @throws DomainError `not_found` */
export const getProtectedBranch = async (ctx: Context, project: ProjectRow, name: string): Promise<ProtectedBranch> => {
  requireAbility(ctx, project, 'read_protected_branch');
  return named(ctx, project, name);
};

/**
 * Protects a branch, or all that match a wildcard. What is not said is for Maintainers.
 *
 * @throws DomainError `forbidden`, `conflict` when it is protected already, `invalid`, `unprocessable` for people and
 * groups who have nothing to do with the project
 */
export const protectBranch = async (
  ctx: Context,
  project: ProjectRow,
  name: string,
  input: ProtectionInput,
): Promise<ProtectedBranch> => {
  requireAbility(ctx, project, 'admin_protected_branch');
  const problem = nameProblem(name);
  if (problem !== null) throw invalid({ name: [problem] });
  return ctx.transaction(async (tx) => {
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

/** Changes a protection, for those who may end it. @throws DomainError as `protectBranch`, `not_found` */
export const updateProtectedBranch = async (
  ctx: Context,
  project: ProjectRow,
  name: string,
  input: ProtectionInput,
): Promise<ProtectedBranch> => {
  requireAbility(ctx, project, 'admin_protected_branch');
  return ctx.transaction(async (tx) => {
    const before = await named(tx, project, name, true);
    await requireUnprotect(tx, project, before, 'you are not allowed to change the protection of this branch');
    const { allow_force_push = before.allow_force_push } = input;
    const { code_owner_approval_required = before.code_owner_approval_required } = input;
    await tx.db
      .updateTable('protected_branches')
      .set({ allow_force_push, code_owner_approval_required })
      .where('id', '=', before.id)
      .execute();
    for (const [action, level, grants] of wishes(input)) {
      const present = before.levels.filter((each) => each.action === action);
      // A plain level stands for all roles given before.
      const replaced = level === undefined ? [] : present.filter(({ access_level }) => access_level !== null);
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

/** Ends a protection, where its own levels allow the caller to. @throws DomainError `forbidden`, `not_found` */
export const unprotectBranch = async (ctx: Context, project: ProjectRow, name: string): Promise<ProtectedBranch> => {
  requireAbility(ctx, project, 'admin_protected_branch');
  return ctx.transaction(async (tx) => {
    const before = await named(tx, project, name, true);
    await requireUnprotect(tx, project, before, 'you are not allowed to unprotect this branch');
    await tx.db.deleteFrom('protected_branches').where('id', '=', before.id).execute();
    tx.emit(branchUnprotected, { ...aboutProtection(project), payload: { id: before.id, name } });
    return before;
  });
};

/** Who may not end a protection may not empty it either. Without levels of its own whoever administers it may. */
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

const wishes = (input: ProtectionInput) =>
  [
    ['push', input.push_access_level, input.allowed_to_push],
    ['merge', input.merge_access_level, input.allowed_to_merge],
    ['unprotect', input.unprotect_access_level, input.allowed_to_unprotect],
  ] as const;

const named = async (ctx: Context, project: ProjectRow, name: string, lock = false): Promise<ProtectedBranch> => {
  if (lock) {
    await ctx.db
      .selectFrom('protected_branches')
      .select('id')
      .where('project_id', '=', project.id)
      .where('name', '=', name)
      .forUpdate()
      .execute();
  }
  const [found] = await readAll(ctx, project.id, name);
  if (!found) throw notFound();
  return found;
};

const readAll = async (ctx: Context, projectId: number, name: string | null = null): Promise<ProtectedBranch[]> => {
  const { rows } = await sql<ProtectedBranch>`
    select b.id, b.name, b.allow_force_push, b.code_owner_approval_required,
      ${levelsOf('protected_branch_id', sql.ref('b.id'))} as levels
    from protected_branches b
    where b.project_id = ${projectId} and (${name}::text is null or b.name = ${name})
    order by b.name`.execute(ctx.db);
  return rows;
};
