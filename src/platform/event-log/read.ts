import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../db/pool.ts';
import type { EventRow } from '../events.ts';

/** The events that a reader wants. An event must match every given condition. */
export interface LiveFilter {
  /** Null means every kind. */
  readonly kinds: ReadonlySet<string> | null;
  readonly project_id?: number;
  /** Matches the namespace itself and any namespace below it. */
  readonly namespace_id?: number;
  readonly user_id?: number;
  readonly subject?: { readonly type: string; readonly id: number };
  /** Passes over live events before rights are checked. History is not filtered by it, so `resolve` must be too. */
  readonly concerns?: (event: EventRow) => boolean;
}

export const matches = (filter: LiveFilter, event: EventRow): boolean =>
  (filter.kinds === null || filter.kinds.has(event.kind)) &&
  (filter.project_id === undefined || filter.project_id === event.project_id) &&
  (filter.namespace_id === undefined || event.namespace_ids.includes(filter.namespace_id)) &&
  (filter.user_id === undefined || event.user_ids.includes(filter.user_id)) &&
  (filter.subject === undefined ||
    (filter.subject.type === event.subject_type && filter.subject.id === event.subject_id)) &&
  (filter.concerns === undefined || filter.concerns(event));

const columns = (payload: string) =>
  sql.raw(
    ['id', 'position', 'kind', 'actor_id', 'subject_type', 'subject_id', 'project_id', 'namespace_ids']
      .concat(['visibility_level', 'min_access_level', 'user_ids', 'chain_id', 'created_at'])
      .map((column) => `events.${column}`)
      .concat(payload)
      .join(', '),
  );

export const EVENT_COLUMNS = columns('events.payload');
export const COLUMNS_WITH_PAYLOAD_TEXT = columns('events.payload::text as payload');
export const COLUMNS_WITHOUT_PAYLOAD = columns('null::jsonb as payload');

/** Returns the first `limit` events with a position in (after, until] that match the filter, oldest first. */
export const readEvents = async (
  db: Database,
  range: { readonly after: number; readonly until: number; readonly limit: number },
  filter?: LiveFilter,
): Promise<EventRow[]> => {
  const conditions = [sql`position > ${range.after}`, sql`position <= ${range.until}`, ...conditionsOf(filter)];
  const { rows } = await sql<EventRow>`
    select ${EVENT_COLUMNS} from events where ${sql.join(conditions, sql` and `)}
    order by position limit ${sql.lit(range.limit)}`.execute(db);
  return rows;
};

const conditionsOf = (filter: LiveFilter | undefined): RawBuilder<unknown>[] => {
  const conditions: RawBuilder<unknown>[] = [];
  if (!filter) return conditions;
  if (filter.kinds !== null) conditions.push(sql`kind = any(${[...filter.kinds]}::text[])`);
  if (filter.project_id !== undefined) conditions.push(sql`project_id = ${filter.project_id}`);
  if (filter.namespace_id !== undefined) conditions.push(sql`namespace_ids @> array[${filter.namespace_id}::bigint]`);
  if (filter.user_id !== undefined) conditions.push(sql`user_ids @> array[${filter.user_id}::bigint]`);
  if (filter.subject !== undefined)
    conditions.push(sql`subject_type = ${filter.subject.type} and subject_id = ${filter.subject.id}`);
  return conditions;
};
