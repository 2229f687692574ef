import { sql } from 'kysely';
import { actorShape, actorTemplate, namespaceIsVisible, openFrom } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import { assemble, type RawProject, type SharedGroup } from './assemble.ts';
import { namespacesOf, withColumns } from './cached-rows.ts';
import { conditions } from './conditions.ts';
import { filterShape, filterValues, type ProjectFilter } from './filter.ts';
import { type ProjectPart, type ProjectParts, type ProjectWith, partsShape } from './parts.ts';
import { selectList, sqlFrom } from './select.ts';

const statements = new CompiledStatements();

/** Returns these parts of those projects that the caller can see, by id. */
export const projectsByIds = async <const Parts extends ProjectParts>(
  ctx: Context,
  ids: readonly number[],
  parts: Parts,
): Promise<Map<number, ProjectWith<Parts>>> => {
  const rows = await readProjects(ctx, { ids }, parts);
  return new Map(rows.map((row) => [row.id, row]));
};

/** For administrators this includes hidden projects and those being deleted, as they are requested by id or path. */
export const readProjects = async <const Parts extends ProjectParts>(
  ctx: Context,
  filter: ProjectFilter,
  parts: Parts,
): Promise<ProjectWith<Parts>[]> => {
  const wanted = { ...filter, include_hidden: true, include_pending_delete: true };
  const { actor } = ctx;
  const shape = `get|${actorShape(actor)}|${partsShape(parts)}|${filterShape(wanted)}`;
  const statement = statements.get(ctx, shape, () => {
    const template = actorTemplate(actor);
    return sql`select ${selectList(template, parts)} from ${sqlFrom(parts)} where ${conditions(template, wanted, 'each')}`;
  });
  return finish(ctx, await runCompiled<RawProject>(ctx, statement, filterValues(wanted)), new Set(parts));
};

/** Returns the groups that the caller can see. Open groups and the caller's own need no query. */
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

/** Turns the results of the statement into rows. */
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
      // If the namespace was deleted a moment ago, its projects are gone too.
      const namespace = namespaces.get(row.namespace_id);
      return namespace && Object.assign(row, { namespace });
    });
  }
  if (wanted.has('forked_from')) await addSources(ctx, whole);
  for (const row of whole) assemble(ctx.actor, row, wanted, visible);
  return whole;
};

const SOURCE_PARTS = ['columns', 'access_level', 'namespace'] as const;

/** Adds the source of each fork, in one statement for all forks. Skipped if there are none. */
const addSources = async (ctx: Context, rows: readonly RawProject[]): Promise<void> => {
  const ids = rows.map((row) => row.forked_from_id).filter((id) => id !== null && id !== undefined);
  if (ids.length === 0) return;
  const sources = await projectsByIds(ctx, [...new Set(ids)], SOURCE_PARTS);
  for (const row of rows) {
    if (row.forked_from_id) Object.assign(row, { forked_from: sources.get(row.forked_from_id) ?? null });
  }
};
