import { sql } from 'kysely';
import type { LockMode } from '#domains/groups/locks.ts';
import type { Tx } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import type { ProjectRow } from './model.ts';
import { type ProjectAbility, requireAbility } from './policy.ts';
import { getProject } from './queries.ts';

/** Locks the project until the transaction ends, and returns its current row. */
export const lockProject = async (tx: Tx, id: number): Promise<ProjectRow> => {
  await tx.db.selectFrom('projects').select('id').where('id', '=', id).forUpdate().execute();
  return getProject(tx, { id });
};

/**
 * Locks the project against changes of it and of its members, not against additions to it. Transactions with `shared`
 * locks do not wait for each other; they must not write the row of the project.
 *
 * @throws DomainError `not_found`
 */
export const lockProjectRow = async (tx: Tx, id: number, mode: LockMode = 'alone'): Promise<void> => {
  const strength = mode === 'alone' ? sql`no key update` : sql`share`;
  const { rows } = await sql`select from projects where id = ${id} for ${strength}`.execute(tx.db);
  if (rows.length === 0) throw notFound('Project');
};

/**
 * Locks the project as `lockProjectRow` does, and returns its current row if the caller still has the ability.
 *
 * @throws DomainError as `requireAbility`, `not_found`
 */
export const lockProjectFor = async (
  tx: Tx,
  { id }: Pick<ProjectRow, 'id'>,
  ability: ProjectAbility,
  mode: LockMode = 'alone',
): Promise<ProjectRow> => {
  await lockProjectRow(tx, id, mode);
  const project = await getProject(tx, { id });
  requireAbility(tx, project, ability);
  return project;
};
