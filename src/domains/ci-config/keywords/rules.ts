import type { AutoCancel, ChangesClause, ExistsClause, Rule, RuleWhen } from '../definition.ts';
import { parseExpression } from '../expressions.ts';
import { ON_NEW_COMMIT } from '../model.ts';
import { isList, isMapping, type Mapping, readSeconds, type Value } from '../values.ts';
import { type KeyPath, readBoolean, readHash, readOneOf, readText, textsOf } from './key-path.ts';
import { readNeeds } from './needs.ts';
import { readExitCodes } from './retry.ts';
import { readVariables } from './variables.ts';

const MAX_NESTING = 10;
const MAX_PATTERNS = 50;
const WEEK = 604_800;

const JOB_KEYS = [
  'if',
  'changes',
  'exists',
  'when',
  'start_in',
  'allow_failure',
  'variables',
  'needs',
  'interruptible',
];
const WORKFLOW_KEYS = ['if', 'changes', 'exists', 'when', 'variables', 'auto_cancel'];
const INCLUDE_KEYS = ['if', 'changes', 'exists', 'when'];
const WHEN: Readonly<Record<RuleKind, readonly RuleWhen[]>> = {
  job: ['on_success', 'on_failure', 'always', 'never', 'manual', 'delayed'],
  workflow: ['always', 'never'],
  include: ['always', 'never'],
};
const KEYS: Readonly<Record<RuleKind, readonly string[]>> = {
  job: JOB_KEYS,
  workflow: WORKFLOW_KEYS,
  include: INCLUDE_KEYS,
};

export type RuleKind = 'job' | 'workflow' | 'include';

/** Reads `rules`: hashes, and lists of hashes that `!reference` put there. Null if absent. */
export const readRules = (value: Value | undefined, at: KeyPath, kind: RuleKind): readonly Rule[] | null => {
  if (value === undefined || value === null) return null;
  const hashes: Mapping[] = [];
  if (!isList(value) || !value.every((each) => collect(each, hashes, 0))) {
    return at.fail('should be an array containing hashes and arrays of hashes');
  }
  return hashes.flatMap((hash) => {
    const rule = readRule(hash, at.in('rule'), kind);
    return rule ? [rule] : [];
  });
};

const collect = (value: Value, into: Mapping[], level: number): boolean => {
  if (isMapping(value)) {
    into.push(value);
    return true;
  }
  return isList(value) && level < MAX_NESTING && value.every((each) => collect(each, into, level + 1));
};

const readRule = (value: Mapping, at: KeyPath, kind: RuleKind): Rule | null => {
  if (value.size === 0) return at.fail("can't be blank");
  const hash = readHash(value, at, KEYS[kind]);
  if (!hash) return null;
  const if_text = readText(hash, 'if', at);
  const condition = if_text === null ? null : parseExpression(if_text);
  if (if_text !== null && !condition) at.fail('invalid expression syntax', 'if');
  const when = readOneOf(hash, 'when', WHEN[kind], at);
  const exit_codes = hash.get('allow_failure');
  const needs = hash.has('needs') ? readNeeds(hash.get('needs'), at.in('needs')) : null;
  if (needs && needs.cross.length > 0) at.in('needs').fail('can only name jobs of the same pipeline');
  return {
    if: condition,
    if_text,
    changes: readChanges(hash.get('changes') ?? null, at.in('changes')),
    exists: readExists(hash.get('exists') ?? null, at.in('exists')),
    when,
    start_in: readStartIn(hash.get('start_in') ?? null, when === 'delayed', at),
    allow_failure: isMapping(exit_codes ?? null) ? false : readBoolean(hash, 'allow_failure', at),
    allow_failure_exit_codes: readAllowedCodes(exit_codes ?? null, at),
    variables: readVariables(hash.get('variables'), at.in('variables'), 'job'),
    needs: needs?.jobs ?? null,
    interruptible: readBoolean(hash, 'interruptible', at),
    auto_cancel: hash.has('auto_cancel') ? readAutoCancel(hash.get('auto_cancel'), at.in('auto_cancel')) : null,
  };
};

/** Reads `{exit_codes: ...}`. Null for anything else. */
export const readAllowedCodes = (value: Value, at: KeyPath): readonly number[] | null => {
  if (!isMapping(value)) return null;
  const hash = readHash(value, at.in('allow_failure'), ['exit_codes']);
  return hash && readExitCodes(hash.get('exit_codes') ?? null, at.in('allow_failure'));
};

/** Reads the wait of a delayed job, up to a week. */
export const readStartIn = (value: Value, isDelayed: boolean, at: KeyPath): number | null => {
  if (value === null) return isDelayed ? at.fail('should be a duration', 'start in') : null;
  if (!isDelayed) return at.fail('must be blank', 'start in');
  const seconds = readSeconds(value);
  if (seconds === null) return at.fail('should be a duration', 'start in');
  return seconds > WEEK ? at.fail('should not exceed the limit', 'start in') : seconds;
};

const readPatterns = (value: Value, at: KeyPath): readonly string[] | null => {
  const paths = typeof value === 'string' ? [value] : isList(value) ? textsOf(value.flat()) : null;
  if (!paths) return at.fail('should be an array of strings');
  return paths.length > MAX_PATTERNS ? at.fail(`has too many entries (maximum ${MAX_PATTERNS})`) : paths;
};

const readChanges = (value: Value, at: KeyPath): ChangesClause | null => {
  if (value === null) return null;
  if (!isMapping(value)) {
    const paths = readPatterns(value, at);
    return paths && { paths, compare_to: null };
  }
  const hash = readHash(value, at, ['paths', 'compare_to']);
  const paths = hash && readPatterns(hash.get('paths') ?? null, at.in('paths'));
  return hash && paths && { paths, compare_to: readText(hash, 'compare_to', at) };
};

const readExists = (value: Value, at: KeyPath): ExistsClause | null => {
  if (value === null) return null;
  if (!isMapping(value)) {
    const paths = readPatterns(value, at);
    return paths && { paths, project: null, ref: null };
  }
  const hash = readHash(value, at, ['paths', 'project', 'ref']);
  const paths = hash && readPatterns(hash.get('paths') ?? null, at.in('paths'));
  if (!hash || !paths) return null;
  const project = readText(hash, 'project', at);
  const ref = readText(hash, 'ref', at);
  if (ref !== null && project === null) at.fail('must specify project along with ref', 'ref');
  return { paths, project, ref };
};

export const readAutoCancel = (value: Value | undefined, at: KeyPath): AutoCancel => {
  const hash = value === undefined || value === null ? null : readHash(value, at, ['on_new_commit', 'on_job_failure']);
  return {
    on_new_commit: hash && readOneOf(hash, 'on_new_commit', ON_NEW_COMMIT, at),
    on_job_failure: hash && readOneOf(hash, 'on_job_failure', ['none', 'all'], at),
  };
};
