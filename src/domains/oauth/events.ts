import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const authorization = z.object({
  /** Null for the password grant without a client. */
  application_id: z.number().nullable(),
  user_id: z.number(),
  scopes: z.array(z.string()),
});

const applicationPayload = z.object({
  id: z.number(),
  uid: z.string(),
  name: z.string(),
  owner_id: z.number().nullable(),
  redirect_uris: z.array(z.string()),
  scopes: z.array(z.string()),
  confidential: z.boolean(),
  trusted: z.boolean(),
});

export const applicationCreated = defineEvent('oauth_application.created', applicationPayload);
export const applicationUpdated = defineEvent('oauth_application.updated', applicationPayload);
/** Also emitted for each application that is deleted with its owner. */
export const applicationDeleted = defineEvent('oauth_application.deleted', applicationPayload);

/** A user authorised an application, and it got its first tokens. A refresh emits no event. */
export const authorizationCreated = defineEvent('oauth_authorization.created', authorization);

/** Revoked by the user, by the application itself, or because a code or refresh token was used twice. */
export const authorizationRevoked = defineEvent(
  'oauth_authorization.revoked',
  authorization.omit({ scopes: true }).extend({ reason: z.enum(['user', 'application', 'reuse']) }),
);

/**
 * The credentials created through an authorization have ended with it, or are about to: tokens are revoked,
 * applications deleted, runner tokens expired, webhooks disabled.
 */
export const credentialsEnded = defineEvent(
  'oauth_credentials.ended',
  z.object({
    /** The `origin_id` of the credentials. */
    origin_id: z.string(),
    /** The user who authorised the application. */
    user_id: z.number(),
    application_id: z.number().nullable(),
  }),
);
