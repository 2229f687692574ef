import type { Selectable } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { PipelineTriggers } from '#platform/db/tables.ts';
import { decryptOrNull, digestToken, encrypt, randomToken } from '#platform/secrets.ts';

export type TriggerRow = Selectable<PipelineTriggers>;

/** Tools recognise the token of a trigger by this prefix. */
const TRIGGER_TOKEN_PREFIX = 'glptt-';
const TOKEN_PURPOSE = 'pipeline_trigger';
export const MAX_DESCRIPTION = 255;

/** Returns the columns of a new token. */
export const newTriggerToken = (secretKey: Buffer): { readonly digest: Buffer; readonly sealed_token: Buffer } => {
  const token = TRIGGER_TOKEN_PREFIX + randomToken();
  return { digest: digestToken(token), sealed_token: encrypt(secretKey, token, TOKEN_PURPOSE) };
};

const SHOWN = 4;

/** Returns the token as the caller may see it: its owner whole, others its first characters. Null if it cannot be read. */
export const shownToken = (
  { actor, services }: Pick<Context, 'actor' | 'services'>,
  { owner_id, sealed_token }: Pick<TriggerRow, 'owner_id' | 'sealed_token'>,
): string | null => {
  const token = decryptOrNull(services.secretKey, sealed_token, TOKEN_PURPOSE);
  if (token === null) return null;
  return owner_id !== null && owner_id === actor.userId
    ? token
    : token.slice(TRIGGER_TOKEN_PREFIX.length, TRIGGER_TOKEN_PREFIX.length + SHOWN);
};
