import { type RawBuilder, sql } from 'kysely';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import type { Container } from './container.ts';

/** The successor of a label or milestone, in one project. */
export interface Succession {
  readonly project_id: number;
  readonly id: number;
  readonly successor: number;
}

interface Moved {
  readonly table: 'labels' | 'milestones';
  /** Selects the ids of the projects. */
  readonly projects: RawBuilder<unknown>;
  /** Selects `project_id` and `id` of what the projects of the table `moved` use. */
  readonly uses: RawBuilder<unknown>;
  /** Copies these labels or milestones into the project. */
  readonly copy: (project: Container, ids: readonly number[]) => Promise<void>;
}

/**
 * Finds the labels or milestones that moved projects use of groups which no longer contain them, and a successor of the
 * same title for each: that of the project or its nearest group, or a copy in the project. Else issues would show, and
 * depend on, what belongs to a group that their readers may not know of.
 */
export const successions = async (tx: Tx, moved: Moved): Promise<readonly Succession[]> => {
  const found = await findStrays(tx, moved);
  const missing = Map.groupBy(
    found.filter(({ successor }) => successor === null),
    ({ project_id }) => project_id,
  );
  if (missing.size === 0) return found.flatMap(complete);
  const projects = await projectsByIds(tx.as(systemActor), [...missing.keys()], ROW);
  for (const [projectId, strays] of missing) {
    const project = projects.get(projectId);
    const ids = strays.map(({ id }) => id);
    if (project) await moved.copy({ kind: 'project', project }, ids);
  }
  return (await findStrays(tx, moved)).flatMap(complete);
};

type Stray = Omit<Succession, 'successor'> & { readonly successor: number | null };

const complete = ({ successor, ...stray }: Stray): Succession[] =>
  successor === null ? [] : [{ ...stray, successor }];

const findStrays = async (tx: Tx, { table, projects, uses }: Moved): Promise<Stray[]> => {
  const { rows } = await sql<Stray>`
    with moved as (
      select p.id, n.traversal_ids from projects p join namespaces n on n.id = p.namespace_id where p.id in (${projects})),
    used as (${uses})
    select distinct used.project_id, o.id, (
      select s.id from ${sql.table(table)} s
      where s.title = o.title and (s.project_id = moved.id or s.namespace_id = any (moved.traversal_ids))
      order by s.project_id is null, array_position(moved.traversal_ids, s.namespace_id) desc limit 1) as successor
    from used join moved on moved.id = used.project_id join ${sql.table(table)} o on o.id = used.id
    where o.namespace_id <> all (moved.traversal_ids)
    order by used.project_id, o.id`.execute(tx.db);
  return rows;
};

/** The successions as a table `s` in SQL. */
export const asTable = (rows: readonly Succession[]): RawBuilder<unknown> => sql`unnest(
  ${rows.map(({ project_id }) => project_id)}::bigint[], ${rows.map(({ id }) => id)}::bigint[],
  ${rows.map(({ successor }) => successor)}::bigint[]) as s (project_id, id, successor)`;
