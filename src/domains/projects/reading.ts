import { sql } from 'kysely';
import { actorShape, actorTemplate, namespaceIsVisible, openFrom } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import { conditions, filterShape, filterValues, type ProjectFilter } from './filter.ts';
import type { ProjectDetails, ProjectRow } from './model.ts';
import { namespacesOf, withColumns } from './row-cache.ts';
import {
  assemble,
  type ProjectPart,
  partsShape,
  type RawProject,
  ROW,
  type SharedGroup,
  selectList,
  sqlFrom,
} from './select.ts';

const statements = new CompiledStatements();

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

/** Rows hidden or being deleted count here for administrators: they are asked for by name. */
export const readProjects = async (
  ctx: Context,
  filter: ProjectFilter,
  parts: readonly ProjectPart[],
): Promise<ProjectDetails[]> => {
  const wanted = { ...filter, include_hidden: true, include_pending_delete: true };
  const { actor } = ctx;
  const shape = `get|${actorShape(actor)}|${partsShape(parts)}|${filterShape(wanted)}`;
  const statement = statements.get(ctx, shape, () => {
    const template = actorTemplate(actor);
    return sql`select ${selectList(template, parts)} from ${sqlFrom(parts)} where ${conditions(template, wanted, 'each')}`;
  });
  return finish(ctx, await runCompiled<RawProject>(ctx, statement, filterValues(wanted)), new Set(parts));
};

/** Those of the groups that the caller may know of: what is open to him, or his, needs no asking. */
const visibleGroups = async (ctx: Context, shares: readonly SharedGroup[]): Promise<ReadonlySet<number>> => {
  const { actor } = ctx;
  const isKnown = ({ level, visibility_level }: SharedGroup) =>
    !actor.closedGroups?.length && (level !== null || visibility_level >= openFrom(actor));
  const known = new Set(shares.filter(isKnown).map((each) => each.group_id));
  const ids = [...new Set(shares.map((each) => each.group_id))].filter((id) => !known.has(id));
  if (ids.length === 0) return known;
  const statement = statements.get(
    ctx,
    `groups|${actorShape(actor)}`,
    () => sql`select namespaces.id from namespaces
      where namespaces.id = any (${slot('ids')}::bigint[]) and ${namespaceIsVisible(actorTemplate(actor))}`,
  );
  for (const { id } of await runCompiled<{ readonly id: number }>(ctx, statement, { ids })) known.add(id);
  return known;
};

/** Turns what the statement gave into rows. */
export const finish = async <Row extends RawProject>(
  ctx: Context,
  rows: readonly Row[],
  wanted: ReadonlySet<ProjectPart>,
): Promise<Row[]> => {
  const shares = wanted.has('shared_with_groups') && !ctx.actor.isAdmin ? rows.flatMap((row) => row.shares ?? []) : [];
  const visible = shares.length === 0 ? null : await visibleGroups(ctx, shares);
  let whole: Row[] = wanted.has('columns') ? await withColumns(ctx, rows) : [...rows];
  if (wanted.has('namespace')) {
    const namespaces = await namespacesOf(ctx, whole);
    whole = whole.filter((row) => {
      // One that was deleted a moment ago is gone with its projects.
      const namespace = namespaces.get(row.namespace_id);
      return namespace && Object.assign(row, { namespace });
    });
  }
  if (wanted.has('forked_from')) await addSources(ctx, whole);
  for (const row of whole) assemble(ctx.actor, row, wanted, visible);
  return whole;
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
