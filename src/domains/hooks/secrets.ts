import type { Context } from '#platform/context.ts';
import { decrypt, decryptOrNull } from '#platform/secrets.ts';
import type { ValueKind } from './model.ts';

/** Decrypts a sealed secret. @throws DomainError `unprocessable` if it was sealed with another key */
export const unseal = ({ services }: Pick<Context, 'services'>, sealed: Buffer): string =>
  decrypt(services.secretKey, sealed);

/** The same, but null if it was sealed with another secret key. */
export const readable = ({ services }: Pick<Context, 'services'>, sealed: Buffer): string | null =>
  decryptOrNull(services.secretKey, sealed);

/** Returns the custom headers and URL variables of a hook with their values, without those that cannot be read. */
export const valuesOf = async (
  ctx: Context,
  webhookId: number,
): Promise<{ kind: ValueKind; key: string; value: string }[]> => {
  const rows = await ctx.db
    .selectFrom('webhook_values')
    .select(['kind', 'key', 'value'])
    .where('webhook_id', '=', webhookId)
    .orderBy('key')
    .execute();
  return rows.flatMap(({ kind, key, value: sealed }) => {
    const value = readable(ctx, sealed);
    return value === null ? [] : [{ kind: kind === 'header' ? 'header' : 'url_variable', key, value }];
  });
};
