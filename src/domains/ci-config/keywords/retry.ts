import type { CompiledJob } from '../model.ts';
import { isList, isMapping, type Value } from '../values.ts';
import { type KeyPath, readHash, readTextOrTexts } from './key-path.ts';

const MAX_RETRIES = 2;
/** The values of `retry:when`: `always`, and the failure reasons of jobs that a retry can help. */
const RETRY_WHEN = [
  'always',
  'unknown_failure',
  'script_failure',
  'api_failure',
  'stuck_or_timeout_failure',
  'runner_system_failure',
  'runner_unsupported',
  'stale_schedule',
  'job_execution_timeout',
  'archived_failure',
  'unmet_prerequisites',
  'scheduler_failure',
  'data_integrity_failure',
];

/** Reads `retry`: 0 to 2, or a hash. Null if the file does not say. */
export const readRetry = (value: Value | undefined, at: KeyPath): CompiledJob['retry'] | null => {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number') return readMax(value, at) ? { max: value, when: ['always'], exit_codes: [] } : null;
  if (!isMapping(value)) return at.fail('has to be either an integer or a hash');
  const hash = readHash(value, at, ['max', 'when', 'exit_codes']);
  if (!hash) return null;
  const max = hash.get('max') ?? MAX_RETRIES;
  if (typeof max !== 'number' || !readMax(max, at, 'max')) return null;
  const exit_codes = readExitCodes(hash.get('exit_codes') ?? null, at);
  const when = readTextOrTexts(hash, 'when', at);
  const unknown = when?.filter((each) => !RETRY_WHEN.includes(each)) ?? [];
  if (unknown.length > 0) at.fail(`contains unknown values: ${unknown.join(', ')}`, 'when');
  return { max, when: when ?? (exit_codes.length > 0 ? [] : ['always']), exit_codes };
};

const readMax = (value: number, at: KeyPath, attribute = 'config'): boolean => {
  if (Number.isInteger(value) && value >= 0 && value <= MAX_RETRIES) return true;
  at.fail(
    value > MAX_RETRIES ? `must be less than or equal to ${MAX_RETRIES}` : 'must be greater than or equal to 0',
    attribute,
  );
  return false;
};

/** Reads an exit code or a list of them. */
export const readExitCodes = (value: Value, at: KeyPath): readonly number[] => {
  if (value === null) return [];
  const list = isList(value) ? value : [value];
  const codes = list.flatMap((each) => (typeof each === 'number' && Number.isInteger(each) ? [each] : []));
  if (codes.length !== list.length) at.fail('should be an array of integers or an integer', 'exit codes');
  return codes;
};
