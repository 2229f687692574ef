import { sql } from 'kysely';
import type { TestApp } from './app.ts';
import { until } from './until.ts';

/**
 * Waits until so many statements of this hub wait for a lock that the test holds. Call `app.settle()` before taking the
 * lock, because followers and jobs of earlier changes would wait for it too.
 */
export const untilBlocked = async (app: TestApp, statements = 1): Promise<void> => {
  await until(`${statements} statements wait for a lock`, async () => {
    const { rows } = await sql<{ waiting: number }>`
      select count(*)::int as waiting from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(app.hub.services.db);
    return (rows[0]?.waiting ?? 0) >= statements;
  });
};
