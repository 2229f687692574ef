import { type RawBuilder, sql } from 'kysely';
import { actorShape, actorTemplate, projectIsVisible } from '#domains/access/policy.ts';
import { namespacesByIds } from '#domains/groups/queries.ts';
import type { Actor, Context } from '#platform/context.ts';
import type { CursorValues } from '#platform/cursor.ts';
import {
  type BatchedList,
  batchedCounts,
  batchedRows,
  groupedByParent,
  type OfParent,
  PARENT,
} from '#platform/db/batched-list.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import { countUnlessLarge } from '#platform/db/large-lists.ts';
import { badCursor, isBadCursor, type List, type Window } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import {
  conditions,
  effectiveOrder,
  filterShape,
  filterValues,
  isSize,
  type ProjectFilter,
  type ProjectOrder,
  sortExpression,
} from './filter.ts';
import type { ProjectDetails, ProjectRow, StatisticsRow } from './model.ts';
import { withColumns } from './row-cache.ts';
import {
  assemble,
  DETAILS,
  type DetailPart,
  hideGroups,
  type ProjectPart,
  type RawProject,
  ROW,
  selectList,
  sqlFrom,
} from './select.ts';

export type { ProjectFilter } from './filter.ts';
export type { ProjectDetails, ProjectRow } from './model.ts';
export type { ProjectPart } from './select.ts';

/**
 * The project, as far as the caller may know of it.
 *
 * @throws DomainError `not_found` (Project) when there is none, or none for the caller
 */
export const getProject = async (ctx: Context, id: IdOrPath): Promise<ProjectRow> => {
  const project = await findProject(ctx, id);
  if (!project) throw notFound('Project');
  return project;
};

/** The project, or null when there is none for the caller. Paths are found whatever their case. `parts` limits what is read. */
export const findProject = async (
  ctx: Context,
  id: IdOrPath,
  parts: readonly ProjectPart[] = ROW,
): Promise<ProjectRow | null> =>
  (await readProjects(ctx, id.path === undefined ? { ids: [id.id] } : { full_paths: [id.path] }, parts))[0] ?? null;

/** With what the full REST record tells. */
export const getProjectDetails = async (
  ctx: Context,
  id: IdOrPath,
  extra: readonly DetailPart[] = [],
): Promise<ProjectDetails> => {
  const filter = id.path === undefined ? { ids: [id.id] } : { full_paths: [id.path] };
  const [project] = await readProjects(ctx, filter, [...DETAILS, ...extra]);
  if (!project) throw notFound('Project');
  return project;
};

/** Those of the projects that the caller may see, by id. `parts` limits what is read of each. */
export const projectsByIds = async (
  ctx: Context,
  ids: readonly number[],
  parts: readonly ProjectPart[] = ROW,
): Promise<Map<number, ProjectRow>> => {
  const rows = await readProjects(
    ctx,
    { ids },
    parts.includes('id') || parts.includes('columns') ? parts : ['id', ...parts],
  );
  return new Map(rows.map((row) => [row.id, row]));
};

/**
 * The projects the caller may see that the filter describes, newest first unless it says otherwise. With `parts` only
 * those are read of each row, and nothing else of it may be used.
 */
export const listProjects = (
  ctx: Context,
  filter: ProjectFilter,
  parts: readonly ProjectPart[] = ROW,
): List<ProjectRow> => projectList(ctx, filter, parts);

/** The same with what the full REST record tells. */
export const listProjectDetails = (
  ctx: Context,
  filter: ProjectFilter,
  extra: readonly DetailPart[] = [],
): List<ProjectDetails> => projectList(ctx, filter, extra.length === 0 ? DETAILS : [...DETAILS, ...extra]);

/** The id of the project that used to have this path, if the caller may see it: REST redirects GET there. */
export const findMovedProject = async (ctx: Context, path: string): Promise<number | null> => {
  const row = await ctx.db
    .selectFrom('redirects')
    .innerJoin('projects', 'projects.id', 'redirects.project_id')
    .select('projects.id')
    .where('redirects.path', '=', path.toLowerCase())
    .where(projectIsVisible(ctx.actor))
    .executeTakeFirst();
  return row?.id ?? null;
};

/** The id of a user's personal namespace, or null. */
export const personalNamespaceId = async (ctx: Pick<Context, 'db'>, userId: number | null): Promise<number | null> => {
  const row = await ctx.db
    .selectFrom('namespaces')
    .select('id')
    .where('kind', '=', 'user')
    .where('owner_id', '=', userId)
    .executeTakeFirst();
  return row?.id ?? null;
};

/** What these projects take up, by id; rights are the caller's to check. */
export const statisticsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, StatisticsRow>> => {
  const rows = await ctx.db
    .selectFrom('project_statistics')
    .selectAll()
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.project_id, row]));
};

/** Which of the projects the caller has starred. */
export const starredByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, boolean>> => {
  const rows = await ctx.db
    .selectFrom('project_stars')
    .select('project_id')
    .where('user_id', '=', ctx.actor.userId)
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.project_id, true]));
};

const statements = new CompiledStatements();

/** Rows hidden or being deleted count here for administrators: they are asked for by name. */
const readProjects = async (
  ctx: Context,
  filter: ProjectFilter,
  parts: readonly ProjectPart[],
): Promise<ProjectDetails[]> => {
  const wanted = { ...filter, include_hidden: true, include_pending_delete: true };
  const { actor } = ctx;
  const shape = `get|${actorShape(actor)}|${partsShape(parts)}|${filterShape(wanted)}`;
  const statement = statements.get(ctx, shape, () => {
    const template = actorTemplate(actor);
    return sql`select ${selectList(template, parts)} from ${sqlFrom(parts)} where ${conditions(template, wanted)}`;
  });
  return finish(ctx, await runCompiled<RawProject>(ctx, statement, filterValues(wanted)), new Set(parts));
};

/** Turns what the statement gave into rows. */
const finish = async (
  ctx: Context,
  rows: readonly RawProject[],
  wanted: ReadonlySet<ProjectPart>,
): Promise<ProjectDetails[]> => {
  if (wanted.has('shared_with_groups') && !ctx.actor.isAdmin) {
    const groups = rows.flatMap((row) => row.shared_with_groups ?? []).map((group) => group.group_id);
    if (groups.length > 0) {
      const visible = new Set((await namespacesByIds(ctx, [...new Set(groups)])).keys());
      for (const row of rows) hideGroups(row, visible);
    }
  }
  const whole = wanted.has('columns') ? await withColumns(ctx, rows) : rows;
  if (wanted.has('forked_from')) await addSources(ctx, whole);
  return whole.map((row) => assemble(ctx.actor, row, wanted));
};

const SOURCE_PARTS: readonly ProjectPart[] = ['columns', 'namespace'];

/** Of each fork what it came from, in one statement for all and only where there are any. */
const addSources = async (ctx: Context, rows: readonly RawProject[]): Promise<void> => {
  const ids = rows.map((row) => row.forked_from_id).filter((id) => id !== null && id !== undefined);
  if (ids.length === 0) return;
  const sources = await projectsByIds(ctx, [...new Set(ids)], SOURCE_PARTS);
  for (const row of rows) {
    if (row.forked_from_id) Object.assign(row, { forked_from: sources.get(row.forked_from_id) ?? null });
  }
};

const projectList = (ctx: Context, filter: ProjectFilter, parts: readonly ProjectPart[]): List<ProjectDetails> => {
  const { actor } = ctx;
  const shape = `${actorShape(actor)}|${filterShape(filter)}`;
  const order = effectiveOrder(actor, filter);
  const values = filterValues(filter);
  // Similarity lists the best match first, whatever `sort` says.
  const ascending = order !== 'similarity' && filter.sort === 'asc';
  const wanted = new Set(parts);
  return {
    rows: async (window) => {
      const statement = statements.get(ctx, `list|${shape}|${partsShape(parts)}|${windowShape(window)}`, () =>
        listStatement(actorTemplate(actor), filter, parts, window, ascending),
      );
      try {
        const rows = await runCompiled<RawProject>(ctx, statement, {
          ...values,
          offset: window.offset,
          ...cursorSlots('after', window.after),
          ...cursorSlots('before', window.before),
        });
        return await finish(ctx, rows, wanted);
      } catch (error) {
        throw isBadCursor(error, window) ? badCursor() : error;
      }
    },
    count: (atMost) => countProjects(ctx, filter, shape, atMost),
    cursorOf: (row) => cursorOf(order, row),
  };
};

/**
 * The same list for many namespaces at once: the projects of each group on a page. `filter.namespace_id` is ignored.
 */
export const listProjectsBelow = (
  ctx: Context,
  filter: Omit<ProjectFilter, 'namespace_id'>,
  parts: readonly ProjectPart[] = ROW,
): BatchedList<ProjectRow> => {
  const { actor } = ctx;
  // Only its presence counts: the id is the one of each parent.
  const below: ProjectFilter = { ...filter, namespace_id: 0 };
  const shape = `${actorShape(actor)}|${filterShape(below)}`;
  const order = effectiveOrder(actor, below);
  const ascending = order !== 'similarity' && filter.sort === 'asc';
  const values = filterValues(below);
  const wanted = new Set(parts);
  return {
    rows: async (namespaceIds, window) => {
      const statement = statements.get(ctx, `below|${shape}|${partsShape(parts)}|${windowShape(window)}`, () =>
        batchedRows(slot('parents'), listStatement(actorTemplate(actor), below, parts, window, ascending, PARENT)),
      );
      try {
        const rows = await runCompiled<RawProject & OfParent>(ctx, statement, {
          ...values,
          parents: namespaceIds,
          ...cursorSlots('after', window.after),
          ...cursorSlots('before', window.before),
        });
        const whole = wanted.has('columns') ? await withColumns(ctx, rows) : rows;
        for (const row of whole) assemble(actor, row, wanted);
        return groupedByParent(whole);
      } catch (error) {
        throw isBadCursor(error, window) ? badCursor() : error;
      }
    },
    counts: async (namespaceIds, atMost) => {
      const statement = statements.get(ctx, `counts|${shape}`, () =>
        batchedCounts(
          slot('parents'),
          sql`select 1 from projects where ${conditions(actorTemplate(actor), below, PARENT)} limit ${slot('at_most')}::bigint`,
        ),
      );
      const rows = await runCompiled<OfParent & { count: number }>(ctx, statement, {
        ...values,
        parents: namespaceIds,
        at_most: atMost + 1,
      });
      return new Map(rows.map((row) => [row.batch_parent_id, row.count]));
    },
    cursorOf: (row) => cursorOf(order, row),
  };
};

const cursorOf = (
  order: ProjectOrder,
  row: ProjectRow & { readonly sort_key?: RawProject['sort_key'] },
): CursorValues => (order === 'id' ? [row.id] : [row.sort_key ?? null, row.id]);

const listStatement = (
  actor: Actor,
  filter: ProjectFilter,
  parts: readonly ProjectPart[],
  window: Window,
  ascending: boolean,
  namespaceId?: RawBuilder<number>,
): RawBuilder<unknown> => {
  const by = sortExpression(actor, filter);
  const key = by ? sql`(${by}, projects.id)` : sql`projects.id`;
  const cursor = (name: string) => (by ? sql`(${slot(`${name}_0`)}, ${slot(`${name}_1`)})` : sql`${slot(`${name}_0`)}`);
  const comparison = (larger: boolean) => sql.raw(larger ? '>' : '<');
  const upwards = ascending !== (window.backwards ?? false);
  const direction = sql.raw(upwards ? 'asc' : 'desc');
  const all = [conditions(actor, filter, namespaceId)];
  if (window.after) all.push(sql`${key} ${comparison(ascending)} ${cursor('after')}`);
  if (window.before) all.push(sql`${key} ${comparison(!ascending)} ${cursor('before')}`);
  const list = selectList(actor, parts);
  // The limit is written out: a generic plan would otherwise reckon with a tenth of the table.
  return sql`select ${list}${by ? sql`, ${by} as sort_key` : sql``}
    from ${sqlFrom(parts, isSize(effectiveOrder(actor, filter)))}
    where ${sql.join(all, sql` and `)}
    order by ${by ? sql`${by} ${direction}, ` : sql``}projects.id ${direction}
    limit ${sql.lit(window.limit)}${window.offset ? sql` offset ${slot('offset')}::bigint` : sql``}`;
};

const windowShape = ({ limit, offset, after, before, backwards }: Window): string =>
  `${limit}${offset ? 'o' : ''}${after ? 'a' : ''}${before ? 'b' : ''}${backwards ? 'r' : ''}`;

const shapes = new WeakMap<readonly ProjectPart[], string>();
const partsShape = (parts: readonly ProjectPart[]): string => {
  const shape = shapes.get(parts) ?? parts.join();
  shapes.set(parts, shape);
  return shape;
};

const cursorSlots = (name: string, cursor: Window['after']) => ({
  [`${name}_0`]: cursor?.[0] ?? null,
  [`${name}_1`]: cursor?.[1] ?? null,
});

const countProjects = (ctx: Context, filter: ProjectFilter, shape: string, atMost: number): Promise<number> => {
  const { userId, isAdmin } = ctx.actor;
  return countUnlessLarge(ctx, `projects|${userId}|${isAdmin}|${shape}|${JSON.stringify(filter)}`, atMost, async () => {
    const statement = statements.get(ctx, `count|${shape}`, () => {
      const template = actorTemplate(ctx.actor);
      return sql`select count(*) as count from (
        select 1 from projects where ${conditions(template, filter)} limit ${slot('at_most')}::bigint) counted`;
    });
    const values = { ...filterValues(filter), at_most: atMost + 1 };
    const [row] = await runCompiled<{ count: number }>(ctx, statement, values);
    return row?.count ?? 0;
  });
};
