import { type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { forbidden } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { deleteRunner, resetRunnerToken } from './management.ts';
import type { CreatedRunner } from './model.ts';

// The actions of a runner on itself, with its token. The token is looked up each time: nothing here relies on cached
// facts.

/** Removes the runner with this token. @throws DomainError `forbidden` for an unknown or expired token, `modified` */
export const unregisterRunner = async (ctx: Context, token: string, unchangedSince: Date | null): Promise<void> =>
  deleteRunner(asHub(ctx), await getRunnerId(ctx, token), unchangedSince);

/** Gives the runner a new token. The old one ends at once. @throws DomainError as `unregisterRunner` */
export const renewRunnerToken = async (ctx: Context, token: string): Promise<CreatedRunner> =>
  resetRunnerToken(asHub(ctx), await getRunnerId(ctx, token));

/** Removes the manager of one machine; the runner stays. Does nothing if there is none. @throws as `unregisterRunner` */
export const removeManager = async (ctx: Context, token: string, system_id: string): Promise<void> => {
  const runner_id = await getRunnerId(ctx, token);
  await ctx.db
    .deleteFrom('runner_managers')
    .where('runner_id', '=', runner_id)
    .where('system_id', '=', system_id)
    .execute();
};

const getRunnerId = async ({ db }: Pick<Context, 'db'>, token: string): Promise<number> => {
  const row = await db
    .selectFrom('runners')
    .select('id')
    .where('digest', '=', digestToken(token))
    .where(({ eb, or, fn }) => or([eb('token_expires_at', 'is', null), eb('token_expires_at', '>', fn<string>('now'))]))
    .executeTakeFirst();
  if (!row) throw forbidden();
  return row.id;
};

/** The token gives the right, and names no user. */
const asHub = ({ services, requestId, client, signal, log }: Context): Context =>
  createContextFactory(services)({ actor: systemActor, requestId, client, signal, log });
