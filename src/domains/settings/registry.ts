import { RE2JS } from 're2js';
import { z } from 'zod';
import { VISIBILITIES } from '#domains/access/model.ts';
import { validRefName } from '#platform/git/ref-names.ts';

/**
 * Every instance setting: what it may hold, its default, and what it governs. Adding a setting is adding a line here.
 * Names are the specification's (3 §2.4) or, where it lists none, those that existing tools send; the few that are
 * this product's own say so.
 */
const count = (max: number) => z.int().min(0).max(max);
const throttled = (usual: number) => z.int().min(1).max(10_000_000).default(usual);
const protectionLevels = z
  .array(z.object({ access_level: z.union([z.literal(0), z.literal(30), z.literal(40), z.literal(60)]) }))
  .max(10);

/** In the syntax of RE2, whose matching takes linear time. Empty is none. */
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
  default_project_visibility: z
    .enum(VISIBILITIES)
    .default('private')
    .describe('Visibility of a project created without one.'),
  default_group_visibility: z
    .enum(VISIBILITIES)
    .default('private')
    .describe('Visibility of a group created without one.'),
  restricted_visibility_levels: z
    .array(z.enum(VISIBILITIES))
    .default([])
    .describe('Visibilities that only administrators may give.'),
  default_branch_name: z
    .string()
    .refine(validRefName, 'is not the name of a branch')
    .default('main')
    .describe('First branch of a new project.'),
  default_branch_protection_defaults: protectionDefaults
    .default(() => protectionDefaults.parse({}))
    .describe('Protection of the default branch of new projects.'),
  default_projects_limit: count(1_000_000)
    .default(100_000)
    .describe('How many projects a new user may own in his own namespace.'),
  can_create_group: z.boolean().default(true).describe('Whether new users may create top-level groups.'),
  user_default_external: z.boolean().default(false).describe('Whether new users are external.'),
  user_default_internal_regex: regularExpression
    .default('')
    .describe('New users whose address matches this RE2 expression are not external although new users are.'),
  updating_name_disabled_for_users: z
    .boolean()
    .default(false)
    .describe('Whether only administrators change the names of users.'),
  email_restrictions_enabled: z.boolean().default(false).describe('Whether `email_restrictions` counts.'),
  email_restrictions: regularExpression
    .default('')
    .describe('New users must not have an address that matches this RE2 expression.'),
  domain_allowlist: domains
    .default([])
    .describe('New users must have an address of one of these domains (`*` stands for any part); none allows all.'),
  domain_denylist_enabled: z.boolean().default(false).describe('Whether `domain_denylist` counts.'),
  domain_denylist: domains.default([]).describe('New users must not have an address of one of these domains.'),
  user_defaults_to_private_profile: z.boolean().default(false).describe('Whether new users have a private profile.'),
  deactivate_dormant_users: z
    .boolean()
    .default(false)
    .describe('Whether people who have not been about for a while are deactivated, every night.'),
  deactivate_dormant_users_period: z
    .int()
    .min(90)
    .max(3_650)
    .default(90)
    .describe('For how many days someone must not have been about to be deactivated, by that or by an administrator.'),
  valid_runner_registrars: z
    .array(z.enum(['group', 'project']))
    .max(2)
    .default(['group', 'project'])
    .describe('For what others than administrators may create runners.'),
  runner_token_expiration_interval: z
    .int()
    .min(7_200)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe('How long the token of a new runner of the whole hub is valid, in seconds; null is for good.'),
  group_runner_token_expiration_interval: z
    .int()
    .min(7_200)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe('The same for runners of groups.'),
  project_runner_token_expiration_interval: z
    .int()
    .min(7_200)
    .max(1_000_000_000)
    .nullable()
    .default(null)
    .describe('The same for runners of projects; the shorter of this and of what the project says.'),
  minimum_password_length: z.int().min(8).max(128).default(8).describe('Least length of a password.'),
  password_authentication_enabled_for_web: z
    .boolean()
    .default(true)
    .describe('Whether people sign in to the pages with a password.'),
  max_login_attempts: z
    .int()
    .min(1)
    .max(1_000)
    .default(10)
    .describe('After so many wrong passwords or codes an account takes none for a while.'),
  max_login_attempts_per_address: z
    .int()
    .min(1)
    .max(100_000)
    .default(50)
    .describe(
      'Own setting: after so many wrong passwords or codes from one address, none is taken from it for a while.',
    ),
  failed_login_attempts_unlock_period_in_minutes: z
    .int()
    .min(1)
    .max(10_080)
    .default(10)
    .describe('How long that while is, in minutes.'),
  send_user_confirmation_email: z
    .boolean()
    .default(false)
    .describe('Whether new accounts have to confirm their address before they can sign in.'),
  session_expire_delay: z
    .int()
    .min(1)
    .max(525_600)
    .default(10_080)
    .describe('A session that was not used for so many minutes ends.'),
  after_sign_out_path: z
    .string()
    .max(2_000)
    .refine((value) => value === '' || isPathOrUrl(value), 'is neither a path nor an http URL')
    .default('')
    .describe(
      'Where people are led when they have signed out: a path of the hub or a URL; empty is the page to sign in.',
    ),
  allow_group_owners_to_manage_ldap: z
    .boolean()
    .default(false)
    .describe(
      'Whether owners of groups link them to LDAP groups and sync them. Administrators always may. Whoever links a group learns who matches a filter of their own: turn it on where everyone who may make a group may search the directory as the bind account does.',
    ),
  notify_on_unknown_sign_in: z
    .boolean()
    .default(true)
    .describe('Whether people get a mail when somebody signs in as them from an address that is new.'),
  require_two_factor_authentication: z
    .boolean()
    .default(false)
    .describe('Whether everyone has to have a second factor to use the pages.'),
  require_admin_two_factor_authentication: z.boolean().default(false).describe('Whether administrators have to.'),
  two_factor_grace_period: count(8_760)
    .default(48)
    .describe('How many hours people who have to have a second factor may still go without one.'),
  password_authentication_enabled_for_git: z
    .boolean()
    .default(true)
    .describe('Whether git over HTTP takes a user name and password beside tokens.'),
  personal_access_token_prefix: z
    .string()
    .max(20)
    .regex(/^[A-Za-z0-9_+=/@:.-]*$/)
    .default('glpat-')
    .describe('What the value of a new personal access token begins with.'),
  max_personal_access_token_lifetime: z
    .int()
    .min(1)
    .max(400)
    .default(365)
    .describe('Longest life of a personal access token, in days.'),
  require_personal_access_token_expiry: z
    .boolean()
    .default(true)
    .describe('Whether personal access tokens must expire.'),
  service_access_tokens_expiration_enforced: z
    .boolean()
    .default(true)
    .describe(
      'Whether tokens of service accounts that belong to no group must expire. Of those of groups the group decides.',
    ),
  extended_grat_expiry_webhooks_execute: z
    .boolean()
    .default(false)
    .describe(
      'Whether hooks hear of tokens that end 60 and 30 days before, too. They always hear 7 days and 1 day before.',
    ),
  disable_personal_access_tokens: z
    .boolean()
    .default(false)
    .describe('Whether no personal access token can be made or used. Tokens of administrators go on.'),
  impersonation_enabled: z
    .boolean()
    .default(true)
    .describe('Own setting: whether administrators can make impersonation tokens, and whether these count.'),
  token_in_query_enabled: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether a token in the query (`access_token`, `private_token`, `job_token`) counts. Queries end up in logs and histories: turn it off where no old client needs it.',
    ),
  user_oauth_applications: z
    .boolean()
    .default(true)
    .describe('Whether users may register OAuth applications. Administrators always may.'),
  oauth_access_token_lifetime: z
    .int()
    .min(60)
    .max(2_592_000)
    .default(7_200)
    .describe('Own setting: how long an OAuth access token is valid, in seconds.'),
  oauth_password_grant_enabled: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether applications may exchange a user name and password for a token. RFC 9700 advises against it: turn it off where no old client needs it.',
    ),
  oauth_plain_http_redirects_enabled: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether OAuth applications may have redirect URIs over plain http, for development. Those on loopback may always.',
    ),
  oauth_refresh_requires_code_verifier: z
    .boolean()
    .default(false)
    .describe(
      'Own setting: whether an application without a secret has to send its code verifier again with each refresh token. Clients that follow RFC 6749 alone do not.',
    ),
  oauth_grants_end_credentials: z
    .boolean()
    .default(true)
    .describe(
      'Own setting: whether what an OAuth application made (tokens, other applications, runners, hooks) ends when it is shut out, by its user, by itself, or because it or its user is removed. Grants that ended while it was off stay as they are.',
    ),
  max_attachment_size: count(100_000)
    .default(100)
    .describe('Largest file that can be attached, in MiB; 0 is unlimited.'),
  project_export_enabled: z.boolean().default(true).describe('Whether projects can be exported.'),
  max_export_size: count(1_000_000).default(0).describe('Largest archive an export may make, in MiB; 0 is unlimited.'),
  import_sources: z
    .array(z.enum(['git', 'gitlab_project']))
    .default(['git', 'gitlab_project'])
    .describe('Where projects may be imported from: `git` is by URL, `gitlab_project` from archives.'),
  max_import_size: count(1_000_000)
    .default(0)
    .describe('Largest archive that can be uploaded for an import, in MiB; 0 is unlimited.'),
  max_decompressed_archive_size: count(10_000_000)
    .default(25_600)
    .describe(
      'How far an archive may unpack, and how large a repository may be that is imported by URL, in MiB; 0 is unlimited.',
    ),
  decompress_archive_file_timeout: count(86_400)
    .default(210)
    .describe('How long unpacking an archive may take, in seconds; 0 is unlimited.'),
  export_file_lifetime_hours: z
    .int()
    .min(1)
    .max(8_760)
    .default(24)
    .describe('Own setting: how long a finished export can be downloaded.'),
  throttle_unauthenticated_api_enabled: z
    .boolean()
    .default(false)
    .describe('Whether requests to REST and GraphQL without a credential that counts are throttled, by address.'),
  throttle_unauthenticated_api_requests_per_period: throttled(3600).describe(
    'How many of them are answered in a period.',
  ),
  throttle_unauthenticated_api_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  throttle_authenticated_api_enabled: z
    .boolean()
    .default(false)
    .describe('Whether requests to REST and GraphQL of signed-in callers are throttled, by user.'),
  throttle_authenticated_api_requests_per_period: throttled(7200).describe(
    'How many of them are answered in a period.',
  ),
  throttle_authenticated_api_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  throttle_unauthenticated_web_enabled: z
    .boolean()
    .default(false)
    .describe('Whether requests for pages and by git of visitors are throttled, by address.'),
  throttle_unauthenticated_web_requests_per_period: throttled(3600).describe(
    'How many of them are answered in a period.',
  ),
  throttle_unauthenticated_web_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  throttle_authenticated_web_enabled: z
    .boolean()
    .default(false)
    .describe('Whether requests for pages and by git of signed-in people are throttled, by user.'),
  throttle_authenticated_web_requests_per_period: throttled(7200).describe(
    'How many of them are answered in a period.',
  ),
  throttle_authenticated_web_period_in_seconds: throttled(3600).describe('Length of that period, in seconds.'),
  rate_limiting_response_text: z
    .string()
    .max(1_000)
    .default('Retry later')
    .describe('What a throttled request is answered, as plain text.'),
  projects_api_rate_limit_unauthenticated: count(1_000_000)
    .default(0)
    .describe('How often an address without a credential may list all projects in ten minutes; 0 is unlimited.'),
  project_jobs_api_rate_limit: count(1_000_000)
    .default(0)
    .describe("How often a user may list a project's jobs in a minute; 0 is unlimited."),
  project_export_limit: count(1_000_000)
    .default(0)
    .describe('How many exports a user may start in a minute; 0 is unlimited.'),
  project_download_export_limit: count(1_000_000)
    .default(0)
    .describe('How often a user may download the export of a project in a minute; 0 is unlimited.'),
  project_import_limit: count(1_000_000)
    .default(0)
    .describe('How many imports a user may start in a minute; 0 is unlimited.'),
  concurrent_url_imports_limit: count(1_000_000)
    .default(20)
    .describe('How many imports by URL of a user may wait or run at a time; 0 is unlimited.'),
  receive_max_input_size: count(1_000_000)
    .default(0)
    .describe('Largest pack a push may bring, in MiB; 0 is unlimited.'),
  push_max_files: count(100_000_000)
    .default(500_000)
    .describe(
      'Own setting: how many files and folders a branch or tag may hold that is pushed or imported; 0 is unlimited.',
    ),
  diff_max_files: z
    .int()
    .min(1)
    .max(10_000)
    .default(1_000)
    .describe('Of what differs in more files than this, the diff of a commit or comparison tells so many.'),
  diff_max_lines: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(50_000)
    .describe('Patches that would make an answer longer than this, in lines, are left out of it (`collapsed`).'),
  diff_max_patch_bytes: z
    .int()
    .min(1_024)
    .max(10_485_760)
    .default(204_800)
    .describe('A patch of more bytes is left out (`too_large`).'),
  push_event_hooks_limit: count(10_000)
    .default(3)
    .describe('A push that touches more branches or tags than this fires no push or tag hook.'),
  allow_local_requests_from_web_hooks_and_services: z
    .boolean()
    .default(false)
    .describe(
      'Whether hooks, URLs that exports upload to, and repositories that are imported may lie on loopback or private addresses.',
    ),
  outbound_local_requests_whitelist: z
    .array(
      z
        .string()
        .max(255)
        .regex(/^[!-~]+$/),
    )
    .max(1_000)
    .default([])
    .describe('Hosts, addresses and ranges that hooks may reach although they are local.'),
  webhook_delivery_retention_days: z
    .int()
    .min(1)
    .max(365)
    .default(7)
    .describe('Own setting: how long deliveries are kept and can be resent.'),
  web_hook_manual_limit: count(10_000)
    .default(5)
    .describe(
      'Own setting: how many tests, and how many resends and replays, one user may ask of the hooks of one group or project in a minute; 0 is unlimited.',
    ),
  web_hook_calls_per_minute: count(10_000_000)
    .default(0)
    .describe(
      'Own setting: how many calls of hooks events below one root namespace may cause in a minute; what is more is dropped and recorded. 0 is unlimited.',
    ),
  deletion_adjourned_period: z
    .int()
    .min(0)
    .max(90)
    .default(7)
    .describe(
      'Days after which a group that was marked for deletion goes; until then it can be restored. 0 removes at once.',
    ),
  event_retention_days: z
    .int()
    .min(1)
    .max(3_650)
    .default(30)
    .describe('Own setting: how long events are kept for subscribers that come back with a cursor.'),
  graphiql_enabled: z.boolean().default(true).describe('Own setting: whether the GraphQL explorer is served.'),
  silent_mode_enabled: z
    .boolean()
    .default(false)
    .describe('Nothing is sent out: neither hooks, nor mails, nor uploads of exports.'),
});

export type Settings = z.output<typeof settingsSchema>;
export type SettingName = keyof Settings;

/** Deprecated names, and the names that infrastructure tools use where the specification has another: accepted and returned beside it. */
export const settingAliases = {
  allow_local_requests_from_hooks_and_services: 'allow_local_requests_from_web_hooks_and_services',
  outbound_local_requests_allowlist_raw: 'outbound_local_requests_whitelist',
  throttle_unauthenticated_enabled: 'throttle_unauthenticated_web_enabled',
  throttle_unauthenticated_requests_per_period: 'throttle_unauthenticated_web_requests_per_period',
  throttle_unauthenticated_period_in_seconds: 'throttle_unauthenticated_web_period_in_seconds',
} as const satisfies Record<string, SettingName>;
