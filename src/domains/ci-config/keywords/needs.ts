import type { CrossNeed, Need } from '../model.ts';
import { isList, isMapping, type Mapping, type Value } from '../values.ts';
import { type KeyPath, readBoolean, readHash, readText } from './key-path.ts';
import { type MatrixEntry, readMatrix, variantName } from './parallel.ts';

const MAX_CROSS_NEEDS = 5;

export interface Needs {
  readonly jobs: readonly Need[];
  readonly cross: readonly CrossNeed[];
}

/** Reads `needs`: names, and hashes for jobs here, in other pipelines and in other projects. */
export const readNeeds = (value: Value | undefined, at: KeyPath): Needs | null => {
  if (value === undefined || value === null) return null;
  const list = isList(value) ? flattened(value) : isMapping(value) || typeof value === 'string' ? [value] : null;
  if (!list) return at.fail('can only be a hash or an array');
  const jobs = new Map<string, Need>();
  const cross: CrossNeed[] = [];
  for (const each of list) {
    if (typeof each === 'string') jobs.set(each, { name: each, artifacts: true, optional: false });
    else if (!isMapping(each)) at.in('need').fail('has an unsupported type', 'config');
    else if (each.has('project') || each.has('pipeline')) {
      const need = readCrossNeed(each, at.in('need'));
      if (need) cross.push(need);
    } else for (const need of readLocalNeed(each, at.in('need'))) jobs.set(need.name, need);
  }
  if (cross.length > MAX_CROSS_NEEDS) at.fail(`must be less than or equal to ${MAX_CROSS_NEEDS} cross pipeline needs`);
  return { jobs: [...jobs.values()], cross };
};

/** `!reference` puts lists into the list. */
const flattened = (values: readonly Value[]): Value[] => values.flatMap((each) => (isList(each) ? each : [each]));

const readLocalNeed = (value: Mapping, at: KeyPath): readonly Need[] => {
  const hash = readHash(value, at, ['job', 'artifacts', 'optional', 'parallel']);
  if (!hash) return [];
  const name = readText(hash, 'job', at);
  if (name === null) {
    if (!hash.get('job')) at.fail("can't be blank", 'job');
    return [];
  }
  const rest = {
    artifacts: readBoolean(hash, 'artifacts', at) ?? true,
    optional: readBoolean(hash, 'optional', at) ?? false,
  };
  const variants = readVariants(hash.get('parallel') ?? null, at.in('parallel'));
  return variants ? variants.map((variant) => ({ name: variantName(name, variant), ...rest })) : [{ name, ...rest }];
};

const readVariants = (value: Value, at: KeyPath): readonly MatrixEntry[] | null => {
  if (value === null) return null;
  const hash = readHash(value, at, ['matrix']);
  return hash && readMatrix(hash.get('matrix') ?? null, at.in('matrix'));
};

const readCrossNeed = (value: Mapping, at: KeyPath): CrossNeed | null => {
  const isProject = value.has('project');
  const hash = readHash(
    value,
    at,
    isProject ? ['project', 'ref', 'job', 'artifacts'] : ['pipeline', 'job', 'artifacts'],
  );
  if (!hash) return null;
  for (const key of isProject ? ['project', 'ref', 'job'] : ['pipeline', 'job']) {
    if ((readText(hash, key, at) ?? '') === '') return at.fail("can't be blank", key);
  }
  return {
    project: readText(hash, 'project', at),
    ref: readText(hash, 'ref', at),
    pipeline: readText(hash, 'pipeline', at),
    job: readText(hash, 'job', at) ?? '',
    artifacts: readBoolean(hash, 'artifacts', at) ?? true,
  };
};
