import { sql } from 'kysely';
import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { GIT_TYPE } from './model.ts';

/** By then another import may have ended. */
const RETRY_AFTER_SECONDS = 60;

/**
 * Limits how many imports by URL one user may have waiting or running, so that they cannot occupy all workers.
 * Concurrent requests of one user wait for each other here.
 *
 * @throws DomainError `too_many_requests` at the setting `concurrent_url_imports_limit`
 */
export const limitImportsByUrl = async (tx: Tx): Promise<void> => {
  const { concurrent_url_imports_limit: limit } = await getSettings(tx);
  const { userId } = tx.actor;
  if (limit === 0 || userId === null) return;
  await sql`select pg_advisory_xact_lock(hashtextextended(${`millrace:imports_by_url:${userId}`}, 0))`.execute(tx.db);
  const unfinished = await tx.db
    .selectFrom('project_imports')
    .select('id')
    .where('user_id', '=', userId)
    // Repositories keep their address until the end, archives until they are downloaded.
    .where((row) => row.or([row('import_type', '=', GIT_TYPE), row('source_url', 'is not', null)]))
    .where('status', 'in', RUNNING_IMPORT)
    .limit(limit)
    .execute();
  if (unfinished.length < limit) return;
  throw new DomainError(
    'too_many_requests',
    `The limit of waiting or running imports by URL is ${limit} for each user (concurrent_url_imports_limit). Try again later.`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
};
