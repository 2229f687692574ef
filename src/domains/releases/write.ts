import { sql } from 'kysely';
import { GUEST } from '#domains/access/model.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { refusalOfTagName } from '#domains/repositories/tags.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, forbidden } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import type { ReleasePayload } from './events.ts';
import { type ReleaseLinkRow, type ReleaseRow, releasePartsByIds } from './queries.ts';

/**
 * Requires a Developer and, for a protected tag, the right to create that tag.
 *
 * @throws DomainError as `requireAbility`, `forbidden`
 */
export const requireWrite = async (ctx: Context, project: ProjectRow, tag: string): Promise<void> => {
  requireAbility(ctx, project, 'admin_release');
  const refusal = await refusalOfTagName(ctx, project, tag);
  if (refusal !== null) throw forbidden(refusal);
};

/**
 * Locks the project until the transaction ends, and returns its current row if the caller still has the rights that
 * `requireWrite` checks.
 *
 * @throws DomainError as `requireWrite`, `not_found`
 */
export const lockForWrite = async (tx: Tx, seen: ProjectRow, tag: string): Promise<ProjectRow> => {
  const project = await lockProjectFor(tx, seen, 'admin_release', 'shared');
  await requireWrite(tx, project, tag);
  return project;
};

export const MAX_MILESTONES = 100;

/** Milestones by title or by id. They may belong to the project or to groups above it. */
export interface ChosenMilestones {
  readonly milestones?: readonly string[] | null | undefined;
  readonly milestone_ids?: readonly number[] | null | undefined;
}

/**
 * Returns the ids of the chosen milestones; undefined if none are given. @throws DomainError `bad_request` for unknown
 * ones and too many
 */
export const chosenMilestones = async (
  ctx: Context,
  project: ProjectRow,
  { milestones: titles, milestone_ids: ids }: ChosenMilestones,
): Promise<readonly number[] | undefined> => {
  if (titles == null && ids == null) return undefined;
  if (titles != null && ids != null) throw badRequest('milestones and milestone_ids cannot be combined');
  if ((titles ?? ids ?? []).length > MAX_MILESTONES)
    throw badRequest(`at most ${MAX_MILESTONES} milestones are allowed`);
  requireAbility(ctx, project, 'read_milestone');
  const { rows } = await sql<{ id: number; title: string }>`
    select id, title from milestones
    where (project_id = ${project.id} or namespace_id = any (${project.namespace.traversal_ids}::bigint[]))
      and (title = any (${titles ?? []}::text[]) or id = any (${ids ?? []}::bigint[]))`.execute(ctx.db);
  const missing =
    titles?.filter((title) => !rows.some((row) => row.title === title)) ??
    ids?.filter((id) => !rows.some((row) => row.id === id)) ??
    [];
  if (missing.length > 0) throw badRequest('Milestone(s) not found');
  return [...new Set(rows.map(({ id }) => id))];
};

export const setMilestones = async (tx: Tx, releaseId: number, milestoneIds: readonly number[]): Promise<void> => {
  await tx.db.deleteFrom('release_milestones').where('release_id', '=', releaseId).execute();
  if (milestoneIds.length === 0) return;
  await tx.db
    .insertInto('release_milestones')
    .values(milestoneIds.map((milestone_id) => ({ release_id: releaseId, milestone_id })))
    .execute();
};

/** Returns the scope, audience and payload of the release's events. */
export const releaseEvent = async (tx: Tx, project: ProjectRow, row: ReleaseRow) => {
  const links = (await releasePartsByIds(tx, [row.id])).get(row.id)?.links ?? [];
  return {
    ...projectScope(project),
    subject: { type: 'Release', id: row.id },
    min_access_level: project.repository_access_level === 'enabled' ? null : GUEST,
    payload: payloadOf(row, links),
  };
};

const payloadOf = (row: ReleaseRow, links: readonly ReleaseLinkRow[]): ReleasePayload => ({
  id: row.id,
  project_id: row.project_id,
  project_path: row.project_path,
  tag: row.tag,
  name: row.name,
  description: row.description,
  sha: row.sha,
  author_id: row.author_id,
  released_at: isoTime(row.released_at),
  created_at: isoTime(row.created_at),
  updated_at: isoTime(row.updated_at),
  links: links.map(({ id, name, url, link_type }) => ({ id, name, url, link_type })),
});
