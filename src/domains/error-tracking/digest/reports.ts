import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { ClientDiscard, UserReport } from '../event.ts';
import { ofLockedProjects } from './projects.ts';
import { hourOf } from './tally.ts';

/** Adds the events that SDKs dropped to the counts of their projects. Nothing is counted for a project that is gone. */
export const recordClientReports = async (tx: Tx, given: readonly ClientDiscard[]): Promise<void> => {
  const discards = await ofLockedProjects(tx, given);
  if (discards.length === 0) return;
  const rows = discards.map(({ timestamp, ...rest }) => ({ ...rest, hour: hourOf(timestamp) }));
  await sql`
    insert into error_client_discards as d (project_id, hour, reason, category, quantity)
    select project_id, hour, reason, category, sum(quantity)
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      as given (project_id bigint, hour timestamptz, reason text, category text, quantity bigint)
    group by 1, 2, 3, 4
    on conflict (project_id, hour, reason, category)
    do update set quantity = d.quantity + excluded.quantity`.execute(tx.db);
};

/** Stores what people wrote about events. A second report on an event replaces the first. */
export const recordUserReports = async (tx: Tx, given: readonly UserReport[]): Promise<void> => {
  const reports = await ofLockedProjects(tx, given);
  if (reports.length === 0) return;
  const latest = new Map(reports.map((report) => [`${report.project_id} ${report.event_id}`, report]));
  await sql`
    insert into error_user_reports (project_id, event_id, name, email, comments, received_at)
    select project_id, event_id, name, email, comments, received_at
    from jsonb_to_recordset(${JSON.stringify([...latest.values()])}::jsonb)
      as given (project_id bigint, event_id uuid, name text, email text, comments text, received_at timestamptz)
    on conflict (project_id, event_id) do update set
      name = excluded.name, email = excluded.email, comments = excluded.comments,
      received_at = excluded.received_at`.execute(tx.db);
};
