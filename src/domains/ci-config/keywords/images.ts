import type { Image, Service } from '../model.ts';
import { isList, isMapping, type Mapping, toJson, type Value } from '../values.ts';
import { type KeyPath, readHash, readText, readTextOrTexts, readTexts } from './key-path.ts';
import { readVariables } from './variables.ts';

const IMAGE_KEYS = ['name', 'entrypoint', 'docker', 'kubernetes', 'pull_policy'];
const SERVICE_KEYS = [...IMAGE_KEYS, 'alias', 'command', 'variables'];
const PULL_POLICIES = ['always', 'if-not-present', 'never'];

/** Reads `image`: a name, or a hash with options. */
export const readImage = (value: Value | undefined, at: KeyPath): Image | null => {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return value === '' ? at.fail("can't be blank") : plainImage(value);
  if (!isMapping(value)) return at.fail('should be a hash or a string');
  const hash = readHash(value, at, IMAGE_KEYS);
  return hash && readOptions(hash, at);
};

const plainImage = (name: string): Image => ({ name, entrypoint: null, pull_policy: null, executor_opts: {} });

const readOptions = (hash: Mapping, at: KeyPath): Image | null => {
  const name = hash.get('name');
  if (typeof name !== 'string' || name === '') return at.fail('should be a string', 'name');
  const pull_policy = readTextOrTexts(hash, 'pull_policy', at);
  const unknown = pull_policy?.find((each) => !PULL_POLICIES.includes(each));
  if (unknown !== undefined) at.in('pull_policy').fail(`should be one of: ${PULL_POLICIES.join(', ')}`);
  const executor_opts: Record<string, unknown> = {};
  for (const executor of ['docker', 'kubernetes']) {
    const options = hash.get(executor) ?? null;
    if (options === null) continue;
    const allowed = executor === 'docker' ? ['platform', 'user'] : ['user'];
    const read = readHash(options, at.in(executor), allowed);
    if (read) executor_opts[executor] = toJson(read);
  }
  return { name, entrypoint: readTexts(hash, 'entrypoint', at), pull_policy, executor_opts };
};

/** Reads `services`: a list of names and hashes. */
export const readServices = (value: Value | undefined, at: KeyPath): readonly Service[] | null => {
  if (value === undefined || value === null) return null;
  if (!isList(value)) return at.fail('should be a array');
  return value.flatMap((each) => {
    const service = readService(each, at.in('service'));
    return service ? [service] : [];
  });
};

const readService = (value: Value, at: KeyPath): Service | null => {
  if (typeof value === 'string') return { ...plainImage(value), alias: null, command: null, variables: [] };
  if (!isMapping(value)) return at.fail('should be a hash or a string');
  const hash = readHash(value, at, SERVICE_KEYS);
  const image = hash && readOptions(hash, at);
  if (!hash || !image) return null;
  return {
    ...image,
    alias: readText(hash, 'alias', at),
    command: readTexts(hash, 'command', at),
    variables: readVariables(hash.get('variables'), at.in('variables'), 'job'),
  };
};
