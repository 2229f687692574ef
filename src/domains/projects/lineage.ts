import { sql } from 'kysely';
import { OWNER, PUBLIC, visibilityName } from '#domains/access/model.ts';
import { projectLevel } from '#domains/access/policy.ts';
import { describeProjects } from '#domains/users/project-payload.ts';
import type { Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { projectUpdated } from './events.ts';
import type { ProjectRow } from './model.ts';

// A fork holds what its source holds. `visibility_ceiling` of a project is the most open level that those who do not own
// its source may give it: as open as the source, or as open as owners of the source have made the fork. A project that is
// no fork any more keeps its ceiling. See docs/decisions/0022-forks-stay-as-closed-as-their-source.md.

/**
 * Makes those wait who fork (`shared`), and those who link forks or change a visibility (`alone`), until the transaction
 * ends: each of them looks at several projects of a network. To be taken before any row.
 */
export const lockForks = async (tx: Tx, mode: 'alone' | 'shared' = 'alone'): Promise<void> => {
  const lock = mode === 'alone' ? sql`pg_advisory_xact_lock` : sql`pg_advisory_xact_lock_shared`;
  await sql`select ${lock}(hashtextextended('millrace:forks', 0))`.execute(tx.db);
};

/**
 * The most open level that the caller may give the project: its ceiling, or that of the nearest project above it whose own
 * source the caller does not own. Administrators may open everything.
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

/** The most open level that the caller may give a fork of the project. */
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

/** Where the source stands, forks of it may stand: as open as it is, and no more open than it may be itself. */
export const ceilingBelow = async (tx: Tx, source: ProjectRow): Promise<number> =>
  Math.min(source.visibility_level, await ceilingOf(tx, source));

/** Says that the project may be this open, and so may the forks made of it. Its row is locked, as are the relations. */
export const raiseCeilings = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>, level: number): Promise<void> => {
  await sql`
    update projects set visibility_ceiling = ${level}
    where (id = ${id} or forked_from_id = ${id}) and visibility_ceiling < ${level}`.execute(tx.db);
};

/**
 * Makes all that was forked from the project, and from its forks, at most this visible, and tells of each that changes.
 * The relations are locked. Readers see the source and its forks change at once, when the transaction commits.
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
    tx.emit(projectUpdated, { subject, project_id: payload.id, namespace_ids, payload: { ...payload, changes } });
  }
};

const ceilingOf = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>): Promise<number> => {
  const row = await tx.db.selectFrom('projects').select('visibility_ceiling').where('id', '=', id).executeTakeFirst();
  return row?.visibility_ceiling ?? PUBLIC;
};
