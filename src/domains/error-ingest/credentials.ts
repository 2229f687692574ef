import type { IncomingHttpHeaders } from 'node:http';
import { isObject } from '#platform/values/json.ts';

const KEY = /^\w{1,100}$/;

/**
 * Reads the client key of a request from `sentry_key` in the query, `X-Sentry-Auth`, or `Authorization` (`Sentry` or
 * `Basic` with the key as user). Null if there is none.
 *
 * @returns `conflict` if two places name different keys
 */
export const readKey = (headers: IncomingHttpHeaders, query: unknown): string | null | 'conflict' => {
  const asked: unknown = isObject(query) ? query.sentry_key : undefined;
  const { authorization, 'x-sentry-auth': sent } = headers;
  // Most SDKs name the key in one place.
  if (authorization === undefined && sent === undefined && typeof asked === 'string') return validKey(asked);
  const given = [
    ...[asked].flat(),
    ...[sent].flat().map(keyOfScheme),
    keyOfScheme(authorization),
    keyOfBasic(authorization),
  ].filter((key): key is string => typeof key === 'string');
  const keys = new Set(given);
  if (keys.size > 1) return 'conflict';
  const [key] = keys;
  return key === undefined ? null : validKey(key);
};

const validKey = (key: string): string | null => (KEY.test(key) ? key : null);

/** Reads `Sentry sentry_version=7, sentry_key=...`: in any order, with or without spaces after the commas. */
const keyOfScheme = (header: string | undefined): string | null => {
  if (header === undefined) return null;
  const match = /^\s*sentry\s+(.*)$/is.exec(header);
  if (!match) return null;
  for (const pair of (match[1] ?? '').split(',')) {
    const [name, value] = pair.split('=', 2);
    if (name?.trim() === 'sentry_key' && value !== undefined) return value.trim();
  }
  return null;
};

const keyOfBasic = (header: string | undefined): string | null => {
  if (header === undefined) return null;
  const match = /^\s*basic\s+([\w+/=-]+)\s*$/i.exec(header);
  if (!match) return null;
  const [user = ''] = Buffer.from(match[1] ?? '', 'base64')
    .toString()
    .split(':', 1);
  return user === '' ? null : user;
};

export interface DsnParts {
  readonly key: string;
  readonly projectId: number | null;
}

/** Reads a DSN, as tunnels send it in the header of the envelope. Null if it is none. */
export const readDsn = (dsn: unknown): DsnParts | null => {
  if (typeof dsn !== 'string' || !URL.canParse(dsn)) return null;
  const { username, pathname } = new URL(dsn);
  return KEY.test(username) ? { key: username, projectId: readProjectId(pathname.split('/').at(-1) ?? '') } : null;
};

/** Reads the id of a project in an address. Null if it is no id. */
export const readProjectId = (text: string): number | null => {
  const id = Number(text);
  return /^\d{1,16}$/.test(text) && Number.isSafeInteger(id) && id > 0 ? id : null;
};
