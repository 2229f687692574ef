import { GitError } from './git-error.ts';

const MAX_BYTES = 255;
/** Each part is a file name, and git locks that file with one whose name is `.lock` longer. */
const MAX_PART_BYTES = MAX_BYTES - '.lock'.length;

// The rules of git-check-ref-format: no control characters, space or ~^:?*[\ anywhere.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must find them
const FORBIDDEN = /[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)/;
const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i;
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Returns true if a branch or tag may have this name (without `refs/heads/` or `refs/tags/`). git must allow the name.
 * In addition it must not look like an option, an object id, `HEAD` or a full ref. It has at most 255 bytes, and each
 * part leaves room for `.lock` in a file name.
 */
export const validRefName = (name: string): boolean =>
  wellFormed(name) &&
  Buffer.byteLength(name) <= MAX_BYTES &&
  name.split('/').every((part) => Buffer.byteLength(part) <= MAX_PART_BYTES) &&
  !name.startsWith('-') &&
  !name.startsWith('refs/') &&
  name !== 'HEAD' &&
  name !== '@' &&
  !OBJECT_ID.test(name);

/** Returns true if the hub may write this full ref: a valid branch or tag, or one of the hub's own refs. */
export const validFullRef = (ref: string): boolean => {
  const short = shortName(ref);
  if (short !== null) return validRefName(short);
  return /^refs\/(?:merge-requests|keep-around|pipelines)\/[A-Za-z0-9][A-Za-z0-9/_-]*$/.test(ref) && wellFormed(ref);
};

/** Returns the branch or tag name of a full ref, or null for other refs. */
export const shortName = (ref: string): string | null => {
  if (ref.startsWith('refs/heads/')) return ref.slice('refs/heads/'.length);
  if (ref.startsWith('refs/tags/')) return ref.slice('refs/tags/'.length);
  return null;
};

/** The id that git, clients and webhook bodies give for an object that does not exist. */
export const ZERO_OID = '0'.repeat(40);

/** Returns true for a full object id in git's notation. */
export const validOid = (text: string): boolean => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);

/** @throws GitError `invalid` if one of them is not a full object id */
export const requireOids = (oids: readonly string[]): void => {
  if (!oids.every(validOid)) throw new GitError('invalid', 'The object id is not valid');
};

const MAX_PATH_BYTES = 4_096;

/** Returns true if git can look up this path in a tree: plain segments that do not lead out of it. */
export const isTreePath = (path: string): boolean =>
  path !== '' &&
  !path.includes('\0') &&
  Buffer.byteLength(path) <= MAX_PATH_BYTES &&
  path.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..');

const wellFormed = (name: string): boolean =>
  name !== '' &&
  !FORBIDDEN.test(name) &&
  !LONE_SURROGATE.test(name) &&
  !name.startsWith('/') &&
  !name.endsWith('/') &&
  !name.startsWith('.') &&
  !name.endsWith('.');
