import { ConfigError } from './config-error.ts';
import type { Rule } from './definition.ts';
import { KeyPath } from './keywords/key-path.ts';
import { readRules } from './keywords/rules.ts';
import { INCLUDE_KINDS, type IncludeKind } from './model.ts';
import { isList, isMapping, type Mapping, toJson, type Value } from './values.ts';

/** One entry of `include`, with the place it names. */
export interface IncludeEntry {
  readonly target: IncludeTarget;
  readonly rules: readonly Rule[] | null;
  readonly inputs: Readonly<Record<string, unknown>>;
}

export type IncludeTarget =
  | { readonly kind: 'local'; readonly path: string }
  | { readonly kind: 'file'; readonly project: string; readonly ref: string | null; readonly paths: readonly string[] }
  | { readonly kind: 'remote'; readonly url: string; readonly integrity: string | null }
  | { readonly kind: 'component'; readonly address: string }
  | { readonly kind: 'template'; readonly name: string }
  /** A file that a job of the parent pipeline made. */
  | { readonly kind: 'artifact'; readonly path: string; readonly job: string };

const KEYS: Readonly<Record<IncludeKind, readonly string[]>> = {
  local: ['local'],
  file: ['project', 'file', 'ref'],
  remote: ['remote', 'integrity'],
  component: ['component'],
  template: ['template'],
  artifact: ['artifact', 'job'],
};
const URL_START = /^https?:\/\//i;

/** Reads `include`: a text, a hash, or a list of them. @throws ConfigError */
export const readIncludes = (value: Value | undefined): IncludeEntry[] => {
  if (value === undefined || value === null) return [];
  return (isList(value) ? value.flat() : [value]).map(readEntry);
};

const readEntry = (value: Value): IncludeEntry => {
  if (typeof value === 'string') {
    const target = URL_START.test(value)
      ? ({ kind: 'remote', url: value, integrity: null } as const)
      : ({ kind: 'local', path: value } as const);
    return { target, rules: null, inputs: {} };
  }
  if (!isMapping(value)) throw new ConfigError('include config should be a hash or a string');
  const kinds = INCLUDE_KINDS.filter((kind) => value.has(kind));
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1) {
    throw new ConfigError(
      `Each include must use only one of: ${INCLUDE_KINDS.map((each) => `\`${each}\``).join(', ')}`,
    );
  }
  const allowed = [...KEYS[kind], 'rules', 'inputs'];
  const unknown = [...value.keys()].filter((key) => !allowed.includes(key));
  if (unknown.length > 0) throw new ConfigError(`include config contains unknown keys: ${unknown.join(', ')}`);
  return { target: readTarget(kind, value), rules: readIncludeRules(value), inputs: readGivenInputs(value) };
};

const readTarget = (kind: IncludeKind, value: Mapping): IncludeTarget => {
  switch (kind) {
    case 'local':
      return { kind, path: textOf(value, 'local') };
    case 'remote':
      return {
        kind,
        url: textOf(value, 'remote'),
        integrity: value.has('integrity') ? textOf(value, 'integrity') : null,
      };
    case 'component':
      return { kind, address: textOf(value, 'component') };
    case 'template':
      return { kind, name: textOf(value, 'template') };
    case 'artifact':
      if (!value.has('job')) throw new ConfigError('Job must be provided when including configs from artifacts');
      return { kind, path: textOf(value, 'artifact'), job: textOf(value, 'job') };
    default:
      return {
        kind: 'file',
        project: textOf(value, 'project'),
        ref: (value.get('ref') ?? null) === null ? null : textOf(value, 'ref'),
        paths: pathsOf(value.get('file') ?? null),
      };
  }
};

const textOf = (value: Mapping, key: string): string => {
  const text = value.get(key);
  if (typeof text !== 'string' || text === '') throw new ConfigError(`include ${key} should be a string`);
  return text;
};

const pathsOf = (value: Value): readonly string[] => {
  const list = isList(value) ? value : [value];
  const paths = list.flatMap((each) => (typeof each === 'string' && each !== '' ? [each] : []));
  if (paths.length !== list.length || paths.length === 0) {
    throw new ConfigError('include file should be an array of strings or a string');
  }
  return paths;
};

const readIncludeRules = (value: Mapping): readonly Rule[] | null => {
  const errors: string[] = [];
  const rules = readRules(value.get('rules'), new KeyPath(errors, 'include:rules'), 'include');
  if (errors[0] !== undefined) throw new ConfigError(errors[0]);
  return rules;
};

const readGivenInputs = (value: Mapping): Readonly<Record<string, unknown>> => {
  const inputs = value.get('inputs') ?? null;
  if (inputs === null) return {};
  if (!isMapping(inputs)) throw new ConfigError('include inputs should be a hash');
  return Object.fromEntries([...inputs].map(([key, each]) => [key, toJson(each)]));
};
