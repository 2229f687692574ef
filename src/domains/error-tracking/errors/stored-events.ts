import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import type { StoredEvent } from '../digest/payload.ts';
import { unpackEvent } from '../digest/payload.ts';

/** An event as lists have it. `payloadsByEvents` reads the rest. */
export interface EventRowOfError {
  readonly project_id: number;
  readonly error_id: number;
  /** 32 hexadecimal digits. */
  readonly event_id: string;
  readonly received_at: string;
  readonly occurred_at: string;
  readonly level: string;
  readonly environment: string | null;
  readonly release: string | null;
  readonly tags: Readonly<Record<string, string>>;
}

/** Lists the events of many errors, newest first. The caller checks access to the errors. */
export const listEventsBelow = (
  { db }: Pick<Context, 'db'>,
  filter: { readonly environment?: string | null | undefined; readonly release?: string | null | undefined },
): BatchedList<EventRowOfError> => {
  const below = (errorId: RawBuilder<number>) => {
    let events = eventQuery(db).where('error_events.error_id', '=', errorId);
    if (filter.environment != null) events = events.where('error_events.environment', '=', filter.environment);
    return filter.release == null ? events : events.where('error_events.release', '=', filter.release);
  };
  return batchedListOf(
    db,
    below,
    [
      { by: sql.ref('error_events.received_at'), of: ({ received_at }) => received_at },
      { by: sql.ref('error_events.event_id'), of: ({ event_id }) => event_id },
    ],
    'desc',
  );
};

/** Returns the event of the error, or null if there is none or it was dropped. */
export const findEvent = async (
  { db }: Pick<Context, 'db'>,
  { id, project_id }: { readonly id: number; readonly project_id: number },
  eventId: string,
): Promise<EventRowOfError | null> =>
  (await eventQuery(db)
    .where('error_events.project_id', '=', project_id)
    .where(sql<boolean>`error_events.event_id = ${eventId}::uuid`)
    .where('error_events.error_id', '=', id)
    .executeTakeFirst()) ?? null;

/** Returns the newest event of each error, by error. It may still belong to an error that was merged into this one. */
export const newestEvents = async (
  { db }: Pick<Context, 'db'>,
  errorIds: readonly number[],
): Promise<ReadonlyMap<number, EventRowOfError>> => {
  const rows = await eventQuery(db)
    .innerJoin('errors', (join) =>
      join
        .onRef('error_events.project_id', '=', 'errors.project_id')
        .onRef('error_events.event_id', '=', 'errors.newest_event_id')
        .onRef('error_events.received_at', '=', 'errors.newest_received_at'),
    )
    .select('errors.id')
    .where(sql<boolean>`errors.id = any (${errorIds}::bigint[])`)
    .execute();
  return new Map(rows.map(({ id, ...row }) => [id, { ...row, error_id: id }]));
};

/** Identifies an event for `payloadsByEvents`. */
export const eventKey = ({ project_id, event_id, received_at }: EventRowOfError): string =>
  `${project_id} ${event_id} ${received_at}`;

/** Returns everything that was reported with the events, by `eventKey`. */
export const payloadsByEvents = async (
  { db }: Pick<Context, 'db'>,
  keys: readonly string[],
): Promise<ReadonlyMap<string, StoredEvent>> => {
  const given = keys.map((key) => {
    const [project = '', event = '', ...received] = key.split(' ');
    return { key, project_id: Number(project), event_id: event, received_at: received.join(' ') };
  });
  const { rows } = await sql<{ key: string; payload: Buffer }>`
    select given.key, e.payload from jsonb_to_recordset(${JSON.stringify(given)}::jsonb)
      as given (key text, project_id bigint, event_id uuid, received_at timestamptz)
    cross join lateral (select payload from error_events e where e.project_id = given.project_id
      and e.event_id = given.event_id and e.received_at = given.received_at limit 1) e`.execute(db);
  return new Map(await Promise.all(rows.map(async ({ key, payload }) => [key, await unpackEvent(payload)] as const)));
};

/** A user's report about an event. */
export interface ReportRow {
  readonly name: string;
  readonly email: string;
  readonly comments: string;
  readonly received_at: string;
}

/** Returns the reports of people about the events, by `eventKey`. */
export const reportsByEvents = async (
  { db }: Pick<Context, 'db'>,
  keys: readonly string[],
): Promise<ReadonlyMap<string, ReportRow>> => {
  const given = keys.map((key) => {
    const [project_id, event_id] = key.split(' ');
    return { key, project_id, event_id };
  });
  const { rows } = await sql<ReportRow & { key: string }>`
    select given.key, r.name, r.email, r.comments, r.received_at
    from jsonb_to_recordset(${JSON.stringify(given)}::jsonb) as given (key text, project_id bigint, event_id uuid)
    join error_user_reports r using (project_id, event_id)`.execute(db);
  return new Map(rows.map(({ key, ...report }) => [key, report]));
};

const eventQuery = (db: Context['db']) =>
  db
    .selectFrom('error_events')
    .select([
      ...(['error_events.project_id', 'error_events.error_id', 'error_events.received_at'] as const),
      ...([
        'error_events.occurred_at',
        'error_events.level',
        'error_events.environment',
        'error_events.release',
      ] as const),
      sql<string>`replace(error_events.event_id::text, '-', '')`.as('event_id'),
      sql<Readonly<Record<string, string>>>`error_events.tags`.as('tags'),
    ]);
