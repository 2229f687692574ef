import type { Tx } from '#platform/context.ts';
import { applicationDeleted } from './events.ts';

/** Tells of the OAuth applications that a user had registered, whose rows are about to go with the account. */
export const dismissApplications = async (tx: Tx, userId: number): Promise<void> => {
  const applications = await tx.db
    .deleteFrom('oauth_applications')
    .where('owner_id', '=', userId)
    .returning(['id', 'uid', 'name', 'owner_id', 'redirect_uris', 'scopes', 'confidential', 'trusted'])
    .execute();
  for (const payload of applications) {
    const subject = { type: 'OauthApplication', id: payload.id };
    tx.emit(applicationDeleted, { subject, user_ids: [userId], payload });
  }
};
