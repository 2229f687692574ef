import { sql } from 'kysely';
import { OWNER, PUBLIC, visibilityName } from '#domains/access/model.ts';
import { projectLevel } from '#domains/access/policy.ts';
import type { LockMode } from '#domains/groups/locks.ts';
import type { Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { projectUpdated } from './events.ts';
import type { ProjectRow } from './model.ts';
import { describeProjects } from './payload.ts';

// `visibility_ceiling` of a project is the most open level that callers who do not own its source may set. It is the
// level of the source, or the level to which owners of the source have opened the fork. An unlinked fork keeps its
// ceiling. See docs/decisions/0022-forks-stay-as-closed-as-their-source.md.

/**
 * Takes an advisory lock until the transaction ends: `shared` to fork, `alone` to link forks or change a visibility.
 * Both read several projects of a fork network. Take it before any row lock.
 */
export const lockForks = async (tx: Tx, mode: LockMode = 'alone'): Promise<void> => {
  const lock = mode === 'alone' ? sql`pg_advisory_xact_lock` : sql`pg_advisory_xact_lock_shared`;
  await sql`select ${lock}(hashtextextended('millrace:forks', 0))`.execute(tx.db);
};

/**
 * Returns the most open level that the caller may set: the project's ceiling, or that of its nearest ancestor whose
 * source the caller does not own. Administrators have no limit.
 */
export const visibilityLimit = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>): Promise<number> => {
  if (tx.actor.isAdmin) return PUBLIC;
  const { rows } = await sql<{ visibility_ceiling: number }>`
    with recursive owned as (
      select id, forked_from_id, visibility_ceiling, 0 as steps from projects where id = ${id}
      union all
      select projects.id, projects.forked_from_id, projects.visibility_ceiling, owned.steps + 1
      from owned join projects on projects.id = owned.forked_from_id
      where ${projectLevel(tx.actor)} >= ${sql.lit(OWNER)})
    select visibility_ceiling from owned order by steps desc limit 1`.execute(tx.db);
  return rows[0]?.visibility_ceiling ?? PUBLIC;
};

/** Returns the most open level that the caller may give a fork of the project. */
export const forkLimit = async (tx: Tx, source: ProjectRow): Promise<number> => {
  if (tx.actor.isAdmin || source.access_level >= OWNER) return visibilityLimit(tx, source);
  return Math.min(source.visibility_level, await ceilingOf(tx, source));
};

/** @throws DomainError `invalid` for a level above the limit */
export const requireWithin = (limit: number, level: number): void => {
  if (level <= limit) return;
  throw invalid({
    visibility_level: [`${visibilityName(level)} is not allowed since the fork source project has lower visibility.`],
  });
};

/** Returns the ceiling for forks of the source: its own level, limited by its own ceiling. */
export const ceilingBelow = async (tx: Tx, source: ProjectRow): Promise<number> =>
  Math.min(source.visibility_level, await ceilingOf(tx, source));

/**
 * Raises the ceilings of the project and its direct forks to this level. The caller holds the locks on the row and the
 * relations.
 */
export const raiseCeilings = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>, level: number): Promise<void> => {
  await sql`
    update projects set visibility_ceiling = ${level}
    where (id = ${id} or forked_from_id = ${id}) and visibility_ceiling < ${level}`.execute(tx.db);
};

/**
 * Lowers all direct and indirect forks of the project to at most this level, and emits an event for each that changes.
 * The caller holds the lock on the relations. Readers see the change of the source and its forks at once, on commit.
 */
export const closeForks = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>, level: number): Promise<void> => {
  if (level >= PUBLIC) return;
  const { rows } = await sql<{ id: number; previous: number }>`
    with recursive tree as (
      select id from projects where forked_from_id = ${id}
      union select p.id from projects p join tree on p.forked_from_id = tree.id),
    before as (
      select id, visibility_level as previous from projects
      where id in (select id from tree) and greatest(visibility_level, visibility_ceiling) > ${level}
      order by id for update)
    update projects p set visibility_level = least(p.visibility_level, ${level}),
      visibility_ceiling = least(p.visibility_ceiling, ${level}),
      updated_at = case when p.visibility_level > ${level} then now() else p.updated_at end
    from before where p.id = before.id
    returning p.id, before.previous`.execute(tx.db);
  const closed = new Map(rows.filter(({ previous }) => previous > level).map((row) => [row.id, row.previous]));
  if (closed.size === 0) return;
  for (const { payload, namespace_ids } of await describeProjects(tx, { projectIds: [...closed.keys()] })) {
    const changes = { visibility_level: { previous: closed.get(payload.id), current: level } };
    const subject = { type: 'Project', id: payload.id };
    const scope = { project_id: payload.id, namespace_ids, visibility_level: payload.visibility_level };
    tx.emit(projectUpdated, { ...scope, subject, payload: { ...payload, changes } });
  }
};

const ceilingOf = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>): Promise<number> => {
  const row = await tx.db.selectFrom('projects').select('visibility_ceiling').where('id', '=', id).executeTakeFirst();
  return row?.visibility_ceiling ?? PUBLIC;
};
