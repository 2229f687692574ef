import type { EventRow } from '#platform/events.ts';
import type { TestApp } from '../support/app.ts';

/** Returns the events about the subject in log order. */
export const findEvents = async (app: TestApp, subjectType: string, subjectId: number): Promise<EventRow[]> => {
  await app.settle();
  const rows = await app.hub.services.db
    .selectFrom('events')
    .selectAll()
    .where('subject_type', '=', subjectType)
    .where('subject_id', '=', subjectId)
    .orderBy('position')
    .execute();
  return rows.map((row) => ({ ...row, position: row.position ?? 0 }));
};
