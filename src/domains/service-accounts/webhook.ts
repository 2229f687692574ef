import { findNamespace } from '#domains/groups/queries.ts';
import { hookGroup } from '#domains/groups/webhook.ts';
import { tokenBody } from '#domains/tokens/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import type { ExpiringPayload } from './events.ts';

/**
 * Returns the webhook body for tokens of service accounts that are about to expire. Null when the group has been
 * deleted.
 */
export const expiringBody = async (
  ctx: Context,
  _event: EventRow,
  token: ExpiringPayload,
): Promise<Record<string, unknown> | null> => {
  const group = token.group_id === null ? null : await findNamespace(ctx, { id: token.group_id });
  return group && tokenBody({ group: hookGroup(group) }, token);
};
