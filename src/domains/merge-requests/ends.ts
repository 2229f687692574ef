import { sql } from 'kysely';
import { PRIVATE } from '#domains/access/model.ts';
import { lockForks } from '#domains/projects/lineage.ts';
import { can } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { matching, readProtections } from '#domains/repositories/protections.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, DomainError, invalid } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import type { MergeRequestRow } from './queries.ts';

// Which projects and branches may be the two ends of a merge request.

/** Clients read these messages from a list. */
export const refusal = (code: 'conflict' | 'unprocessable', message: string) =>
  new DomainError(code, message, { messages: [message] });

/** Forks of one project, however distant, belong to one network. */
export const areRelated = async (
  { db }: Pick<Context, 'db'>,
  source: Pick<ProjectRow, 'id'>,
  target: Pick<ProjectRow, 'id'>,
): Promise<boolean> => {
  const rows = await db
    .selectFrom('projects')
    .select(['id', 'fork_network_id', 'forked_from_id'])
    .where('id', 'in', [source.id, target.id])
    .execute();
  const [from, to] = [rows.find(({ id }) => id === source.id), rows.find(({ id }) => id === target.id)];
  if (!from || !to) return false;
  if (from.forked_from_id === to.id || to.forked_from_id === from.id) return true;
  return from.fork_network_id !== null && from.fork_network_id === to.fork_network_id;
};

/**
 * Requires one project, or two that are related and stay so until the transaction ends.
 *
 * @throws DomainError `unprocessable`
 */
export const requireRelated = async (
  tx: Tx,
  source: Pick<ProjectRow, 'id'>,
  target: Pick<ProjectRow, 'id'>,
): Promise<void> => {
  if (source.id === target.id) return;
  await lockForks(tx, 'shared');
  if (!(await areRelated(tx, source, target))) throw unrelated();
};

export const unrelated = () => refusal('unprocessable', 'Source project is not a fork of the target project');

/** Only branches of forks that the caller may push to, in projects that others can see. */
export const mayCollaborate = async (
  ctx: Context,
  source: ProjectRow,
  target: ProjectRow,
  sourceBranch: string,
): Promise<boolean> => {
  if (source.id === target.id || !can(ctx, source, 'push_code')) return false;
  if (source.visibility_level <= PRIVATE || target.visibility_level <= PRIVATE) return false;
  const { branches } = await readProtections(ctx, source.id);
  return matching(branches, sourceBranch).length === 0;
};

/** @throws DomainError `invalid` */
export const checkBranches = (branches: { readonly source_branch?: string; readonly target_branch?: string }): void => {
  const wrong = Object.entries(branches).filter(([, name]) => !validRefName(name));
  if (wrong.length > 0) throw invalid(Object.fromEntries(wrong.map(([field]) => [field, ['is invalid']])));
};

/** @throws DomainError `bad_request` if the source branch is gone */
export const requireSource = async (ctx: Context, row: MergeRequestRow): Promise<void> => {
  // The branch of a fork that the caller cannot see counts too.
  const path = await ctx.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', row.source_project_id ?? 0)
    .executeTakeFirst();
  const tip = path && (await ctx.services.git.resolve(path.disk_path, branchRef(row.source_branch)));
  if (!tip) throw badRequest('The source branch does not exist, so the merge request cannot be reopened');
};

interface Route extends Pick<MergeRequestRow, 'project_id' | 'source_project_id' | 'source_branch' | 'target_branch'> {
  readonly id?: number;
}

/**
 * Requires that no other open merge request has the same branches. The lock on the project's counter lasts until the
 * transaction ends.
 */
export const requireUnique = async (tx: Tx, { id = 0, ...route }: Route): Promise<void> => {
  const { project_id, source_project_id, source_branch, target_branch } = route;
  if (source_project_id === null) return;
  await sql`
    select from project_counters where project_id = ${project_id} and kind = 'merge_request' for update`.execute(tx.db);
  const other = await tx.db
    .selectFrom('merge_requests')
    .select('iid')
    .where('project_id', '=', project_id)
    .where('source_project_id', '=', source_project_id)
    .where('source_branch', '=', source_branch)
    .where('target_branch', '=', target_branch)
    .where('state', 'in', ['opened', 'locked'])
    .where('id', '<>', id)
    .orderBy('iid')
    .limit(1)
    .executeTakeFirst();
  if (other)
    throw refusal('conflict', `Another open merge request already exists for this source branch: !${other.iid}`);
};
