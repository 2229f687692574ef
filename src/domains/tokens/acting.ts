import { sql } from 'kysely';
import type { Actor, Context } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { DomainError } from '#platform/errors.ts';
import { actorFor } from './authentication.ts';

/** Thrown when it is not known whether a user may enter a project now. A job that fails by it is retried. */
export class AccessUnknown extends DomainError {
  constructor() {
    super('unavailable', 'The external authorization service has not answered. Try again later.');
  }
}

/**
 * Returns a context in which the hub works in a project on behalf of a user. Null if there is no user, or their account is
 * closed.
 *
 * @throws AccessUnknown while an external authorization service does not answer about the project. Otherwise the user
 * would seem to have lost it, and the caller would end for good what is due there.
 */
export const contextFor = async (hub: Context, userId: number | null, projectId: number): Promise<Context | null> => {
  const actor = userId === null ? null : await actorFor(hub.services, userId, { current: true });
  if (actor && (await isUnanswered(hub, actor, projectId))) throw new AccessUnknown();
  const { requestId, chainId, signal, log } = hub;
  return actor && createContextFactory(hub.services)({ actor, requestId, chainId, signal, log });
};

const isUnanswered = async ({ db }: Context, { unansweredLabels }: Actor, projectId: number): Promise<boolean> => {
  if (!unansweredLabels?.length) return false;
  const { rows } = await sql`
    select from projects where id = ${projectId}
      and md5(external_authorization_classification_label) = any (${unansweredLabels}::text[])`.execute(db);
  return rows.length > 0;
};
