import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';

/** A project that takes errors, with the scope of its events. */
export interface ReportingProject {
  readonly id: number;
  readonly namespace_ids: readonly number[];
  readonly visibility_level: number;
}

/**
 * Locks the projects until the end of the transaction, in the order of their ids, so that one transaction at a time
 * groups the events of a project. Leaves out projects that are gone.
 */
export const lockProjects = async (tx: Tx, ids: Iterable<number>): Promise<ReadonlyMap<number, ReportingProject>> => {
  const wanted = [...new Set(ids)];
  const lock = async () => {
    const { rows } = await sql<ReportingProject>`
      select p.id, n.traversal_ids as namespace_ids, p.visibility_level
      from projects p join namespaces n on n.id = p.namespace_id join error_tracking_projects t on t.project_id = p.id
      where p.id = any (${wanted}::bigint[])
      order by p.id for no key update of t for key share of p`.execute(tx.db);
    return new Map(rows.map((row) => [row.id, row]));
  };
  const locked = await lock();
  if (locked.size === wanted.length) return locked;
  await tx.db
    .insertInto('error_tracking_projects')
    .columns(['project_id'])
    .expression(
      tx.db.selectFrom('projects').select('id').where(sql<boolean>`id = any (${wanted}::bigint[])`).orderBy('id'),
    )
    .onConflict((clash) => clash.column('project_id').doNothing())
    .execute();
  // Also if nothing was inserted: another transaction may have added the row after the first look.
  return lock();
};

/** Locks the projects of what was reported, and leaves out what belongs to projects that are gone. */
export const ofLockedProjects = async <T extends { readonly project_id: number }>(
  tx: Tx,
  reported: readonly T[],
): Promise<readonly T[]> => {
  if (reported.length === 0) return [];
  const projects = await lockProjects(
    tx,
    reported.map(({ project_id }) => project_id),
  );
  return reported.filter(({ project_id }) => projects.has(project_id));
};
