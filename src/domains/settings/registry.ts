import { RE2JS } from 're2js';
import { z } from 'zod';
import { VISIBILITIES } from '#domains/access/model.ts';
import { validRefName } from '#platform/git/ref-names.ts';

/**
 * Every instance setting: allowed values, default and description. To add a setting, add an entry here. Names come from
 * the specification (3 §2.4) or, where it lists none, from what existing tools send. Settings of this product's own say
 * so.
 */
const count = (max: number) => z.int().min(0).max(max);
const throttled = (usual: number) => z.int().min(1).max(10_000_000).default(usual);
const protectionLevels = z
  .array(z.object({ access_level: z.union([z.literal(0), z.literal(30), z.literal(40), z.literal(60)]) }))
  .max(10);

/** In RE2 syntax, which matches in linear time. Empty means none. */
const regularExpression = z
  .string()
  .max(1_000)
  .refine((value) => {
    try {
      RE2JS.compile(value);
      return true;
    } catch {
      return false;
    }
  }, 'is not a regular expression');
const domains = z
  .array(
    z
      .string()
      .max(253)
      .regex(/^[A-Za-z0-9.*-]+$/, 'is not a domain'),
  )
  .max(1_000);

export const protectionDefaults = z.object({
  allowed_to_push: protectionLevels.default([{ access_level: 40 }]),
  allow_force_push: z.boolean().default(false),
  allowed_to_merge: protectionLevels.default([{ access_level: 40 }]),
  developer_can_initial_push: z.boolean().default(false),
  code_owner_approval_required: z.boolean().default(false),
});
export type ProtectionDefaults = z.output<typeof protectionDefaults>;

const isPathOrUrl = (value: string): boolean => /^\/(?![/\\])[!-~]*$/.test(value) || /^https?:\/\/[!-~]+$/.test(value);

export const settingsSchema = z.object({
  default_project_visibility: z.enum(VISIBILITIES).default('private').describe('Default visibility of new projects.'),
  default_group_visibility: z.enum(VISIBILITIES).default('private').describe('Default visibility of new groups.'),
  restricted_visibility_levels: z
    .array(z.enum(VISIBILITIES))
    .default([])
    .describe('Visibilities that only administrators can choose.'),
  default_branch_name: z
    .string()
    .refine(validRefName, 'is not the name of a branch')
    .default('main')
    .describe('Name of the initial branch of new projects.'),
  default_branch_protection_defaults: protectionDefaults
    .default(() => protectionDefaults.parse({}))
    .describe('Protection of the default branch of new projects.'),
  default_projects_limit: count(1_000_000)
    .default(100_000)
    .describe('Number of projects that a new user can create in their personal namespace.'),
  can_create_group: z.boolean().default(true).describe('Whether new users can create top-level groups.'),
  user_default_external: z.boolean().default(false).describe('Whether new users are external.'),
  user_default_internal_regex: regularExpression
    .default('')
    .describe(
      'New users whose address matches this RE2 expression are internal, even if new users are external by default.',
    ),
  updating_name_disabled_for_users: z
    .boolean()
    .default(false)
    .describe('Whether only administrators can change the names of users.'),
  email_restrictions_enabled: z.boolean().default(false).describe('Whether `email_restrictions` counts.'),
  email_restrictions: regularExpression
    .default('')
    .describe('New users must not have an address that matches this RE2 expression.'),
  domain_allowlist: domains
    .default([])
    .describe(
      'New users must have an address of one of these domains (`*` stands for any part). An empty list allows all domains.',
    ),
  domain_denylist_enabled: z.boolean().default(false).describe('Whether `domain_denylist` counts.'),
  domain_denylist: domains.default([]).describe('New users must not have an address of one of these domains.'),
  user_defaults_to_private_profile: z.boolean().default(false).describe('Whether new users have a private profile.'),
  deactivate_dormant_users: z.boolean().default(false).describe('Whether inactive users are deactivated, every night.'),
  deactivate_dormant_users_period: z
    .int()
    .min(90)
    .max(3_650)
    .default(90)
    .describe('Days of inactivity before a user can be deactivated, automatically or by an administrator.'),
  valid_runner_registrars: z
    .array(z.enum(['group', 'project']))
    .max(2)
    .default(['group', 'project'])
    .describe('Where users other than administrators can create runners.'),
  runner_token_expiration_interval: z
    .int()
    .min(7_200)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe('Lifetime of the token of a new instance runner, in seconds. Null means that it does not expire.'),
  group_runner_token_expiration_interval: z
    .int()
    .min(7_200)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe('Lifetime of the token of a new group runner, in seconds. Null means that it does not expire.'),
  project_runner_token_expiration_interval: z
    .int()
    .min(7_200)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe(
      'Lifetime of the token of a new project runner, in seconds. Null means that it does not expire. A shorter lifetime of the project takes precedence.',
    ),
  minimum_password_length: z.int().min(8).max(128).default(8).describe('Minimum length of a password.'),
  password_authentication_enabled_for_web: z
    .boolean()
    .default(true)
    .describe('Whether users can sign in on the web with a password.'),
  max_login_attempts: z
    .int()
    .min(1)
    .max(1_000)
    .default(10)
    .describe('Number of wrong passwords or codes after which an account is locked for a while.'),
  max_login_attempts_per_address: z
    .int()
    .min(1)
    .max(100_000)
    .default(50)
    .describe('Own setting: number of wrong passwords or codes after which a client address is locked for a while.'),
  failed_login_attempts_unlock_period_in_minutes: z
    .int()
    .min(1)
    .max(10_080)
    .default(10)
    .describe('Duration of these locks, in minutes.'),
  send_user_confirmation_email: z
    .boolean()
    .default(false)
    .describe('Whether new users must confirm their address before they can sign in.'),
  session_expire_delay: z
    .int()
    .min(1)
    .max(525_600)
    .default(10_080)
    .describe('Minutes after which an unused session ends.'),
  after_sign_out_path: z
    .string()
    .max(2_000)
    .refine((value) => value === '' || isPathOrUrl(value), 'is neither a path nor an http URL')
    .default('')
    .describe('The page that users see after they sign out: a path of the hub or a URL. Empty means the sign-in page.'),
  allow_group_owners_to_manage_ldap: z
    .boolean()
    .default(false)
    .describe(
      'Whether group owners can link LDAP groups and start syncs. Administrators always can. An owner who links a filter learns who matches it, so turn this on only if everyone who can create a group may search the directory as the bind account does.',
    ),
  notify_on_unknown_sign_in: z
    .boolean()
    .default(true)
    .describe('Whether users get a mail after a sign-in from an unknown address.'),
  require_two_factor_authentication: z
    .boolean()
    .default(false)
    .describe('Whether all users need a second factor on the web.'),
  require_admin_two_factor_authentication: z
    .boolean()
    .default(false)
    .describe('Whether administrators need a second factor on the web.'),
  two_factor_grace_period: count(8_760)
    .default(48)
    .describe('Grace period in which users who need a second factor can work without one, in hours.'),
  password_authentication_enabled_for_git: z
    .boolean()
    .default(true)
    .describe('Whether git over HTTP accepts a user name and password in addition to tokens.'),
  personal_access_token_prefix: z
    .string()
    .max(20)
    .regex(/^[A-Za-z0-9_+=/@:.-]*$/)
    .default('glpat-')
    .describe('Prefix of new personal access tokens.'),
  max_personal_access_token_lifetime: z
    .int()
    .min(1)
    .max(400)
    .default(365)
    .describe('Maximum lifetime of a personal access token, in days.'),
  require_personal_access_token_expiry: z
    .boolean()
    .default(true)
    .describe('Whether personal access tokens must expire.'),
  service_access_tokens_expiration_enforced: z
    .boolean()
    .default(true)
    .describe(
      'Whether tokens of service accounts without a group must expire. For other service accounts their group decides.',
    ),
  extended_grat_expiry_webhooks_execute: z
    .boolean()
    .default(false)
    .describe(
      'Whether webhooks also fire 60 and 30 days before a token expires. They always fire 7 days and 1 day before.',
    ),
  disable_personal_access_tokens: z
    .boolean()
    .default(false)
    .describe(
      'Whether personal access tokens are disabled: none can be created or used. Tokens of administrators keep working.',
    ),
  impersonation_enabled: z
    .boolean()
    .default(true)
    .describe('Own setting: whether administrators can create impersonation tokens, and whether these are accepted.'),
  token_in_query_enabled: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether tokens in the query (`access_token`, `private_token`, `job_token`) are accepted. Queries end up in logs and browser histories, so turn it off unless an old client needs it.',
    ),
  user_oauth_applications: z
    .boolean()
    .default(true)
    .describe('Whether users can register OAuth applications. Administrators always can.'),
  oauth_access_token_lifetime: z
    .int()
    .min(60)
    .max(2_592_000)
    .default(7_200)
    .describe('Own setting: lifetime of an OAuth access token, in seconds.'),
  oauth_password_grant_enabled: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether applications can exchange a user name and password for a token. RFC 9700 advises against it, so turn it off unless an old client needs it.',
    ),
  oauth_plain_http_redirects_enabled: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether OAuth applications can have plain-http redirect URIs, for development. Loopback addresses are always allowed.',
    ),
  oauth_refresh_requires_code_verifier: z
    .boolean()
    .default(false)
    .describe(
      'Own setting: whether a public application must send its code verifier again with each refresh token. Clients that only follow RFC 6749 do not.',
    ),
  oauth_grants_end_credentials: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether the credentials that an OAuth application created (tokens, other applications, runners, webhooks) end when its access is revoked by its user or by itself, or when it or its user is deleted. Credentials of access that ended while this was off stay valid.',
    ),
  max_attachment_size: count(100_000).default(100).describe('Maximum size of an attachment, in MiB. 0 is unlimited.'),
  project_export_enabled: z.boolean().default(true).describe('Whether projects can be exported.'),
  max_export_size: count(1_000_000).default(0).describe('Maximum size of an export archive, in MiB. 0 is unlimited.'),
  import_sources: z
    .array(z.enum(['git', 'gitlab_project']))
    .default(['git', 'gitlab_project'])
    .describe('Sources that projects can be imported from: `git` is a URL, `gitlab_project` an archive.'),
  max_import_size: count(1_000_000)
    .default(0)
    .describe('Maximum size of an archive that is uploaded for an import, in MiB. 0 is unlimited.'),
  max_decompressed_archive_size: count(10_000_000)
    .default(25_600)
    .describe('Maximum size of an unpacked archive, and of a repository imported by URL, in MiB. 0 is unlimited.'),
  decompress_archive_file_timeout: count(86_400)
    .default(210)
    .describe('Maximum time to unpack an archive, in seconds. 0 is unlimited.'),
  export_file_lifetime_hours: z
    .int()
    .min(1)
    .max(8_760)
    .default(24)
    .describe('Own setting: how long a finished export can be downloaded.'),
  throttle_unauthenticated_api_enabled: z
    .boolean()
    .default(false)
    .describe('Whether REST and GraphQL requests without a valid credential are throttled, by client address.'),
  throttle_unauthenticated_api_requests_per_period: throttled(3600).describe(
    'Number of these requests that are allowed in a period.',
  ),
  throttle_unauthenticated_api_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  throttle_authenticated_api_enabled: z
    .boolean()
    .default(false)
    .describe('Whether REST and GraphQL requests of signed-in callers are throttled, by user.'),
  throttle_authenticated_api_requests_per_period: throttled(7200).describe(
    'Number of these requests that are allowed in a period.',
  ),
  throttle_authenticated_api_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  throttle_unauthenticated_web_enabled: z
    .boolean()
    .default(false)
    .describe('Whether page and git requests of anonymous callers are throttled, by client address.'),
  throttle_unauthenticated_web_requests_per_period: throttled(3600).describe(
    'Number of these requests that are allowed in a period.',
  ),
  throttle_unauthenticated_web_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  throttle_authenticated_web_enabled: z
    .boolean()
    .default(false)
    .describe('Whether page and git requests of signed-in callers are throttled, by user.'),
  throttle_authenticated_web_requests_per_period: throttled(7200).describe(
    'Number of these requests that are allowed in a period.',
  ),
  throttle_authenticated_web_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  rate_limiting_response_text: z
    .string()
    .max(1_000)
    .default('Retry later')
    .describe('The response to a throttled request, as plain text.'),
  projects_api_rate_limit_unauthenticated: count(1_000_000)
    .default(0)
    .describe('How often a client address without a credential can list all projects in ten minutes. 0 is unlimited.'),
  project_jobs_api_rate_limit: count(1_000_000)
    .default(0)
    .describe("How often a user can list a project's jobs in a minute. 0 is unlimited."),
  project_export_limit: count(1_000_000)
    .default(0)
    .describe('Number of exports that a user can start in a minute. 0 is unlimited.'),
  project_download_export_limit: count(1_000_000)
    .default(0)
    .describe('How often a user can download the export of a project in a minute. 0 is unlimited.'),
  project_import_limit: count(1_000_000)
    .default(0)
    .describe('Number of imports that a user can start in a minute. 0 is unlimited.'),
  concurrent_url_imports_limit: count(1_000_000)
    .default(20)
    .describe("Number of a user's imports by URL that can be queued or running at a time. 0 is unlimited."),
  receive_max_input_size: count(1_000_000).default(0).describe('Maximum pack size of a push, in MiB. 0 is unlimited.'),
  push_max_files: count(100_000_000)
    .default(500_000)
    .describe(
      'Own setting: maximum number of files and folders in a pushed or imported branch or tag. 0 is unlimited.',
    ),
  diff_max_files: z
    .int()
    .min(1)
    .max(10_000)
    .default(1_000)
    .describe('Maximum number of files in the diff of a commit or comparison. Further files are left out.'),
  diff_max_lines: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(50_000)
    .describe('Maximum length of the patches in a response, in lines. Further patches are left out (`collapsed`).'),
  diff_max_patch_bytes: z
    .int()
    .min(1_024)
    .max(10_485_760)
    .default(204_800)
    .describe('Maximum size of a patch, in bytes. Larger ones are left out (`too_large`).'),
  push_event_hooks_limit: count(10_000)
    .default(3)
    .describe('A push that changes more branches or tags than this triggers no push or tag webhooks.'),
  allow_local_requests_from_web_hooks_and_services: z
    .boolean()
    .default(false)
    .describe('Whether webhooks, export uploads and imported repositories can use loopback and private addresses.'),
  outbound_local_requests_whitelist: z
    .array(
      z
        .string()
        .max(255)
        .regex(/^[!-~]+$/),
    )
    .max(1_000)
    .default([])
    .describe('Local hosts, addresses and ranges that webhooks can reach nevertheless.'),
  webhook_delivery_retention_days: z
    .int()
    .min(1)
    .max(365)
    .default(7)
    .describe('Own setting: how long webhook deliveries are kept and can be resent, in days.'),
  web_hook_manual_limit: count(10_000)
    .default(5)
    .describe(
      'Own setting: number of webhook tests, and of resends and replays, that a user can request per group or project in a minute. 0 is unlimited.',
    ),
  web_hook_calls_per_minute: count(10_000_000)
    .default(0)
    .describe(
      'Own setting: number of webhook calls that the events of one root namespace can trigger in a minute. Further calls are dropped and recorded. 0 is unlimited.',
    ),
  deletion_adjourned_period: z
    .int()
    .min(0)
    .max(90)
    .default(7)
    .describe(
      'Days after which a group that is marked for deletion is deleted. Until then it can be restored. 0 deletes at once.',
    ),
  event_retention_days: z
    .int()
    .min(1)
    .max(3_650)
    .default(30)
    .describe('Own setting: how long events are kept for subscribers that resume with a cursor.'),
  graphiql_enabled: z.boolean().default(true).describe('Own setting: whether the GraphQL explorer is served.'),
  silent_mode_enabled: z
    .boolean()
    .default(false)
    .describe('Whether nothing is sent out: no webhooks, mails or export uploads.'),
});

export type Settings = z.output<typeof settingsSchema>;
export type SettingName = keyof Settings;

/**
 * Deprecated names, and names that infrastructure tools use instead of the specification's. They are accepted, and
 * returned beside the canonical name.
 */
export const settingAliases = {
  allow_local_requests_from_hooks_and_services: 'allow_local_requests_from_web_hooks_and_services',
  outbound_local_requests_allowlist_raw: 'outbound_local_requests_whitelist',
  throttle_unauthenticated_enabled: 'throttle_unauthenticated_web_enabled',
  throttle_unauthenticated_requests_per_period: 'throttle_unauthenticated_web_requests_per_period',
  throttle_unauthenticated_period_in_seconds: 'throttle_unauthenticated_web_period_in_seconds',
} as const satisfies Record<string, SettingName>;
