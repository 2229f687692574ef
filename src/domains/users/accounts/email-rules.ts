import { RE2JS } from 're2js';
import type { Settings } from '#domains/settings/registry.ts';

type EmailSettings = Pick<
  Settings,
  | 'email_restrictions_enabled'
  | 'email_restrictions'
  | 'domain_allowlist'
  | 'domain_denylist_enabled'
  | 'domain_denylist'
>;

/**
 * Returns the objections of the instance settings to a user's address. Each continues a sentence that starts with
 * `Email`.
 */
export const emailProblems = (settings: EmailSettings, email: string): string[] => {
  const domain = email.slice(email.lastIndexOf('@') + 1).toLowerCase();
  const isListed = (list: readonly string[]) => list.some((pattern) => domainMatches(pattern.toLowerCase(), domain));
  const problems: string[] = [];
  if (settings.domain_allowlist.length > 0 && !isListed(settings.domain_allowlist)) {
    problems.push('domain is not authorized for sign-up.');
  }
  if (settings.domain_denylist_enabled && isListed(settings.domain_denylist)) {
    problems.push('is not from an allowed domain.');
  }
  if (settings.email_restrictions_enabled && settings.email_restrictions !== '') {
    if (RE2JS.compile(settings.email_restrictions).matcher(email).find()) {
      problems.push('is not allowed for sign-up.');
    }
  }
  return problems;
};

/** Whether a new user with this address is external by default. */
export const externalByDefault = (
  settings: Pick<Settings, 'user_default_external' | 'user_default_internal_regex'>,
  email: string,
): boolean => {
  if (!settings.user_default_external || settings.user_default_internal_regex === '') {
    return settings.user_default_external;
  }
  return !RE2JS.compile(settings.user_default_internal_regex, RE2JS.CASE_INSENSITIVE).matcher(email).find();
};

/** Matches a domain. `*` stands for any part of a name, as in `*.example.com`. */
const domainMatches = (pattern: string, domain: string): boolean => {
  if (!pattern.includes('*')) return pattern === domain;
  return RE2JS.compile(pattern.split('*').map(RE2JS.quote).join('.*')).matches(domain);
};
