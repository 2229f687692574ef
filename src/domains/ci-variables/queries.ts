import { sql } from 'kysely';
import type { ContainerKind, ContainerOrInstance, OwnerAddress } from '#domains/planning/container.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Database } from '#platform/db/pool.ts';
import { conflict, notFound } from '#platform/errors.ts';
import { type CiVariableRow, type JobVariable, readableValue } from './model.ts';
import { getVariableOwner } from './policy.ts';

const byId: readonly SortKey<CiVariableRow>[] = [{ by: sql.ref('ci_variables.id'), of: ({ id }) => id }];

/**
 * Lists the variables that the project, group or instance itself defines, oldest first.
 *
 * @throws DomainError `not_found` (Group, Project), `unauthenticated`, `forbidden`
 */
export const listVariables = async (ctx: Context, place: OwnerAddress): Promise<List<CiVariableRow>> =>
  listOf(ctx.db, variablesOf(ctx.db, await getVariableOwner(ctx, place)), byId, 'asc');

/** The same for many groups or projects. The caller checks permissions. */
export const listVariablesBelow = ({ db }: Pick<Context, 'db'>, kind: ContainerKind): BatchedList<CiVariableRow> =>
  batchedListOf(
    db,
    (parentId) => {
      const all = db.selectFrom('ci_variables').selectAll();
      return kind === 'project' ? all.where('project_id', '=', parentId) : all.where('namespace_id', '=', parentId);
    },
    byId,
    'asc',
  );

/** The variables of the owner. */
export const variablesOf = (db: Database, owner: ContainerOrInstance) => {
  const all = db.selectFrom('ci_variables').selectAll();
  if (owner.kind === 'project') return all.where('project_id', '=', owner.project.id);
  if (owner.kind === 'group') return all.where('namespace_id', '=', owner.group.id);
  return all.where('project_id', 'is', null).where('namespace_id', 'is', null);
};

/** Selects one variable among those with the same key. */
export interface VariableName {
  readonly key: string;
  /** Required if several variables have the key. */
  readonly environment_scope?: string | undefined;
}

/** @throws DomainError as `listVariables`, `not_found` (Variable), `conflict` if several variables fit */
export const getVariable = async (ctx: Context, place: OwnerAddress, name: VariableName): Promise<CiVariableRow> =>
  variableIn(ctx.db, await getVariableOwner(ctx, place), name);

/** The same without a check of rights. */
export const variableIn = async (
  db: Database,
  owner: ContainerOrInstance,
  { key, environment_scope }: VariableName,
): Promise<CiVariableRow> => {
  let query = variablesOf(db, owner).where('key', '=', key).limit(2);
  if (environment_scope !== undefined) query = query.where('environment_scope', '=', environment_scope);
  const [row, another] = await query.execute();
  if (!row) throw notFound('Variable');
  if (another) throw conflict(SEVERAL);
  return row;
};

const SEVERAL = "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'";

/** The job that gets the variables. */
export interface VariableReader {
  /** Whether its branch or tag is protected. Otherwise it gets no protected variables. */
  readonly protected: boolean;
  /** The name of its environment. Null: only variables for all environments. */
  readonly environment: string | null;
}

/**
 * Returns the variables that the instance, the groups above the project and the project define for a job, without
 * duplicates, lowest precedence first (reference: ci §1). Nearer owners win, then closer environment scopes.
 */
export const variablesFor = async (
  ctx: Pick<Context, 'db' | 'services'>,
  { id }: Pick<ProjectRow, 'id'>,
  reader: VariableReader,
): Promise<JobVariable[]> => (await variablesForJobs(ctx, [{ ...reader, project_id: id }]))[0] ?? [];

/** The same for many jobs at once, in their order. */
export const variablesForJobs = async (
  ctx: Pick<Context, 'db' | 'services'>,
  readers: readonly (VariableReader & { readonly project_id: number })[],
): Promise<JobVariable[][]> => {
  const { rows } = await sql<
    Pick<CiVariableRow, 'key' | 'sealed_value' | 'masked' | 'raw' | 'variable_type'> & { readonly place: number }
  >`select reader.place, v.key, v.sealed_value, v.masked, v.raw, v.variable_type
    from unnest(
        ${readers.map(({ project_id }) => project_id)}::bigint[],
        ${readers.map((reader) => reader.protected)}::boolean[],
        ${readers.map(({ environment }) => environment)}::text[]
      ) with ordinality as reader (project_id, protected, environment, place)
    join projects p on p.id = reader.project_id
    join namespaces n on n.id = p.namespace_id
    cross join lateral (
      select v.*, 0 as level from ci_variables v where v.project_id is null and v.namespace_id is null
      union all
      select v.*, array_position(n.traversal_ids, v.namespace_id) from ci_variables v
        where v.namespace_id = any (n.traversal_ids)
      union all
      select v.*, 1000 from ci_variables v where v.project_id = p.id
    ) v
    where (reader.protected or not v.protected) and ${FITS}
    order by reader.place, v.level, v.environment_scope = reader.environment nulls first, v.environment_scope <> '*',
      length(v.environment_scope), v.id`.execute(ctx.db);
  const byPlace = readers.map(() => new Map<string, JobVariable>());
  for (const { place, ...row } of rows) {
    const { key, masked, raw, variable_type } = row;
    const byKey = byPlace[place - 1];
    // Later variables take the place of earlier ones, and their position.
    byKey?.delete(key);
    const value = readableValue(ctx, row);
    const file = variable_type === 'file';
    byKey?.set(key, { key, value: value ?? '', masked, raw, file, is_lost: value === null });
  }
  return byPlace.map((byKey) => [...byKey.values()]);
};

/** Whether a scope covers the environment. `*` stands for any characters. Jobs without environment only fit `*`. */
const FITS = sql<boolean>`case when reader.environment is null then v.environment_scope = '*'
  else reader.environment like
    regexp_replace(regexp_replace(v.environment_scope, '([\\\\%_])', '\\\\\\1', 'g'), '\\*+', '%', 'g') end`;
