import { z } from 'zod';
import { flag, setting, whole, wholeOrNull, words } from './define.ts';
import { httpUrl, networks, pathOrUrl } from './values.ts';

const keyRestriction = (key: string, description: string) =>
  setting(z.int().min(-1).max(16_384).default(0), `Which ${key} SSH keys are allowed: ${description}`, {
    withoutEffect: true,
  });

/** Passwords, sessions, the second factor and who may get in. */
export const signIn = {
  minimum_password_length: whole(8, 128, 8, 'Minimum length of a password.'),
  password_authentication_enabled_for_web: flag(true, 'Whether users can sign in on the web with a password.'),
  password_authentication_enabled_for_git: flag(
    true,
    'Whether git over HTTP accepts a user name and password in addition to tokens.',
  ),
  admin_mode: flag(
    false,
    'Whether administrators must authenticate again before they administer, at `/admin/session/new`. Tokens need the scope `admin_mode`. Otherwise they act as ordinary users.',
  ),
  max_login_attempts: whole(
    1,
    1_000,
    10,
    'Number of wrong passwords or codes after which an account is locked for a while.',
  ),
  max_login_attempts_per_address: whole(
    1,
    100_000,
    50,
    'Own setting: number of wrong passwords or codes after which a client address is locked for a while.',
  ),
  failed_login_attempts_unlock_period_in_minutes: whole(1, 10_080, 10, 'Duration of these locks, in minutes.'),
  session_expire_delay: whole(1, 525_600, 10_080, 'Minutes after which an unused session ends.'),
  after_sign_out_path: setting(
    pathOrUrl.default(''),
    'The page that users see after they sign out: a path of the hub or a URL. Empty means the sign-in page.',
  ),
  notify_on_unknown_sign_in: flag(true, 'Whether users get a mail after a sign-in from an unknown address.'),
  require_two_factor_authentication: flag(false, 'Whether all users need a second factor on the web.', {
    requires: ['two_factor_grace_period'],
  }),
  require_admin_two_factor_authentication: flag(false, 'Whether administrators need a second factor on the web.'),
  two_factor_grace_period: whole(
    0,
    8_760,
    48,
    'Grace period in which users who need a second factor can work without one, in hours.',
  ),
  unique_ips_limit_enabled: flag(
    false,
    'Whether the number of addresses is limited from which a user can send requests, with sessions, tokens, passwords and job tokens alike. Requests from further addresses get 403. An IPv6 network of 64 bits counts as one address.',
    { requires: ['unique_ips_limit_per_user', 'unique_ips_limit_time_window'] },
  ),
  unique_ips_limit_per_user: wholeOrNull(
    1,
    1_000_000,
    'Number of client addresses from which a user can send requests within the time window. Null means that it is not set.',
  ),
  unique_ips_limit_time_window: wholeOrNull(
    1,
    1_000_000_000,
    'How long an address counts after its last use, in seconds. Its use is recorded once in a tenth of this time, and at least once a minute. Null means that it is not set.',
  ),
  globally_allowed_ips: setting(
    networks.default(''),
    'Addresses and networks that are always allowed, separated by commas or white space: `ip_restriction_ranges` of groups do not exclude them.',
  ),
  external_authorization_service_enabled: flag(
    false,
    'Whether a service of the operator decides which users may enter which projects, by the `external_authorization_classification_label` of a project. Projects that it does not open look as if they did not exist, public ones included. Anonymous callers may enter none, administrators all.',
    { requires: ['external_authorization_service_url', 'external_authorization_service_default_label'] },
  ),
  external_authorization_service_url: setting(
    httpUrl.default(''),
    'Address of this service. The rules for local addresses are those of webhooks. It is asked with POST about a user and a label, and opens the label with 200. Answers count for five minutes.',
  ),
  external_authorization_service_default_label: words(255, 'Label of projects that have none.'),
  external_authorization_service_timeout: setting(
    z.number().min(0.001).max(10).default(0.5),
    'How long the hub waits for an answer of this service, in seconds. Without one, access is refused.',
  ),
  allow_group_owners_to_manage_ldap: flag(
    false,
    'Whether group owners can link LDAP groups. Administrators always can. An owner who links a filter learns who matches it, so turn this on only if everyone who can create a group may search the directory as the bind account does.',
  ),
  rsa_key_restriction: keyRestriction('RSA', 'their least length in bits, 0 for all, -1 for none.'),
  dsa_key_restriction: keyRestriction('DSA', 'their least length in bits, 0 for all, -1 for none.'),
  ecdsa_key_restriction: keyRestriction('ECDSA', 'their least length in bits, 0 for all, -1 for none.'),
  ed25519_key_restriction: keyRestriction('Ed25519', '0 for all, -1 for none.'),
  ecdsa_sk_key_restriction: keyRestriction('ECDSA security', '0 for all, -1 for none.'),
  ed25519_sk_key_restriction: keyRestriction('Ed25519 security', '0 for all, -1 for none.'),
};
