import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { ErrorStatus } from '../model.ts';
import type { PreparedEvent } from '../prepared-event.ts';
import { ALGORITHM } from './grouping.ts';

/** The state of an error before the batch. */
export interface GroupRow {
  readonly id: number;
  readonly project_id: number;
  readonly status: ErrorStatus;
  readonly event_count: number;
  readonly user_sampling: number;
  readonly resolved_at: string | null;
  readonly resolved_release_id: number | null;
  readonly ignored_until: string | null;
  readonly ignored_until_count: number | null;
  /** True if the batch has its first event. */
  readonly isNew: boolean;
}

export interface GroupedEvent {
  readonly event: PreparedEvent;
  readonly row: GroupRow;
}

/**
 * Finds the error of each event by its key, and creates those that are missing. Locks the rows. The caller holds the
 * locks of the projects.
 */
export const groupEvents = async (tx: Tx, events: readonly PreparedEvent[]): Promise<readonly GroupedEvent[]> => {
  const firsts = new Map<string, PreparedEvent>();
  for (const event of events) if (!firsts.has(keyOf(event))) firsts.set(keyOf(event), event);
  const rows = await findGroups(tx, [...firsts.values()]);
  const missing = [...firsts].filter(([key]) => !rows.has(key)).map(([, event]) => event);
  for (const [key, row] of await createGroups(tx, missing)) rows.set(key, row);
  return events.flatMap((event) => {
    const row = rows.get(keyOf(event));
    return row ? [{ event, row }] : [];
  });
};

const keyOf = ({ project_id, digest }: Pick<PreparedEvent, 'project_id' | 'digest'>): string =>
  `${project_id} ${digest}`;

const findGroups = async (tx: Tx, wanted: readonly PreparedEvent[]): Promise<Map<string, GroupRow>> => {
  const { rows } = await sql<Omit<GroupRow, 'isNew'> & { readonly digest: string }>`
    select e.id, e.project_id, e.status, e.event_count, e.user_sampling, e.resolved_at, e.resolved_release_id,
      e.ignored_until, e.ignored_until_count, encode(k.digest, 'hex') as digest
    from unnest(${wanted.map(({ project_id }) => project_id)}::bigint[],
      ${wanted.map(({ digest }) => Buffer.from(digest, 'hex'))}::bytea[]) as given (project_id, digest)
    join error_keys k on k.project_id = given.project_id and k.digest = given.digest
      and k.algorithm = ${sql.lit(ALGORITHM)}
    join errors e on e.id = k.error_id
    order by e.id for no key update of e`.execute(tx.db);
  return new Map(
    rows.map(({ digest, ...row }) => [keyOf({ project_id: row.project_id, digest }), { ...row, isNew: false }]),
  );
};

/** The counts start at zero; the tally of the batch adds to them as to those of other errors. */
const createGroups = async (tx: Tx, missing: readonly PreparedEvent[]): Promise<ReadonlyMap<string, GroupRow>> => {
  if (missing.length === 0) return new Map();
  const given = missing.map((event) => {
    const { project_id, digest, level, platform, type, title, culprit, timestamp, event_id, received_at } = event;
    return { project_id, digest, level, platform, type, title, culprit, seen_at: timestamp, event_id, received_at };
  });
  const { rows } = await sql<{ id: number; project_id: number; digest: string }>`
    with given as materialized (
      select nextval(pg_get_serial_sequence('errors', 'id')) as id, row.*
      from jsonb_to_recordset(${JSON.stringify(given)}::jsonb) as row
        (project_id bigint, digest text, level text, platform text, type text, title text, culprit text,
          seen_at timestamptz, event_id uuid, received_at timestamptz)
    ), created as (
      insert into errors (id, project_id, level, platform, type, title, culprit, first_seen, last_seen, event_count,
        newest_event_id, newest_received_at)
      select id, project_id, level, platform, type, title, culprit, seen_at, seen_at, 0, event_id, received_at
      from given
    ), keyed as (
      insert into error_keys (project_id, algorithm, digest, error_id)
      select project_id, ${sql.lit(ALGORITHM)}, decode(digest, 'hex'), id from given
    )
    select id, project_id, digest from given`.execute(tx.db);
  return new Map(
    rows.map(({ id, project_id, digest }) => [
      keyOf({ project_id, digest }),
      {
        id,
        project_id,
        status: 'unresolved',
        event_count: 0,
        user_sampling: 0,
        resolved_at: null,
        resolved_release_id: null,
        ignored_until: null,
        ignored_until_count: null,
        isNew: true,
      },
    ]),
  );
};
