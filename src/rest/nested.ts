import { badParameters } from '#platform/errors.ts';

/**
 * The parameters of a request with brackets expanded. Values are strings from queries and forms, and any JSON value
 * from JSON bodies. The object has no prototype.
 */
export interface Parameters {
  [name: string]: unknown;
}

const MAX_PAIRS = 1_000;
const MAX_KEY_DEPTH = 8;
export const MAX_JSON_DEPTH = 32;

export const noParameters = (): Parameters => Object.create(null);

/**
 * Parses a query string or urlencoded form as Rails does: `a[b]=1` nests, `a[]=1&a[]=2` is an array, and
 * `a[][k]=1&a[][l]=2` is an array of hashes. Does not use qs, which joins repeated scalars with arrays and makes each
 * `a[][k]` an element of its own. `mayRepeat` accepts a scalar again with the same value: Java clients write some fields
 * of their forms twice.
 */
export const parseForm = (text: string, { mayRepeat = false } = {}): Parameters => {
  const target = noParameters();
  if (text === '') return target;
  const pairs = text.split('&', MAX_PAIRS + 1);
  if (pairs.length > MAX_PAIRS) throw badParameters('too many parameters');
  const seen = new Set<string>();
  for (const pair of pairs) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const key = decode(equals < 0 ? pair : pair.slice(0, equals));
    if (mayRepeat && !key.includes('[]')) {
      if (seen.has(pair)) continue;
      seen.add(pair);
    }
    insertParameter(target, key, equals < 0 ? '' : decode(pair.slice(equals + 1)));
  }
  return target;
};

/**
 * Expands the bracketed keys of a JSON body (python-gitlab sends them), drops `__proto__`, and refuses bodies that nest
 * too deeply.
 */
export const expandJson = (body: unknown): Parameters => {
  const target = noParameters();
  if (body === null || body === undefined) return target;
  if (typeof body !== 'object' || Array.isArray(body)) throw badParameters('body is not a JSON object');
  for (const [key, value] of entriesOf(body)) {
    const clean = typeof value === 'object' ? cleanJson(value, 1) : value;
    if (key.includes('[')) insertParameter(target, key, clean);
    else if (key !== '__proto__') target[key] = clean;
  }
  return target;
};

/** Inserts a value at its bracketed key. Refuses a repeated scalar, and a key that is used as two different types. */
export const insertParameter = (target: Parameters, key: string, value: unknown): void => {
  const open = key.indexOf('[');
  if (open <= 0) {
    assign(target, key, value, key);
    return;
  }
  const parts = [key.slice(0, open)];
  let at = open;
  while (at < key.length) {
    const close = key[at] === '[' ? key.indexOf(']', at) : -1;
    if (close < 0) {
      // Unbalanced brackets are part of an undeclared name.
      assign(target, key, value, key);
      return;
    }
    parts.push(key.slice(at + 1, close));
    at = close + 1;
  }
  if (parts.length > MAX_KEY_DEPTH) throw badParameters('a parameter nests too deeply');
  if (parts.includes('__proto__')) return;
  insertParts(target, parts, value, key);
};

const insertParts = (target: Parameters, parts: readonly string[], value: unknown, key: string): void => {
  const [name = '', next, ...rest] = parts;
  if (next === undefined) {
    assign(target, name, value, key);
    return;
  }
  if (next !== '') {
    insertParts(childHash(target, name, key), [next, ...rest], value, key);
    return;
  }
  const list = childList(target, name, key);
  if (rest.length === 0) {
    list.push(value);
    return;
  }
  // Starts a new element when the last one already has this key.
  const last: unknown = list.at(-1);
  if (isHash(last) && !has(last, rest)) {
    insertParts(last, rest, value, key);
    return;
  }
  const element = noParameters();
  list.push(element);
  insertParts(element, rest, value, key);
};

const assign = (target: Parameters, name: string, value: unknown, key: string): void => {
  if (name === '__proto__') return;
  if (name in target) throw badParameters(`${printable(key)} is given more than once`);
  target[name] = value;
};

const childHash = (target: Parameters, name: string, key: string): Parameters => {
  const child = name in target ? target[name] : noParameters();
  if (!isHash(child)) throw badParameters(`${printable(key)} is invalid`);
  target[name] = child;
  return child;
};

const childList = (target: Parameters, name: string, key: string): unknown[] => {
  const child = name in target ? target[name] : [];
  if (!Array.isArray(child)) throw badParameters(`${printable(key)} is invalid`);
  target[name] = child;
  return child;
};

const has = (hash: Parameters, path: readonly string[]): boolean => {
  const [name = '', next, ...rest] = path;
  if (!(name in hash)) return false;
  const child = hash[name];
  if (next === undefined) return true;
  return isHash(child) && next !== '' ? has(child, [next, ...rest]) : false;
};

const isHash = (value: unknown): value is Parameters =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const cleanJson = (value: unknown, depth: number): unknown => {
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MAX_JSON_DEPTH) throw badParameters('body nests too deeply');
  if (Array.isArray(value)) return value.map((item) => cleanJson(item, depth + 1));
  const clean = noParameters();
  for (const [key, item] of entriesOf(value)) if (key !== '__proto__') clean[key] = cleanJson(item, depth + 1);
  return clean;
};

/** Limits objects to as many members as forms, because objects with tens of thousands of names are slow to build. */
const entriesOf = (value: object): [string, unknown][] => {
  const entries = Object.entries(value);
  if (entries.length > MAX_PAIRS) throw badParameters('too many parameters');
  return entries;
};

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text.includes('+') ? text.replaceAll('+', ' ') : text);
  } catch {
    throw badParameters('the parameters are not properly URL-encoded');
  }
};

/** Makes a client's parameter name short and plain enough for an error message. */
const printable = (key: string): string => key.slice(0, 100).replace(/[^\x20-\x7e]/g, '?');
