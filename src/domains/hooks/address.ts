import { parseOutboundUrl } from '#platform/http-client/address-guard.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';

const MASK = '[MASKED]';
const USER_INFO = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#\\]*)@/i;
const PLACEHOLDER = /\{([A-Za-z][\w.-]*)\}/g;

/** Returns the URL for display, with credentials masked and variables as placeholders. */
export const shownUrl = (url: string): string => url.replace(USER_INFO, (_, scheme: string) => `${scheme}${MASK}@`);

/** Replaces the placeholders by the values of the variables. A placeholder without a value stays. */
export const fillUrl = (url: string, variables: ReadonlyMap<string, string>): string =>
  url.replace(PLACEHOLDER, (placeholder, key: string) => variables.get(key) ?? placeholder);

/**
 * Returns whether the text can be a hook URL. Host names are checked later, when they are resolved.
 * @throws OutboundError `blocked`
 */
export const checkUrlText = (url: string, filled: string, policy: AddressPolicy): boolean => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters must be refused, because URL parsers drop them silently.
  if (/[\x00-\x20\x7f]/.test(filled)) return false;
  const { authorization } = parseOutboundUrl(filled, policy);
  // Refuse credentials that the mask would not find.
  return authorization === null || USER_INFO.test(url);
};

/** Returns the credentials of the filled address in all their forms, to keep them out of logs. */
export const credentialsOf = (filled: string): string[] => {
  const url = URL.parse(filled);
  if (!url) return [];
  if (url.username === '' && url.password === '') return [];
  const basic = Buffer.from(`${decode(url.username)}:${decode(url.password)}`).toString('base64');
  return [url.username, url.password, decode(url.username), decode(url.password), basic];
};

const decode = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
};
