import { tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { ENVIRONMENT_ACTIONS, type JobEnvironment, TIERS } from '../model.ts';
import { isMapping, readSeconds, type Value } from '../values.ts';
import { type KeyPath, readHash, readOneOf, readText } from './key-path.ts';

const KEYS = ['name', 'url', 'on_stop', 'action', 'auto_stop_in', 'kubernetes', 'deployment_tier'];
/** Letters, digits, spaces, `-_/$.{}` and what variables may add. */
const NAME = /^[\w${}()./ -]+$/;

/** Reads `environment`: a name, or a hash. */
export const readEnvironment = (value: Value | undefined, at: KeyPath): JobEnvironment | null => {
  if (value === undefined || value === null) return null;
  const hash = isMapping(value)
    ? readHash(value, at, KEYS)
    : typeof value === 'string'
      ? new Map([['name', value]])
      : at.fail('should be a hash or a string');
  if (!hash) return null;
  if (hash.get('kubernetes')) at.refuse('kubernetes');
  const name = readText(hash, 'name', at) ?? '';
  if (name === '') return at.fail("can't be blank", 'name');
  if (isLongerThan(name, 255)) at.fail(tooLong(255), 'name');
  if (!NAME.test(name)) {
    at.fail(
      "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', and spaces, but it cannot start or end with '/'",
      'name',
    );
  }
  return {
    name,
    url: readText(hash, 'url', at),
    on_stop: readText(hash, 'on_stop', at),
    action: readOneOf(hash, 'action', ENVIRONMENT_ACTIONS, at) ?? 'start',
    auto_stop_in: readStop(hash.get('auto_stop_in') ?? null, at),
    deployment_tier: readOneOf(hash, 'deployment_tier', TIERS, at),
  };
};

const readStop = (value: Value, at: KeyPath): number | null => {
  if (value === null || value === 'never') return null;
  const seconds = readSeconds(value);
  return seconds ?? at.fail('should be a duration', 'auto stop in');
};
