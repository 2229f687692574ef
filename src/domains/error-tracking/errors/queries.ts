import { type RawBuilder, sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import type { SortKey } from '#platform/db/list.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { ErrorStatus, Level } from '../model.ts';

/** An error: a group of similar events. */
export interface ErrorRow {
  readonly id: number;
  readonly project_id: number;
  readonly status: ErrorStatus;
  readonly level: string;
  readonly platform: string;
  readonly type: string | null;
  readonly title: string;
  readonly culprit: string | null;
  readonly first_seen: string;
  readonly last_seen: string;
  readonly event_count: number;
  readonly user_count: number;
  /** 0 if `user_count` is exact. */
  readonly user_sampling: number;
  readonly first_release: string | null;
  readonly last_release: string | null;
  readonly resolved_release: string | null;
  /** 32 hexadecimal digits. The event is dropped after the retention. */
  readonly newest_event_id: string;
  readonly assignee_id: number | null;
  readonly issue_id: number | null;
  readonly resolved_at: string | null;
  readonly resolved_by_id: number | null;
  readonly ignored_until: string | null;
  readonly ignored_until_count: number | null;
  readonly regressed_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

export const ERROR_ORDERS = ['last_seen', 'first_seen', 'event_count', 'user_count'] as const;
export type ErrorOrder = (typeof ERROR_ORDERS)[number];

/** Selects and orders errors. Null and absent mean the same. */
export interface ErrorFilter {
  /** A part of the title or the culprit. */
  readonly search?: string | null | undefined;
  readonly status?: ErrorStatus | null | undefined;
  readonly level?: Level | null | undefined;
  /** Errors that were seen in this environment, and in this release, within the retention. */
  readonly environment?: string | null | undefined;
  readonly release?: string | null | undefined;
  readonly assignee_id?: number | null | undefined;
  /** Errors that were seen at this time or later. */
  readonly seen_since?: string | null | undefined;
  readonly order_by?: ErrorOrder | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

const MAX_SEARCH = 200;

/**
 * Lists the errors of many projects, those seen last first by default. The caller checks access.
 *
 * @throws DomainError `bad_request` if the search is too long
 */
export const listErrorsBelow = (ctx: Context, filter: ErrorFilter): BatchedList<ErrorRow> =>
  batchedListOf(ctx.db, (projectId) => filteredErrors(ctx, projectId, filter), sortKeys(filter), filter.sort ?? 'desc');

const filteredErrors = (
  ctx: Context,
  projectId: RawBuilder<number>,
  { search, status, level, environment, release, assignee_id, seen_since }: ErrorFilter,
) => {
  let errors = errorQuery(ctx).where('errors.project_id', '=', projectId);
  if (search) {
    if (search.length > MAX_SEARCH) throw badRequest(`the search is too long (maximum is ${MAX_SEARCH} characters)`);
    const pattern = containing(search);
    errors = errors.where(sql<boolean>`(errors.title ilike ${pattern} or errors.culprit ilike ${pattern})`);
  }
  if (status) errors = errors.where('errors.status', '=', status);
  if (level) errors = errors.where('errors.level', '=', level);
  if (environment != null) errors = errors.where(seenIn('environment', environment));
  if (release != null) errors = errors.where(seenIn('release', release));
  if (assignee_id != null) errors = errors.where('errors.assignee_id', '=', assignee_id);
  return seen_since == null ? errors : errors.where('errors.last_seen', '>=', seen_since);
};

const sortKeys = ({ order_by }: ErrorFilter): readonly SortKey<ErrorRow>[] => {
  const order = order_by ?? 'last_seen';
  return [
    { by: sql.ref(`errors.${order}`), of: (row) => row[order] },
    { by: sql.ref('errors.id'), of: ({ id }) => id },
  ];
};

const seenIn = (kind: 'environment' | 'release', value: string): RawBuilder<boolean> =>
  sql<boolean>`exists (select from error_facets f
    where f.error_id = errors.id and f.kind = ${sql.lit(kind)} and f.value = ${value})`;

/**
 * Returns the error with its project.
 *
 * @throws DomainError `not_found`, also if the caller cannot see the project; `forbidden` below Reporter
 */
export const getErrorWithProject = async (
  ctx: Context,
  id: number,
): Promise<{ readonly error: ErrorRow; readonly project: ProjectRow }> => {
  const error = (await errorsByIds(ctx, [id])).get(id);
  if (!error) throw notFound('Error');
  return { error, project: await getErrorProject(ctx, { id: error.project_id }) };
};

/** Returns the project if the caller may read its errors. @throws DomainError `not_found`; `forbidden` below Reporter */
export const getErrorProject = async (ctx: Context, idOrPath: IdOrPath): Promise<ProjectRow> => {
  const project = await getProject(ctx, idOrPath);
  requireAbility(ctx, project, 'read_error');
  return project;
};

/** Returns the errors by id. The caller checks access. */
export const errorsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ErrorRow>> => {
  const rows = await errorQuery(ctx).where(sql<boolean>`errors.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

const errorQuery = ({ db }: Pick<Context, 'db'>) => {
  const version = (column: 'first_release_id' | 'last_release_id' | 'resolved_release_id') =>
    sql<string | null>`(select r.version from error_releases r where r.id = ${sql.ref(`errors.${column}`)})`;
  return db
    .selectFrom('errors')
    .select([
      ...([
        'errors.id',
        'errors.project_id',
        'errors.level',
        'errors.platform',
        'errors.type',
        'errors.title',
      ] as const),
      ...([
        'errors.culprit',
        'errors.first_seen',
        'errors.last_seen',
        'errors.event_count',
        'errors.user_count',
      ] as const),
      ...(['errors.user_sampling', 'errors.assignee_id', 'errors.issue_id', 'errors.resolved_at'] as const),
      ...([
        'errors.resolved_by_id',
        'errors.ignored_until',
        'errors.ignored_until_count',
        'errors.regressed_at',
      ] as const),
      ...(['errors.created_at', 'errors.updated_at'] as const),
      sql<ErrorStatus>`errors.status`.as('status'),
      sql<string>`replace(errors.newest_event_id::text, '-', '')`.as('newest_event_id'),
      version('first_release_id').as('first_release'),
      version('last_release_id').as('last_release'),
      version('resolved_release_id').as('resolved_release'),
    ]);
};

/**
 * Returns the last sight as it is displayed: it moves only after a full hour (specification 1 §8), and is never before
 * the first.
 */
export const lastSeenHour = ({ first_seen, last_seen }: Pick<ErrorRow, 'first_seen' | 'last_seen'>): string => {
  const hour = last_seen.replace(/:\d\d:\d\d(?:\.\d+)?/, ':00:00');
  return new Date(hour) < new Date(first_seen) ? first_seen : hour;
};
