import type { Tx } from '#platform/context.ts';
import type { ClientDiscard, SessionCounts, UserReport } from '../event.ts';
import type { PreparedEvent } from '../prepared-event.ts';
import { lockProjects } from './projects.ts';
import { recordEvents } from './record-events.ts';
import { recordClientReports, recordUserReports } from './reports.ts';
import { recordSessions } from './sessions.ts';

/** Reports of applications, for any number of projects. */
export interface Reported {
  readonly events: readonly PreparedEvent[];
  readonly sessions: readonly SessionCounts[];
  readonly discards: readonly ClientDiscard[];
  readonly reports: readonly UserReport[];
}

/** Records everything that was reported. The projects stay locked until the transaction ends. */
export const recordAll = async (tx: Tx, { events, sessions, discards, reports }: Reported): Promise<void> => {
  const others = [...sessions, ...discards, ...reports];
  // Locking the projects of events first and those of sessions later would let two batches wait for each other.
  if (others.length > 0) {
    await lockProjects(
      tx,
      [...events, ...others].map(({ project_id }) => project_id),
    );
  }
  await recordEvents(tx, events);
  await recordSessions(tx, sessions);
  await recordClientReports(tx, discards);
  await recordUserReports(tx, reports);
};
