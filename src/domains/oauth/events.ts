import { z } from 'zod';
import { applicationPayload } from '#domains/users/events.ts';
import { defineEvent } from '#platform/events.ts';

const authorization = z.object({
  /** Null for the password grant without a client. */
  application_id: z.number().nullable(),
  user_id: z.number(),
  scopes: z.array(z.string()),
});

export const applicationCreated = defineEvent('oauth_application.created', applicationPayload);
export const applicationUpdated = defineEvent('oauth_application.updated', applicationPayload);

/** A user let an application in: it got its first tokens. Refreshing them is no event. */
export const authorizationCreated = defineEvent('oauth_authorization.created', authorization);

/** By the user, by the application itself, or because a code or refresh token was used twice. */
export const authorizationRevoked = defineEvent(
  'oauth_authorization.revoked',
  authorization.omit({ scopes: true }).extend({ reason: z.enum(['user', 'application', 'reuse']) }),
);

/**
 * What was made through an authorization has ended with it, or is about to: tokens are revoked, applications removed,
 * runners' tokens expired, hooks disabled.
 */
export const credentialsEnded = defineEvent(
  'oauth_credentials.ended',
  z.object({
    /** The `origin_id` of what ends. */
    origin_id: z.string(),
    /** Who had let the application in. */
    user_id: z.number(),
    application_id: z.number().nullable(),
  }),
);
