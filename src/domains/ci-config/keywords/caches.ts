import { type Cache, RESULT_WHEN } from '../model.ts';
import { isList, isMapping, type Mapping, type Value } from '../values.ts';
import { type KeyPath, readBoolean, readHash, readOneOf, readText, readTexts } from './key-path.ts';

const MAX_CACHES = 4;
const MAX_FALLBACK_KEYS = 5;
const MAX_KEY_FILES = 2;
const KEYS = ['key', 'paths', 'untracked', 'policy', 'when', 'unprotect', 'fallback_keys'];
const POLICIES = ['pull-push', 'push', 'pull'];
const VARIABLE = /^\$\w{1,255}$/;

/** Reads `cache`: a hash, or a list of up to four. */
export const readCaches = (value: Value | undefined, at: KeyPath): readonly Cache[] | null => {
  if (value === undefined || value === null) return null;
  if (isList(value) && value.length > MAX_CACHES) {
    return at.fail(`no more than ${MAX_CACHES} caches can be created`, 'config');
  }
  return (isList(value) ? value : [value]).flatMap((each) => {
    const cache = isMapping(each)
      ? readCache(each, isList(value) ? at.in('cache') : at)
      : at.fail('should be a hash or an array');
    return cache ? [cache] : [];
  });
};

const readCache = (value: Mapping, at: KeyPath): Cache | null => {
  const hash = readHash(value, at, KEYS);
  // An empty hash turns the caches of `default` off.
  if (!hash || hash.size === 0) return null;
  const fallback_keys = readTexts(hash, 'fallback_keys', at) ?? [];
  if (fallback_keys.length > MAX_FALLBACK_KEYS) {
    at.fail(`is too long (maximum is ${MAX_FALLBACK_KEYS} items)`, 'fallback keys');
  }
  return {
    key: readKey(hash.get('key') ?? null, at.in('key')),
    paths: readTexts(hash, 'paths', at) ?? [],
    untracked: readBoolean(hash, 'untracked', at) ?? false,
    policy: readPolicy(hash.get('policy') ?? 'pull-push', at),
    when: readOneOf(hash, 'when', RESULT_WHEN, at) ?? 'on_success',
    unprotect: readBoolean(hash, 'unprotect', at) ?? false,
    fallback_keys,
  };
};

const readPolicy = (value: Value, at: KeyPath): string => {
  if (typeof value === 'string' && (POLICIES.includes(value) || VARIABLE.test(value))) return value;
  at.fail(`should be a variable or one of: ${POLICIES.join(', ')}`, 'policy');
  return 'pull-push';
};

const readKey = (value: Value, at: KeyPath): Cache['key'] => {
  if (value === null) return 'default';
  if (!isMapping(value)) {
    const text = typeof value === 'string' || typeof value === 'number' ? String(value) : '';
    if (text === '') at.fail('should be a hash, a string or a symbol');
    else if (/\//.test(decoded(text))) at.fail('cannot contain the "/" character');
    else if (/^\.{1,2}$/.test(decoded(text))) at.fail('cannot be "." or ".."');
    return text;
  }
  const hash = readHash(value, at, ['files', 'files_commits', 'prefix']);
  if (!hash) return 'default';
  if (hash.has('files_commits')) at.refuse('files_commits');
  const files = readTexts(hash, 'files', at);
  if (!files || files.length === 0 || files.length > MAX_KEY_FILES) {
    at.in('files').fail(
      files && files.length > 0 ? `has too many items (maximum is ${MAX_KEY_FILES})` : "can't be blank",
    );
  }
  return { files: files ?? [], prefix: readText(hash, 'prefix', at) };
};

const decoded = (text: string): string => text.replaceAll(/%2f/gi, '/').replaceAll(/%2e/gi, '.');
