import { z } from 'zod';
import { flag, setting, whole, words } from './define.ts';
import { domains, hostName, regularExpression } from './values.ts';

/** Registration, new users, addresses and inactive accounts. */
export const users = {
  signup_enabled: flag(
    false,
    'Whether people can register an account on the web, while `password_authentication_enabled_for_web` is on too.',
  ),
  require_admin_approval_after_user_signup: flag(
    true,
    'Whether an administrator must approve an account that somebody registered before its user can sign in.',
  ),
  send_user_confirmation_email: flag(false, 'Whether new users must confirm their address before they can sign in.'),
  delete_unconfirmed_users: flag(
    false,
    'Whether accounts that never confirmed their address and were never used are deleted, every night.',
  ),
  unconfirmed_users_delete_after_days: whole(
    1,
    3_650,
    7,
    'Days after which an unconfirmed account is deleted, if `delete_unconfirmed_users` is on.',
  ),
  after_sign_up_text: words(20_000, 'Text that people see after they have registered, in Markdown.'),
  email_restrictions_enabled: flag(false, 'Whether `email_restrictions` counts.', { requires: ['email_restrictions'] }),
  email_restrictions: setting(
    regularExpression.default(''),
    'New users must not have an address that matches this RE2 expression.',
  ),
  domain_allowlist: setting(
    domains.default([]),
    'New users must have an address of one of these domains (`*` stands for any part). An empty list allows all domains.',
  ),
  domain_denylist_enabled: flag(false, 'Whether `domain_denylist` counts.'),
  domain_denylist: setting(domains.default([]), 'New users must not have an address of one of these domains.'),
  enforce_terms: flag(
    false,
    'Whether users must accept `terms` before they use anything else. Administrators are asked on the web only.',
    { requires: ['terms'] },
  ),
  terms: words(200_000, 'Terms of service, in Markdown. Everyone can read them at `/-/users/terms`.'),
  user_default_external: flag(false, 'Whether new users are external.'),
  user_default_internal_regex: setting(
    regularExpression.default(''),
    'New users whose address matches this RE2 expression are internal, even if new users are external by default. The unconfirmed addresses of people who register do not count.',
  ),
  user_defaults_to_private_profile: flag(false, 'Whether new users have a private profile.'),
  default_preferred_language: setting(
    z
      .string()
      .regex(/^[a-z]{2,3}([_-][A-Za-z]{2,4})?$/, 'is not a language such as en or pt_BR')
      .default('en'),
    'Language of new users, for clients that translate. The hub itself is in English.',
  ),
  first_day_of_week: setting(
    z.union([z.literal(0), z.literal(1), z.literal(6)]).default(0),
    'First day of the week of new users, for clients that show calendars: 0 is Sunday, 1 Monday, 6 Saturday.',
  ),
  updating_name_disabled_for_users: flag(false, 'Whether only administrators can change the names of users.'),
  commit_email_hostname: setting(
    hostName.default(''),
    'Domain of the addresses (`ID-username@`) of users whose `commit_email` is `_private`, in commits that the hub writes. Empty means `users.noreply.` before the name of the hub.',
  ),
  allow_account_deletion: flag(true, 'Whether users can delete their own account, on the web.'),
  deactivate_dormant_users: flag(false, 'Whether inactive users are deactivated, every night.'),
  deactivate_dormant_users_period: whole(
    90,
    3_650,
    90,
    'Days of inactivity before a user can be deactivated, automatically or by an administrator.',
  ),
  user_deactivation_emails_enabled: flag(true, 'Whether users get a mail when their account is deactivated.'),
  user_show_add_ssh_key_message: flag(true, 'Whether users without an SSH key are reminded to add one.', {
    withoutEffect: true,
  }),
  avatarservice_enabled: flag(false, 'Whether avatars of users come from an outside service.', {
    otherNames: ['gravatar_enabled'],
    withoutEffect: true,
  }),
  whats_new_variant: setting(
    z.enum(['all_tiers', 'current_tier', 'disabled']).default('all_tiers'),
    'Whose news about new versions users see.',
    { withoutEffect: true },
  ),
};
