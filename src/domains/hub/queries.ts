import { sql } from 'kysely';
import { readBacklog } from '#domains/error-ingest/storing.ts';
import { countDeliveries, type DeliveryCounts } from '#domains/hooks/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { type FollowerProgress, listFollowerProgress } from '#platform/event-log/progress.ts';
import { listQueuedJobs, type QueuedJobs } from '#platform/job-runner/queue.ts';
import { listProcesses, type ProcessRow } from '#platform/process/processes.ts';

/** The work of the hub at this moment. */
export interface HubActivity {
  readonly processes: readonly ProcessRow[];
  readonly jobs: readonly QueuedJobs[];
  readonly followers: readonly FollowerProgress[];
  readonly deliveries: DeliveryCounts;
  /** About how many error reports were accepted and wait to be read. */
  readonly waitingReports: number;
  readonly databaseBytes: number;
  /** Newest first. */
  readonly events: readonly LatestEvent[];
}

/** An event with the names of those it is about, as they are now. */
export interface LatestEvent {
  readonly position: number;
  readonly kind: string;
  readonly created_at: string;
  /** Null for the hub itself, and for a user who was deleted since. */
  readonly actor: string | null;
  /** The path of the project, or of the group if it is about no project. */
  readonly path: string | null;
  readonly subject_type: string;
  readonly subject_id: number;
}

const LATEST = 25;

/** Returns what the hub does. @throws `forbidden` unless the caller is an administrator */
export const readHubActivity = async (ctx: Context): Promise<HubActivity> => {
  requireAdministrator(ctx);
  const { db, services } = ctx;
  const [processes, jobs, followers, deliveries, waitingReports, databaseBytes, events] = await Promise.all([
    listProcesses(services),
    listQueuedJobs(db),
    listFollowerProgress(db),
    countDeliveries(ctx),
    readBacklog(ctx),
    readDatabaseBytes(db),
    listLatestEvents(db),
  ]);
  return { processes, jobs, followers, deliveries, waitingReports, databaseBytes, events };
};

const readDatabaseBytes = async (db: Database): Promise<number> => {
  const { rows } = await sql<{ bytes: number }>`select pg_database_size(current_database()) as bytes`.execute(db);
  return rows[0]?.bytes ?? 0;
};

const listLatestEvents = async (db: Database): Promise<LatestEvent[]> => {
  const { rows } = await sql<LatestEvent>`
    select e.position, e.kind, e.created_at, u.username as actor, coalesce(p.full_path, n.full_path) as path,
      e.subject_type, e.subject_id
    from (select * from events where position is not null order by position desc limit ${sql.lit(LATEST)}) e
      left join users u on u.id = e.actor_id
      left join projects p on p.id = e.project_id
      left join namespaces n on n.id = e.namespace_ids[cardinality(e.namespace_ids)]
    order by e.position desc`.execute(db);
  return rows;
};
