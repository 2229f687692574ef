import { z } from 'zod';
import { flag, setting, whole } from './define.ts';

/** Access tokens and OAuth. */
export const tokens = {
  personal_access_token_prefix: setting(
    z
      .string()
      .max(20)
      .regex(/^[A-Za-z0-9_+=/@:.-]*$/, 'is invalid')
      .default('glpat-'),
    'Prefix of new personal access tokens.',
  ),
  max_personal_access_token_lifetime: whole(1, 400, 365, 'Maximum lifetime of a personal access token, in days.'),
  require_personal_access_token_expiry: flag(true, 'Whether personal access tokens must expire.'),
  service_access_tokens_expiration_enforced: flag(
    true,
    'Whether tokens of service accounts without a group must expire. For other service accounts their group decides.',
  ),
  extended_grat_expiry_webhooks_execute: flag(
    false,
    'Whether webhooks also fire 60 and 30 days before a token expires. They always fire 7 days and 1 day before.',
  ),
  disable_personal_access_tokens: flag(
    false,
    'Whether personal access tokens are disabled: none can be created or used. Tokens of administrators keep working.',
  ),
  impersonation_enabled: flag(
    true,
    'Own setting: whether administrators can create impersonation tokens, and whether these are accepted.',
  ),
  token_in_query_enabled: flag(
    true,
    'Own setting: whether tokens in the query (`access_token`, `private_token`, `job_token`) are accepted. Queries end up in logs and browser histories, so turn it off unless an old client needs it.',
  ),
  user_oauth_applications: flag(true, 'Whether users can register OAuth applications. Administrators always can.'),
  oauth_access_token_lifetime: whole(
    60,
    2_592_000,
    7_200,
    'Own setting: lifetime of an OAuth access token, in seconds.',
  ),
  oauth_password_grant_enabled: flag(
    true,
    'Own setting: whether applications can exchange a user name and password for a token. RFC 9700 advises against it, so turn it off unless an old client needs it.',
  ),
  oauth_plain_http_redirects_enabled: flag(
    true,
    'Own setting: whether OAuth applications can have plain-http redirect URIs, for development. Loopback addresses are always allowed.',
  ),
  oauth_refresh_requires_code_verifier: flag(
    false,
    'Own setting: whether a public application must send its code verifier again with each refresh token. Clients that only follow RFC 6749 do not.',
  ),
  oauth_grants_end_credentials: flag(
    true,
    'Own setting: whether the credentials that an OAuth application created (tokens, other applications, runners, webhooks) end when its access is revoked by its user or by itself, or when it or its user is deleted. Credentials of access that ended while this was off stay valid.',
  ),
};
