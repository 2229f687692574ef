import type { Context } from '#platform/context.ts';
import { decrypt } from '#platform/secrets.ts';
import type { ValueKind } from './model.ts';

/** Decrypts a sealed secret. @throws if it was sealed with another instance key */
export const unseal = ({ services }: Pick<Context, 'services'>, sealed: Buffer): string =>
  decrypt(services.secretKey, sealed);

/** Returns the custom headers and URL variables of a hook with their values. */
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
  return rows.map(({ kind, key, value }) => ({
    kind: kind === 'header' ? 'header' : 'url_variable',
    key,
    value: unseal(ctx, value),
  }));
};
