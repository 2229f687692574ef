import type { NormalizedRequest, NormalizedUser } from '#domains/error-tracking/event.ts';
import type { JsonObject } from '#platform/values/json.ts';
import type { Cutter } from './cutter.ts';
import { FILTERED, isSecretCookie, isSecretName, scrubJsonText, scrubQuery, scrubText, scrubUrl } from './scrubbing.ts';
import { textOf } from './stacks.ts';
import { asEntries, asObject, asText, fromEntries, parseLenient } from './values.ts';

/** The limit of each part of a request. */
const PART = { characters: 8_192, depth: 7 };
const MAX_HEADERS = 100;
const MAX_HEADER = 1_024;

/** Reads the HTTP request that was being answered when the error happened. */
export const readRequest = (given: JsonObject | null, cutter: Cutter): NormalizedRequest | null => {
  if (!given) return null;
  const env = asObject(given.env);
  return {
    url: textOf(scrubUrl(asText(given.url) ?? ''), 2_048, cutter, 'request.url'),
    method: textOf(given.method, 32, cutter, 'request.method'),
    query_string: readQueryString(given.query_string, cutter),
    cookies: readCookies(given.cookies, cutter),
    headers: readHeaders(given.headers, cutter),
    env: env && cutter.object(env, PART, PART.characters, 'request.env'),
    data: given.data === undefined ? null : readData(given.data, cutter),
  };
};

/** Forms and JSON that were sent as text are scrubbed by the names of their fields. */
const readData = (data: unknown, cutter: Cutter): unknown => {
  if (typeof data !== 'string') return cutter.json(data, PART, 'request.data');
  if (/^\s*[[{]/.test(data)) return readJsonText(data, cutter);
  const isForm = /^[\w.%[\]-]{1,100}=/.test(data);
  return cutter.text(isForm ? scrubQuery(data) : scrubText(data), PART.characters, 'request.data');
};

/** SDKs cut long bodies, so the text may end in the middle. */
const readJsonText = (text: string, cutter: Cutter): string => {
  let data: unknown;
  try {
    data = parseLenient(text);
  } catch {
    return cutter.text(scrubText(scrubJsonText(text)), PART.characters, 'request.data');
  }
  return cutter.text(JSON.stringify(cutter.json(data, PART, 'request.data')), PART.characters, 'request.data');
};

const readQueryString = (value: unknown, cutter: Cutter): string | null => {
  const text =
    typeof value === 'string'
      ? value.replace(/^\?/, '')
      : asEntries(value)
          .map(([name, of]) => `${name}=${asText(of) ?? JSON.stringify(of)}`)
          .join('&');
  return text === '' ? null : cutter.text(scrubQuery(text), PART.characters, 'request.query_string');
};

const readCookies = (value: unknown, cutter: Cutter): JsonObject | null => {
  const pairs =
    typeof value === 'string'
      ? value.split(';').map((pair): [string, string] => {
          const [name = '', ...rest] = pair.split('=');
          return [name.trim(), rest.join('=').trim()];
        })
      : asEntries(value);
  const cookies = pairs
    .filter(([name]) => name !== '')
    .map(([name, of]) => [name, isSecretCookie(name) ? FILTERED : of] as const);
  return cookies.length === 0 ? null : cutter.object(fromEntries(cookies), PART, PART.characters, 'request.cookies');
};

const readHeaders = (value: unknown, cutter: Cutter): Readonly<Record<string, string>> => {
  const pairs =
    typeof value === 'string'
      ? value.split(/\r?\n/).map((line): [string, string] => {
          const [name = '', ...rest] = line.split(':');
          return [name.trim(), rest.join(':').trim()];
        })
      : asEntries(value);
  return fromEntries(
    cutter.first(pairs, MAX_HEADERS, 'request.headers').flatMap(([name, of]) => {
      const text = Array.isArray(of) ? of.map(asText).join(', ') : asText(of);
      if (name === '' || text === null) return [];
      const shown = /^user-agent$/i.test(name) ? text : scrubText(text);
      const key = cutter.text(name, 200, 'request.headers');
      return [[key, isSecretName(name) ? FILTERED : cutter.text(shown, MAX_HEADER, `request.headers.${key}`)] as const];
    }),
  );
};

const USER_DATA = { characters: 2_048, depth: 4 };

/** Reads the affected user. `{{auto}}` stands for the address that the event came from. */
export const readUser = (given: JsonObject | null, address: string, cutter: Cutter): NormalizedUser | null => {
  if (!given) return null;
  const { id, username, email, ip_address, data, ...more } = given;
  const ip = ip_address === '{{auto}}' ? address : ip_address;
  const rest = cutter.object({ ...asObject(data), ...more }, USER_DATA, USER_DATA.characters, 'user.data');
  const user = {
    id: textOf(id, 128, cutter, 'user.id'),
    username: textOf(username, 128, cutter, 'user.username'),
    email: textOf(email, 254, cutter, 'user.email'),
    ip_address: textOf(ip, 64, cutter, 'user.ip_address'),
  };
  const isEmpty = Object.values(user).every((value) => value === null) && Object.keys(rest).length === 0;
  return isEmpty ? null : { ...user, data: rest };
};
