import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { listGroups } from '#domains/groups/listing.ts';
import { type GroupRow, getGroup, namespacesByIds } from '#domains/groups/queries.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import {
  getProject,
  listProjects,
  type ProjectRow,
  type ProjectWith,
  projectsByIds,
  ROW,
} from '#domains/projects/queries.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { invalid, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { jobTokenScopeChanged } from './events.ts';

// Which projects' jobs may use their token in a project (reference: ci §7). `access/policy.ts` applies it.

/** The most projects and groups that a project admits. */
const MAX_ADMITTED = 200;

/** An entry of a project's allowlist: the jobs of one project, or those of all projects in a group. */
export interface Admitted {
  readonly kind: 'project' | 'group';
  readonly id: IdOrPath;
}

/** Returns which job tokens the project accepts. @throws DomainError `forbidden` unless the caller maintains the project */
export const getJobTokenScope = (
  ctx: Context,
  project: ProjectRow,
): { readonly inbound_enabled: boolean; readonly outbound_enabled: boolean } => {
  requireAbility(ctx, project, 'update_settings');
  return {
    inbound_enabled: project.ci_inbound_job_token_scope_enabled,
    outbound_enabled: project.ci_job_token_scope_enabled,
  };
};

/** Returns the ids on the allowlist. @throws DomainError `forbidden` unless the caller maintains the project */
const admittedIds = async (ctx: Context, project: ProjectRow, kind: Admitted['kind']): Promise<number[]> => {
  requireAbility(ctx, project, 'update_settings');
  const rows =
    kind === 'project'
      ? ctx.db.selectFrom('job_token_projects').select('target_project_id as id').where('project_id', '=', project.id)
      : ctx.db.selectFrom('job_token_groups').select('target_group_id as id').where('project_id', '=', project.id);
  return (await rows.execute()).map(({ id }) => id);
};

/** Lists the projects on the allowlist that the caller can see. @throws DomainError `forbidden` */
export const listAdmittedProjects = async (ctx: Context, project: ProjectRow): Promise<List<ProjectWith<typeof ROW>>> =>
  listProjects(ctx, { ids: await admittedIds(ctx, project, 'project'), order_by: 'id', sort: 'asc' }, ROW);

/** Lists the groups on the allowlist that the caller can see. @throws DomainError `forbidden` */
export const listAdmittedGroups = async (ctx: Context, project: ProjectRow): Promise<List<GroupRow>> =>
  listGroups(ctx, {
    ids: await admittedIds(ctx, project, 'group'),
    allAvailable: true,
    orderBy: 'id',
    sort: 'asc',
  });

/**
 * Returns the projects on the allowlists of these projects that the caller can see, by the id of the list's project. The
 * caller checks permissions.
 */
export const admittedProjectsOf = async (ctx: Context, ids: readonly number[]) => {
  const rows = await ctx.db
    .selectFrom('job_token_projects')
    .select(['project_id', 'target_project_id as id'])
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .orderBy('target_project_id')
    .execute();
  const visible = await projectsByIds(ctx, [...new Set(rows.map(({ id }) => id))], ROW);
  return groupedBy(rows, visible);
};

/** The same for groups. */
export const admittedGroupsOf = async (ctx: Context, ids: readonly number[]) => {
  const rows = await ctx.db
    .selectFrom('job_token_groups')
    .select(['project_id', 'target_group_id as id'])
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .orderBy('target_group_id')
    .execute();
  const visible = await namespacesByIds(ctx, [...new Set(rows.map(({ id }) => id))]);
  return groupedBy(rows, visible);
};

const groupedBy = <Row>(
  entries: readonly { readonly project_id: number; readonly id: number }[],
  rows: ReadonlyMap<number, Row>,
): ReadonlyMap<number, readonly Row[]> =>
  new Map(
    [...Map.groupBy(entries, ({ project_id }) => project_id)].map(([projectId, ofProject]) => [
      projectId,
      ofProject.flatMap(({ id }) => rows.get(id) ?? []),
    ]),
  );

/**
 * Adds a project or group that the caller can see to the allowlist, and returns its id.
 *
 * @throws DomainError `forbidden`, `not_found` (Project, Group), `invalid` if it is on the list already, or if the list
 *   is full
 */
export const admitJobs = async (ctx: Context, given: ProjectRow, { kind, id: wanted }: Admitted): Promise<number> => {
  const added_by_id = requireUser(ctx);
  requireAbility(ctx, given, 'update_settings');
  const { id } = await targetOf(ctx, kind, wanted);
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'update_settings');
    if (kind === 'project' && id === project.id) throw invalid({ base: ['The project admits its own jobs'] });
    const projects = await admittedIds(tx, project, 'project');
    const groups = await admittedIds(tx, project, 'group');
    if ((kind === 'project' ? projects : groups).includes(id)) throw invalid({ base: ['It is already on the list'] });
    if (projects.length + groups.length >= MAX_ADMITTED) {
      throw invalid({ base: [`The list is full (maximum is ${MAX_ADMITTED})`] });
    }
    const row = { project_id: project.id, added_by_id };
    await (kind === 'project'
      ? tx.db.insertInto('job_token_projects').values({ ...row, target_project_id: id })
      : tx.db.insertInto('job_token_groups').values({ ...row, target_group_id: id })
    ).execute();
    emitScopeChange(tx, project, { change: 'added', admitted: kind, id });
    return id;
  });
};

/**
 * Removes a project or group from the allowlist. The caller need not see it if they give its id.
 *
 * @throws DomainError `forbidden`, `not_found`
 */
export const refuseJobs = async (ctx: Context, given: ProjectRow, { kind, id: wanted }: Admitted): Promise<void> => {
  requireAbility(ctx, given, 'update_settings');
  const id = wanted.id ?? (await targetOf(ctx, kind, wanted)).id;
  await ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'update_settings');
    const { numDeletedRows } = await (kind === 'project'
      ? tx.db.deleteFrom('job_token_projects').where('target_project_id', '=', id).where('project_id', '=', project.id)
      : tx.db.deleteFrom('job_token_groups').where('target_group_id', '=', id).where('project_id', '=', project.id)
    ).executeTakeFirstOrThrow();
    if (numDeletedRows === 0n) throw notFound();
    emitScopeChange(tx, project, { change: 'removed', admitted: kind, id });
  });
};

const targetOf = (ctx: Context, kind: Admitted['kind'], id: IdOrPath): Promise<{ readonly id: number }> =>
  kind === 'project' ? getProject(ctx, id) : getGroup(ctx, id);

const emitScopeChange = (
  tx: Tx,
  project: ProjectRow,
  payload: { readonly change: 'added' | 'removed'; readonly admitted: Admitted['kind']; readonly id: number },
): void =>
  tx.emit(jobTokenScopeChanged, {
    ...projectScope(project),
    min_access_level: MAINTAINER,
    subject: { type: 'Project', id: project.id },
    payload,
  });
