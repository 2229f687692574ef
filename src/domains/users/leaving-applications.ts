import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { applicationDeleted } from './events.ts';

/**
 * Deletes OAuth applications with their codes and tokens, and emits an event for each. Selects them by id or by owner.
 */
export const dismissApplications = async (
  tx: Tx,
  which: { readonly ids: readonly number[] } | { readonly ownerId: number },
): Promise<void> => {
  const applications = await tx.db
    .deleteFrom('oauth_applications')
    .where('ids' in which ? sql<boolean>`id = any (${which.ids}::bigint[])` : sql<boolean>`owner_id = ${which.ownerId}`)
    .returning(['id', 'uid', 'name', 'owner_id', 'redirect_uris', 'scopes', 'confidential', 'trusted'])
    .execute();
  for (const payload of applications) {
    const subject = { type: 'OauthApplication', id: payload.id };
    const user_ids = payload.owner_id === null ? [] : [payload.owner_id];
    tx.emit(applicationDeleted, { subject, user_ids, payload });
  }
};
