import { type RawBuilder, sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { namespaceLevel, namespacesOf, projectLevel, projectsHeld } from '#domains/access/policy.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { type ProjectRow, type ProjectWith, projectsByIds, ROW } from '#domains/projects/queries.ts';
import { originOf } from '#domains/tokens/origins.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Actor, Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Database } from '#platform/db/pool.ts';
import { forbidden, notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { ContactStatus, RunnerRow, RunnerStatus, RunnerType } from './model.ts';
import { INSTANCE_RUNNERS_SERVE } from './serving.ts';

const runnerColumns = [
  'runners.id',
  'runners.runner_type',
  'runners.namespace_id',
  'runners.project_id',
  'runners.creator_id',
  'runners.short_token',
  'runners.token_expires_at',
  'runners.description',
  'runners.maintenance_note',
  'runners.paused',
  'runners.locked',
  'runners.run_untagged',
  'runners.tags',
  'runners.access_level',
  'runners.maximum_timeout',
  'runners.contacted_at',
  'runners.created_at',
  'runners.updated_at',
] as const;

/** Online when it made contact within two hours, stale when it made none within a week. */
export const contactStatus = (table: 'runners' | 'runner_managers'): RawBuilder<RunnerStatus> => {
  const contacted = sql.ref(`${table}.contacted_at`);
  return sql<RunnerStatus>`case
  when ${contacted} > now() - interval '2 hours' then 'online'
  when coalesce(${contacted}, ${sql.ref(`${table}.created_at`)}) <= now() - interval '7 days' then 'stale'
  when ${contacted} is null then 'never_contacted'
  else 'offline' end`;
};

const status = contactStatus('runners');

/** In the words of version 5. */
const contact = sql<ContactStatus>`case when runners.contacted_at is null then 'not_connected'
  when runners.contacted_at > now() - interval '2 hours' then 'online' else 'offline' end`;

/** The columns of a `RunnerRow`. */
export const runnerFields = [...runnerColumns, status.as('status'), originOf('runners')] as const;

export interface RunnerFilter {
  readonly type?: RunnerType | undefined;
  readonly status?: RunnerStatus | undefined;
  readonly contact?: ContactStatus | undefined;
  readonly paused?: boolean | undefined;
  /** Runners must have all of these tags. */
  readonly tags?: readonly string[] | undefined;
  /** Part of the description. */
  readonly search?: string | undefined;
  /** Defaults to `created`. Runners that never made contact count as the least recent. */
  readonly order_by?: 'created' | 'contacted' | undefined;
  /** Defaults to `desc`. */
  readonly sort?: SortDirection | undefined;
}

/** Whose runners a list has. */
export type RunnersOf =
  /** All runners. For administrators. */
  | { readonly kind: 'all' }
  /** Those that the caller manages as a member of groups and projects. */
  | { readonly kind: 'mine' }
  /** Those that may take jobs of the project. */
  | { readonly kind: 'project'; readonly project: ProjectRow }
  /** Those of the group, of the groups above it, and of the instance if its projects may use them. */
  | { readonly kind: 'group'; readonly group: GroupRow };

const BY_ID: readonly SortKey<RunnerRow>[] = [{ by: sql.ref('runners.id'), of: (row) => row.id }];
const BY_CONTACT: readonly SortKey<RunnerRow>[] = [
  {
    by: sql`coalesce(runners.contacted_at, '-infinity'::timestamptz)`,
    of: (row) => row.contacted_at ?? '-infinity',
  },
  ...BY_ID,
];

const orderOf = ({ order_by, sort = 'desc' }: RunnerFilter) =>
  [order_by === 'contacted' ? BY_CONTACT : BY_ID, sort] as const;

/** Lists runners. @throws `unauthenticated`, `forbidden`, and as `requireAbility` */
export const listRunners = (ctx: Context, of: RunnersOf, filter: RunnerFilter): List<RunnerRow> => {
  const query = matching(ctx.db, filter);
  const order = orderOf(filter);
  switch (of.kind) {
    case 'all':
      if (!ctx.actor.isAdmin) throw forbidden();
      return listOf(ctx.db, query, ...order);
    case 'mine':
      requireUser(ctx);
      return listOf(ctx.db, query.where(isManagedByMember(ctx.actor)), ...order);
    case 'project':
      requireAbility(ctx, of.project, 'admin_runner');
      return listOf(ctx.db, query.where(servesProject(sql`${of.project.id}`)), ...order);
    case 'group':
      requireGroupAbility(ctx, of.group, 'admin_runner');
      return listOf(ctx.db, query.where(servesGroup(sql`${of.group.id}`)), ...order);
  }
};

/** The same for many projects or groups at once. The caller checks access. */
export const listRunnersBelow = (
  { db }: Pick<Context, 'db'>,
  kind: 'project' | 'group',
  filter: RunnerFilter,
): BatchedList<RunnerRow> => {
  const order = orderOf(filter);
  const serves = kind === 'project' ? servesProject : servesGroup;
  return batchedListOf(db, (parentId) => matching(db, filter).where(serves(parentId)), ...order);
};

const matching = (db: Database, filter: RunnerFilter) => {
  let query = db.selectFrom('runners').select(runnerFields);
  if (filter.type) query = query.where('runner_type', '=', filter.type);
  if (filter.status) query = query.where(sql<boolean>`${status} = ${filter.status}`);
  if (filter.contact) query = query.where(sql<boolean>`${contact} = ${filter.contact}`);
  if (filter.paused !== undefined) query = query.where('paused', '=', filter.paused);
  if (filter.tags?.length) query = query.where(sql<boolean>`runners.tags @> ${filter.tags}::text[]`);
  if (filter.search) query = query.where('description', 'ilike', containing(filter.search));
  return query;
};

/** The projects of a project runner: its owner, and those that it was assigned to. */
const PROJECTS_OF_RUNNER = sql`(select runners.project_id
  union all select s.project_id from runner_projects s where s.runner_id = runners.id)`;

/** Whether a runner (`runners`) may take jobs of the project, as far as its kind decides. */
export const servesProject = (projectId: RawBuilder<unknown>): RawBuilder<boolean> => sql<boolean>`
  exists (select 1 from projects p join namespaces n on n.id = p.namespace_id where p.id = ${projectId} and (
    p.id in ${PROJECTS_OF_RUNNER}
    or (p.group_runners_enabled and runners.namespace_id = any (n.traversal_ids))
    or (runners.runner_type = 'instance_type' and ${INSTANCE_RUNNERS_SERVE})))`;

const servesGroup = (groupId: RawBuilder<unknown>): RawBuilder<boolean> => sql<boolean>`
  exists (select 1 from namespaces n where n.id = ${groupId} and (
    runners.namespace_id = any (n.traversal_ids)
    or (n.shared_runners_setting = 'enabled' and runners.runner_type = 'instance_type')))`;

/** Returns the runner, for administrators, the owners of its group, and the maintainers of its projects. Else null. */
export const findRunner = async (ctx: Pick<Context, 'db' | 'actor'>, id: number): Promise<RunnerRow | null> =>
  (await ctx.db
    .selectFrom('runners')
    .select(runnerFields)
    .where('runners.id', '=', id)
    .where(isManaged(ctx.actor))
    .executeTakeFirst()) ?? null;

/** The same for many runners. Leaves out those that the caller cannot see. */
export const visibleRunnersByIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, RunnerRow>> => {
  const rows = await matching(ctx.db, {})
    .where(sql<boolean>`runners.id = any (${ids}::bigint[])`)
    .where(isManaged(ctx.actor))
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns those of the runners that the caller may change: not those of another project that serve theirs too. */
export const ownedByIds = async (
  { db, actor }: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, true>> => {
  let query = db.selectFrom('runners').select('runners.id').where(sql<boolean>`runners.id = any (${ids}::bigint[])`);
  if (!actor.isAdmin) {
    query = query.where(isManaged(actor)).where(
      sql<boolean>`(runners.project_id is null or exists (select 1 from projects p
          where p.id = runners.project_id and ${projectLevel(actor, 'p')} >= ${sql.lit(MAINTAINER)}))`,
    );
  }
  return new Map((await query.execute()).map(({ id }) => [id, true]));
};

/** @throws DomainError `unauthenticated`, `not_found` (Runner) */
export const getRunner = async (ctx: Context, id: number): Promise<RunnerRow> => {
  if (!ctx.actor.isSystem) requireUser(ctx);
  const runner = await findRunner(ctx, id);
  if (!runner) throw notFound('Runner');
  return runner;
};

const isManaged = (actor: Actor): RawBuilder<boolean> =>
  actor.isAdmin
    ? sql<boolean>`true`
    : sql<boolean>`(${namespaceLevel(actor, sql.ref('runners.namespace_id'))} >= ${sql.lit(OWNER)}
        or exists (select 1 from projects p
          where p.id in ${PROJECTS_OF_RUNNER} and ${projectLevel(actor, 'p')} >= ${sql.lit(MAINTAINER)}))`;

/** The same for lists: starts from the memberships. Ignores the rights of administrators. */
const isManagedByMember = (actor: Actor): RawBuilder<boolean> => {
  const held = sql`(select held.id from ${projectsHeld(actor, MAINTAINER)} held)`;
  return sql<boolean>`(runners.namespace_id in ${namespacesOf(actor, OWNER)} or runners.project_id in ${held}
    or runners.id in (select s.runner_id from runner_projects s where s.project_id in ${held}))`;
};

/** Returns the projects of these runners, oldest assignment first, that the caller can see. */
export const projectsOfRunners = async (
  ctx: Context,
  ids: readonly number[],
): Promise<Map<number, ProjectWith<typeof ROW>[]>> => {
  const { rows } = await sql<{ runner_id: number; project_id: number }>`
    select id as runner_id, project_id from runners where id = any (${ids}::bigint[]) and project_id is not null
    union all
    (select runner_id, project_id from runner_projects where runner_id = any (${ids}::bigint[]) order by created_at)`.execute(
    ctx.db,
  );
  const projects = await projectsByIds(ctx, [...new Set(rows.map(({ project_id }) => project_id))], ROW);
  const found = new Map<number, ProjectWith<typeof ROW>[]>();
  for (const { runner_id, project_id } of rows) {
    const project = projects.get(project_id);
    if (project) found.set(runner_id, [...(found.get(runner_id) ?? []), project]);
  }
  return found;
};

/** How many jobs ran on a runner, at most one more than `MAX_JOB_COUNT`, and how many projects it has. */
export interface RunnerCounts {
  readonly jobs: number;
  readonly projects: number;
}

const MAX_JOB_COUNT = 1_000;

export const countsOfRunners = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, RunnerCounts>> => {
  const { rows } = await sql<RunnerCounts & { id: number }>`
    select runners.id,
      (select count(*) from (select 1 from jobs where jobs.runner_id = runners.id
        limit ${sql.lit(MAX_JOB_COUNT + 1)}) as counted) as jobs,
      (select count(*) from runner_projects s where s.runner_id = runners.id)
        + (runners.project_id is not null)::integer as projects
    from runners where runners.id = any (${ids}::bigint[])`.execute(db);
  return new Map(rows.map(({ id, ...counts }) => [id, counts]));
};

/** Returns the runners with these ids, without checking access. */
export const runnersByIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, RunnerRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await matching(db, {}).where(sql<boolean>`runners.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};
