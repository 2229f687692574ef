import { z } from 'zod';
import { today } from '#platform/clock.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import type { CreatedToken } from './commands.ts';
import { isActive } from './model.ts';
import type { TokenRow } from './queries.ts';

export const tokenRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    description: z.string().nullable(),
    revoked: z.boolean(),
    created_at: z.string(),
    scopes: z.array(z.string()),
    user_id: z.int(),
    last_used_at: z.string().nullable(),
    active: z.boolean(),
    expires_at: z.string().nullable(),
  })
  .meta({ id: 'PersonalAccessToken' });

/** With the value, which is told once. */
export const createdTokenRecord = tokenRecord.extend({ token: z.string() }).meta({ id: 'CreatedPersonalAccessToken' });

export const impersonationTokenRecord = tokenRecord
  .extend({ impersonation: z.literal(true) })
  .meta({ id: 'ImpersonationToken' });

export const createdImpersonationTokenRecord = impersonationTokenRecord
  .extend({ token: z.string() })
  .meta({ id: 'CreatedImpersonationToken' });

export const toToken = (ctx: Pick<Context, 'clock'>, row: TokenRow): z.output<typeof tokenRecord> => ({
  id: row.id,
  name: row.name,
  description: row.description,
  revoked: row.revoked,
  created_at: isoTime(row.created_at),
  scopes: row.scopes,
  user_id: row.user_id,
  last_used_at: isoTime(row.last_used_at),
  active: isActive(row, today(ctx.clock)),
  expires_at: row.expires_at,
});

export const toCreatedToken = (
  ctx: Pick<Context, 'clock'>,
  row: CreatedToken,
): z.output<typeof createdTokenRecord> => ({ ...toToken(ctx, row), token: row.token });

export const toImpersonationToken = (
  ctx: Pick<Context, 'clock'>,
  row: TokenRow,
): z.output<typeof impersonationTokenRecord> => ({ ...toToken(ctx, row), impersonation: true });
