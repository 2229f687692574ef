import { type RawBuilder, sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { revokeMadeThrough } from '#domains/tokens/commands.ts';
import { userDeleted } from '#domains/users/events.ts';
import type { Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { applicationDeleted, credentialsEnded } from './events.ts';

/**
 * The authorizations that have ended: one by its family, or all of a user, of some applications, or of a user for an
 * application.
 */
export type EndedAuthorizations =
  | { readonly familyId: string }
  | { readonly userId: number; readonly applicationId?: number }
  | { readonly applicationIds: readonly number[] };

/**
 * Ends the credentials created through ended authorizations, if the setting `oauth_grants_end_credentials` is on.
 * Revokes tokens and deletes applications here; other domains follow the event `oauth_credentials.ended`. The caller
 * must revoke or delete the authorizations' own tokens first, in the same transaction. Idempotent. Returns the number
 * of authorizations that had created credentials.
 */
export const endMadeThrough = async (tx: Tx, which: EndedAuthorizations): Promise<number> => {
  if (!(await getSettings(tx)).oauth_grants_end_credentials) return 0;
  // Waits for concurrent transactions that create credentials through them, so that the statements below find those
  // too.
  const { rows } = await sql<{ id: string; user_id: number; application_id: number | null }>`
    update credential_origins set ended_at = now() where ${matching(which)} and ended_at is null
    returning id, user_id, application_id`.execute(tx.db);
  if (rows.length === 0) return 0;
  const ids = rows.map(({ id }) => id);
  await revokeMadeThrough(tx, ids);
  for (const { id: origin_id, user_id, application_id } of rows) {
    tx.emit(credentialsEnded, {
      subject: { type: 'User', id: user_id },
      user_ids: [user_id],
      payload: { origin_id, user_id, application_id },
    });
  }
  const made = await tx.db
    .selectFrom('oauth_applications')
    .select('id')
    .where(sql<boolean>`origin_id = any (${ids}::uuid[])`)
    .execute();
  await removeApplications(
    tx,
    made.map(({ id }) => id),
  );
  return rows.length;
};

/** Deletes applications with their codes and tokens, and ends the credentials created through them. */
export const removeApplications = async (tx: Tx, ids: readonly number[]): Promise<void> => {
  if (ids.length === 0) return;
  // Comes first, in the same lock order as the code that creates credentials through a token.
  await tx.db
    .updateTable('oauth_access_tokens')
    .set({ revoked_at: sql`now()` })
    .where(sql<boolean>`application_id = any (${ids}::bigint[])`)
    .where('revoked_at', 'is', null)
    .execute();
  await endMadeThrough(tx, { applicationIds: ids });
  await deleteRows(tx, sql`id = any (${ids}::bigint[])`);
};

/** Deletes the applications of a user who is about to be deleted. A follower ends what was created through them. */
export const removeApplicationsOf = (tx: Tx, ownerId: number): Promise<void> =>
  deleteRows(tx, sql`owner_id = ${ownerId}`);

/** Deletes applications with their codes and tokens, and emits an event for each. */
const deleteRows = async (tx: Tx, chosen: RawBuilder<boolean>): Promise<void> => {
  const applications = await tx.db
    .deleteFrom('oauth_applications')
    .where(chosen)
    .returning(['id', 'uid', 'name', 'owner_id', 'redirect_uris', 'scopes', 'confidential', 'trusted'])
    .execute();
  for (const payload of applications) {
    const subject = { type: 'OauthApplication', id: payload.id };
    const user_ids = payload.owner_id === null ? [] : [payload.owner_id];
    tx.emit(applicationDeleted, { subject, user_ids, payload });
  }
};

const matching = (which: EndedAuthorizations): RawBuilder<boolean> => {
  if ('familyId' in which) return sql`id = ${which.familyId}`;
  if ('applicationIds' in which) return sql`application_id = any (${which.applicationIds}::bigint[])`;
  const { userId, applicationId } = which;
  return applicationId === undefined
    ? sql`user_id = ${userId}`
    : sql`user_id = ${userId} and application_id = ${applicationId}`;
};

/** Ends the credentials created through authorizations of deleted users, or through their applications. */
export const endOfRemovedAccounts = defineFollower({
  name: 'oauth.credentials',
  payloads: false,
  wants: ({ kind }) => kind === userDeleted.kind || kind === applicationDeleted.kind,
  handle: async (tx, events) => {
    for (const { kind, subject_id } of events) {
      if (kind === userDeleted.kind) await endMadeThrough(tx, { userId: subject_id });
      if (kind === applicationDeleted.kind) await endMadeThrough(tx, { applicationIds: [subject_id] });
    }
  },
});
