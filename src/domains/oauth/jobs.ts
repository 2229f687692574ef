import { sql } from 'kysely';
import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { removeExpiredDevices } from './device.ts';
import { removeReplacedKeys } from './signing-keys.ts';

const BATCH = 2_000;

/**
 * The job `oauth.sweep`: deletes codes, device requests and tokens that can no longer be used. They are kept for a
 * while, so that a reused one is recognised and its family revoked.
 */
export const sweepOAuth = defineJob({
  name: 'oauth.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '23 * * * *',
  run: async (ctx) => {
    await repeat(ctx, () => forgetCodes(ctx));
    await repeat(ctx, () => forgetTokens(ctx));
    await removeExpiredDevices(ctx);
    await removeReplacedKeys(ctx);
  },
});

/** Runs in small steps, each with its own transaction, so that sign-ins do not wait. */
const repeat = async (ctx: Context, step: () => Promise<number>): Promise<void> => {
  do ctx.signal.throwIfAborted();
  while ((await step()) >= BATCH);
};

const forgetCodes = async ({ db }: Context): Promise<number> => {
  const { numAffectedRows } = await sql`
    delete from oauth_grants where id in (
      select id from oauth_grants where expires_at < now() - interval '1 day'
      order by expires_at limit ${sql.lit(BATCH)})`.execute(db);
  return Number(numAffectedRows ?? 0);
};

const forgetTokens = async ({ db }: Context): Promise<number> => {
  const { numAffectedRows } = await sql`
    delete from oauth_access_tokens where id in (
      select id from oauth_access_tokens
      where revoked_at < now() - interval '30 days'
        or (refresh_digest is null and expires_at < now() - interval '1 day')
      limit ${sql.lit(BATCH)})`.execute(db);
  return Number(numAffectedRows ?? 0);
};
