import { type RawBuilder, sql } from 'kysely';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { conflict, invalid, notFound } from '#platform/errors.ts';
import { tagProtected, tagUnprotected } from '../events.ts';
import {
  aboutProtection,
  addLevels,
  allowedFromStart,
  type Grant,
  type GrantedLevel,
  levelsOf,
  nameProblem,
} from './levels.ts';

export interface ProtectedTag {
  readonly id: number;
  readonly project_id: number;
  readonly name: string;
  readonly levels: readonly GrantedLevel[];
}

export interface TagProtectionInput {
  /** A role. Defaults to Maintainers if no level is given. */
  readonly create_access_level?: number | undefined;
  readonly allowed_to_create?: readonly Grant[] | undefined;
}

/** Returns protected tags and wildcards by name. @throws DomainError as `requireAbility(read_protected_branch)` */
export const listProtectedTags = async (ctx: Context, project: ProjectRow): Promise<List<ProtectedTag>> => {
  requireAbility(ctx, project, 'read_protected_branch');
  return listOfTagProtections(await read(ctx, sql`t.project_id = ${project.id}`));
};

/** Returns the loaded tag protections of one project as a list. */
export const listOfTagProtections = (all: readonly ProtectedTag[]): List<ProtectedTag> =>
  listOfRows(all, ({ name }) => name);

/**
 * Returns the tag protections of many projects by name. The caller must have `read_protected_branch` in each. Projects
 * without protections are absent.
 */
export const protectedTagsByProjects = async (
  ctx: Context,
  projectIds: readonly number[],
): Promise<ReadonlyMap<number, readonly ProtectedTag[]>> =>
  Map.groupBy(await read(ctx, sql`t.project_id = any (${projectIds}::bigint[])`), ({ project_id }) => project_id);

/** Returns the protection with exactly this name, including wildcards. @throws DomainError `not_found` */
export const getProtectedTag = async (ctx: Context, project: ProjectRow, name: string): Promise<ProtectedTag> => {
  requireAbility(ctx, project, 'read_protected_branch');
  return named(ctx, project, name);
};

/**
 * Restricts who may create a tag, or all tags that match a wildcard. Nobody can change or delete a protected tag.
 *
 * @throws DomainError `forbidden`, `conflict` if it is protected already, `invalid`, `unprocessable` for people and
 * groups without access to the project
 */
export const protectTag = async (
  ctx: Context,
  given: ProjectRow,
  name: string,
  { create_access_level: level, allowed_to_create: grants }: TagProtectionInput,
): Promise<ProtectedTag> => {
  requireAbility(ctx, given, 'admin_protected_branch');
  const problem = nameProblem(name);
  if (problem !== null) throw invalid({ name: [problem] });
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_protected_branch');
    const created = await tx.db
      .insertInto('protected_tags')
      .values({ project_id: project.id, name })
      .onConflict((clash) => clash.columns(['project_id', 'name']).doNothing())
      .returning('id')
      .executeTakeFirst();
    if (!created) throw conflict(`Protected tag '${name}' already exists`);
    await addLevels(tx, project, { protected_tag_id: created.id }, 'create', allowedFromStart(level, grants));
    tx.emit(tagProtected, { ...aboutProtection(project), payload: { id: created.id, name } });
    return named(tx, project, name);
  });
};

/** Removes a protection. @throws DomainError `forbidden`, `not_found` */
export const unprotectTag = async (ctx: Context, given: ProjectRow, name: string): Promise<ProtectedTag> => {
  requireAbility(ctx, given, 'admin_protected_branch');
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_protected_branch');
    const before = await named(tx, project, name);
    await tx.db.deleteFrom('protected_tags').where('id', '=', before.id).execute();
    tx.emit(tagUnprotected, { ...aboutProtection(project), payload: { id: before.id, name } });
    return before;
  });
};

const named = async (ctx: Context, project: ProjectRow, name: string): Promise<ProtectedTag> => {
  const [found] = await read(ctx, sql`t.project_id = ${project.id} and t.name = ${name}`);
  if (!found) throw notFound();
  return found;
};

const read = async (ctx: Context, which: RawBuilder<unknown>): Promise<ProtectedTag[]> => {
  const { rows } = await sql<ProtectedTag>`
    select t.id, t.project_id, t.name,
      ${levelsOf('protected_tag_id', sql.ref('t.id'))} as levels
    from protected_tags t
    where ${which}
    order by t.name`.execute(ctx.db);
  return rows;
};
