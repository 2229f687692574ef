import { z } from 'zod';
import { today } from '#platform/clock.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import type { CreatedToken } from './commands.ts';
import { isActive } from './model.ts';
import type { CredentialOrigin } from './origins.ts';
import type { TokenRow } from './queries.ts';

/** The creator of a credential, and the OAuth application it was created through. */
export const originShape = {
  created_by_id: z.int().nullable().describe('The user who created it. Null when unknown or deleted.'),
  oauth_application: z
    .object({
      id: z.int().nullable(),
      name: z.string().nullable(),
      authorized_by_id: z.int().describe('The user who authorised it.'),
    })
    .nullable()
    .describe(
      'The application that created it, directly or through a credential that it had created. Id and name are null when a password was exchanged for a token without an application.',
    ),
};

/** Returns these fields for a credential. */
export const toOrigin = ({
  created_by_id,
  origin,
}: {
  readonly created_by_id: number | null;
  readonly origin: CredentialOrigin | null;
}) => ({
  created_by_id,
  oauth_application: origin && {
    id: origin.application_id,
    name: origin.application_name,
    authorized_by_id: origin.authorized_by_id,
  },
});

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
    ...originShape,
  })
  .meta({ id: 'PersonalAccessToken' });

/** With the value, which is returned once. */
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
  ...toOrigin(row),
});

export const toCreatedToken = (
  ctx: Pick<Context, 'clock'>,
  row: CreatedToken,
): z.output<typeof createdTokenRecord> => ({ ...toToken(ctx, row), token: row.token });

export const toImpersonationToken = (
  ctx: Pick<Context, 'clock'>,
  row: TokenRow,
): z.output<typeof impersonationTokenRecord> => ({ ...toToken(ctx, row), impersonation: true });
