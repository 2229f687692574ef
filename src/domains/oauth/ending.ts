import { type RawBuilder, sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { revokeMadeThrough } from '#domains/tokens/commands.ts';
import { applicationDeleted, userDeleted } from '#domains/users/events.ts';
import { dismissApplications } from '#domains/users/leaving-applications.ts';
import type { Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { credentialsEnded } from './events.ts';

/** Authorizations that have ended: one by its family, or all of a user, of applications, or of a user for an application. */
export type EndedAuthorizations =
  | { readonly familyId: string }
  | { readonly userId: number; readonly applicationId?: number }
  | { readonly applicationIds: readonly number[] };

/**
 * Ends what was made through authorizations that have ended, where the setting `oauth_grants_end_credentials` says so.
 * Tokens are revoked and applications removed here; other domains follow `oauth_credentials.ended`. The authorizations'
 * own tokens must be revoked or gone before, in the same transaction. Safe to repeat. Returns how many authorizations
 * anything had been made through.
 */
export const endMadeThrough = async (tx: Tx, which: EndedAuthorizations): Promise<number> => {
  if (!(await getSettings(tx)).oauth_grants_end_credentials) return 0;
  // Waits for anyone who is making something through them: the statements below find it.
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

/** Removes applications with their codes and tokens, and ends what was made through them. */
export const removeApplications = async (tx: Tx, ids: readonly number[]): Promise<void> => {
  if (ids.length === 0) return;
  // First, as whoever makes something through a token locks it first.
  await tx.db
    .updateTable('oauth_access_tokens')
    .set({ revoked_at: sql`now()` })
    .where(sql<boolean>`application_id = any (${ids}::bigint[])`)
    .where('revoked_at', 'is', null)
    .execute();
  await endMadeThrough(tx, { applicationIds: ids });
  await dismissApplications(tx, { ids });
};

const matching = (which: EndedAuthorizations): RawBuilder<boolean> => {
  if ('familyId' in which) return sql`id = ${which.familyId}`;
  if ('applicationIds' in which) return sql`application_id = any (${which.applicationIds}::bigint[])`;
  const { userId, applicationId } = which;
  return applicationId === undefined
    ? sql`user_id = ${userId}`
    : sql`user_id = ${userId} and application_id = ${applicationId}`;
};

/** Ends what was made through authorizations of people, and of applications of people, whose accounts are gone. */
export const endOfRemovedAccounts = defineFollower({
  name: 'oauth.credentials',
  payloads: false,
  handle: async (tx, events) => {
    for (const { kind, subject_id } of events) {
      if (kind === userDeleted.kind) await endMadeThrough(tx, { userId: subject_id });
      if (kind === applicationDeleted.kind) await endMadeThrough(tx, { applicationIds: [subject_id] });
    }
  },
});
