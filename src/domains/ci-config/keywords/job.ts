import { tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import type { JobDefinition } from '../definition.ts';
import type { CompiledJob, RunWhen } from '../model.ts';
import { EMPTY_JOB, RUN_WHEN } from '../model.ts';
import { compileRegex, regexSource } from '../regular-expressions.ts';
import { isList, isMapping, type Mapping, readSeconds, type Value } from '../values.ts';
import { readArtifacts } from './artifacts.ts';
import { readCaches } from './caches.ts';
import { type Inheritance, readInheritance, withDefaults } from './defaults.ts';
import { readEnvironment } from './environment.ts';
import { readImage, readServices } from './images.ts';
import {
  type KeyPath,
  readBoolean,
  readHash,
  readOneOf,
  readText,
  readTextOrTexts,
  readTexts,
  textsOf,
} from './key-path.ts';
import { readNeeds } from './needs.ts';
import { type Parallel, readParallel } from './parallel.ts';
import { readPolicy } from './policies.ts';
import { readRelease } from './release.ts';
import { readRetry } from './retry.ts';
import { readAllowedCodes, readRules, readStartIn } from './rules.ts';
import { readScript } from './scripts.ts';
import { readTrigger } from './trigger.ts';
import { readVariables } from './variables.ts';

const MONTH = 2_592_000;
const MAX_TAGS = 50;
const MAX_NAME = 255;

const COMMON_KEYS = [
  'extends',
  'stage',
  'only',
  'except',
  'rules',
  'variables',
  'inherit',
  'allow_failure',
  'when',
  'needs',
  'resource_group',
  'environment',
  'interruptible',
  'parallel',
  'start_in',
];
const BUILD_KEYS = [
  ...COMMON_KEYS,
  'tags',
  'script',
  'image',
  'services',
  'artifacts',
  'cache',
  'dependencies',
  'before_script',
  'after_script',
  'hooks',
  'coverage',
  'retry',
  'timeout',
  'release',
  'id_tokens',
];
const BRIDGE_KEYS = [...COMMON_KEYS, 'trigger'];
/** Keywords of the reference that this product does not have. */
const REFUSED_KEYS = [
  'secrets',
  'identity',
  'publish',
  'pages',
  'run',
  'manual_confirmation',
  'dast_configuration',
  'trigger_job',
];

export interface ReadJob {
  readonly definition: JobDefinition;
  readonly parallel: Parallel | null;
}

/** Reads a visible job. Null if it cannot be used at all. */
export const readJob = (name: string, value: Value, defaults: Mapping, jobs: KeyPath): ReadJob | null => {
  const isBridge = isMapping(value) && (value.get('trigger') ?? null) !== null;
  if (!isMapping(value) || !(isBridge || value.has('script') || value.has('run') || value.has('release'))) {
    return jobs.fail('should implement the script:, run:, or trigger: keyword', `${name} config`);
  }
  const at = jobs.in(name);
  if (isLongerThan(name, MAX_NAME)) at.fail(tooLong(MAX_NAME), 'name');
  if (isBridge && value.has('script')) at.fail('these keys cannot be used together: script, trigger');
  const allowed = isBridge ? BRIDGE_KEYS : BUILD_KEYS;
  for (const key of REFUSED_KEYS) if (value.has(key)) at.refuse(key);
  readHash(value, at, [...allowed, ...REFUSED_KEYS, 'script']);
  const inherit = readInheritance(value.get('inherit'), at.in('inherit'));
  const hash = isBridge
    ? withDefaults(value, onlyInterruptible(defaults), inherit.default)
    : withDefaults(value, defaults, inherit.default);
  const common = readCommon(name, hash, at, inherit);
  const before_script = readScript(hash, 'before_script', at) ?? [];
  const build = isBridge ? null : readBuild(hash, before_script, at);
  const definition: JobDefinition = {
    ...common,
    before_lines: before_script.length,
    job: {
      ...common.job,
      ...build,
      kind: isBridge ? 'bridge' : 'build',
      trigger: readTrigger(hash.get('trigger'), at.in('trigger')),
    },
  };
  checkNeeds(definition.job, at);
  return { definition, parallel: readParallel(hash.get('parallel'), at.in('parallel')) };
};

const onlyInterruptible = (defaults: Mapping): Mapping =>
  new Map([...defaults].filter(([key]) => key === 'interruptible'));

/** The keywords that builds and bridges share. */
const readCommon = (name: string, hash: Mapping, at: KeyPath, inherit: Inheritance): JobDefinition => {
  const rules = readRules(hash.get('rules'), at.in('rules'), 'job');
  if (rules) checkBesideRules(hash, at);
  const when: RunWhen = readOneOf(hash, 'when', RUN_WHEN, at) ?? 'on_success';
  const start_in = hash.get('start_in') ?? null;
  const allow_failure = hash.get('allow_failure') ?? null;
  const codes = readAllowedCodes(allow_failure, at);
  if (allow_failure !== null && !isMapping(allow_failure) && typeof allow_failure !== 'boolean') {
    at.fail('should be a hash or a boolean value', 'allow failure');
  }
  const needs = hash.has('needs') ? readNeeds(hash.get('needs'), at.in('needs')) : null;
  return {
    base_name: name,
    rules,
    only: readPolicy(hash.get('only'), at.in('only')),
    except: readPolicy(hash.get('except'), at.in('except')),
    root_variables: inherit.variables,
    says_allow_failure: allow_failure !== null,
    before_lines: 0,
    job: {
      ...EMPTY_JOB,
      name,
      stage: readText(hash, 'stage', at) ?? 'test',
      when,
      start_in: rules ? null : readStartIn(start_in, when === 'delayed', at),
      allow_failure: allow_failure === true || (allow_failure === null && when === 'manual'),
      allow_failure_exit_codes: codes ?? [],
      needs: needs?.jobs ?? null,
      cross_needs: needs?.cross ?? [],
      variables: readVariables(hash.get('variables'), at.in('variables'), 'job'),
      interruptible: readBoolean(hash, 'interruptible', at) ?? false,
      resource_group: readText(hash, 'resource_group', at),
      environment: readEnvironment(hash.get('environment'), at.in('environment')),
    },
  };
};

const checkBesideRules = (hash: Mapping, at: KeyPath): void => {
  const present = ['only', 'except', 'start_in'].filter((key) => (hash.get(key) ?? null) !== null);
  if (present.length > 0) at.fail(`key may not be used with \`rules\`: ${present.join(', ')}`);
};

/** The keywords that only jobs on runners have. */
const readBuild = (hash: Mapping, before: readonly string[], at: KeyPath): Partial<CompiledJob> => {
  const script = readScript(hash, 'script', at);
  if (script === null ? !hash.has('release') && !hash.has('run') : script.length === 0)
    at.fail("can't be blank", 'script');
  const tags = readTexts(hash, 'tags', at.in('tags')) ?? [];
  if (tags.length >= MAX_TAGS) at.in('tags').fail(`must be less than the limit of ${MAX_TAGS} tags`);
  return {
    script: [...before, ...(script ?? [])],
    after_script: readScript(hash, 'after_script', at) ?? [],
    image: readImage(hash.get('image'), at.in('image')),
    services: readServices(hash.get('services'), at.in('services')) ?? [],
    dependencies: readTexts(hash, 'dependencies', at),
    tags,
    timeout: readTimeout(hash.get('timeout') ?? null, at.in('timeout')),
    retry: readRetry(hash.get('retry'), at.in('retry')) ?? EMPTY_JOB.retry,
    release: readRelease(hash.get('release'), at.in('release')),
    coverage: readCoverage(hash.get('coverage') ?? null, at.in('coverage')),
    artifacts: readArtifacts(hash.get('artifacts'), at.in('artifacts')),
    caches: readCaches(hash.get('cache'), at.in('cache')) ?? [],
    id_tokens: readIdTokens(hash.get('id_tokens') ?? null, at.in('id_tokens')),
    hooks: readHooks(hash.get('hooks') ?? null, at.in('hooks')),
  };
};

const readTimeout = (value: Value, at: KeyPath): number | null => {
  if (value === null) return null;
  const seconds = readSeconds(value);
  if (seconds === null || seconds === 0) return at.fail('should be a duration');
  return seconds > MONTH ? at.fail('should not exceed the limit') : seconds;
};

const readCoverage = (value: Value, at: KeyPath): string | null => {
  if (value === null) return null;
  const source = typeof value === 'string' && compileRegex(value) ? regexSource(value) : null;
  return source ?? at.fail('must be a regular expression with re2 syntax');
};

const readIdTokens = (value: Value, at: KeyPath): CompiledJob['id_tokens'] => {
  const hash = value === null ? null : readHash(value, at);
  const tokens: [string, { aud: readonly string[] }][] = [];
  for (const [name, given] of hash ?? []) {
    const token = readHash(given, at.in(name), ['aud']);
    const aud = token && readTextOrTexts(token, 'aud', at.in(name));
    if (token && !token.has('aud')) at.in(name).fail('missing required keys: aud');
    if (aud) tokens.push([name, { aud }]);
  }
  return Object.fromEntries(tokens);
};

const readHooks = (value: Value, at: KeyPath): CompiledJob['hooks'] => {
  const hash = value === null ? null : readHash(value, at, ['pre_get_sources_script']);
  return { pre_get_sources_script: (hash && readScript(hash, 'pre_get_sources_script', at)) ?? [] };
};

const checkNeeds = ({ needs, dependencies }: CompiledJob, at: KeyPath): void => {
  if (!needs || needs.length === 0 || !dependencies) return;
  const missing = dependencies.filter((each) => !needs.some(({ name }) => name === each));
  if (missing.length > 0) at.fail(`the ${missing.join(', ')} should be part of needs`, 'dependencies');
};

/** Reads `stages`. Returns null if absent. */
export const readStages = (value: Value | undefined, at: KeyPath): readonly string[] | null => {
  if (value === undefined || value === null) return null;
  return (isList(value) ? textsOf(value.flat()) : null) ?? at.fail('should be an array of strings');
};
