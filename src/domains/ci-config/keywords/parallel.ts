import { isList, isMapping, isScalar, type Value } from '../values.ts';
import { type KeyPath, readHash } from './key-path.ts';

const MAX_JOBS = 200;

/** The values of one job of a matrix, by variable. */
export type MatrixEntry = ReadonlyMap<string, string>;

/** A number of equal jobs, or a job for each combination of values. */
export type Parallel = number | readonly MatrixEntry[];

/** Reads `parallel`: 1 to 200, or a matrix with at most 200 combinations. */
export const readParallel = (value: Value | undefined, at: KeyPath): Parallel | null => {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number' && Number.isInteger(value)) {
    if (value < 1) return at.fail('must be greater than or equal to 1');
    return value > MAX_JOBS ? at.fail(`must be less than or equal to ${MAX_JOBS}`) : value;
  }
  if (!isMapping(value)) return at.fail('should be a hash or an integer');
  const hash = readHash(value, at, ['matrix']);
  return hash && readMatrix(hash.get('matrix') ?? null, at.in('matrix'));
};

/** Returns the combinations in the order of the file: the last variable changes first. */
export const readMatrix = (value: Value, at: KeyPath): readonly MatrixEntry[] | null => {
  if (!isList(value) || !value.every(isMapping)) return at.fail('should be an array of hashes');
  const entries: MatrixEntry[] = [];
  for (const given of value) {
    let combined: ReadonlyMap<string, string>[] = [new Map()];
    for (const [key, choices] of given) {
      const list = isList(choices) ? choices.flat() : [choices];
      if (list.length === 0 || !list.every((each) => isScalar(each))) {
        return at.fail('should be a hash of key value pairs, value can be an array');
      }
      // Before the combinations are made, because they may be many.
      if (combined.length * list.length > MAX_JOBS) return tooMany(at);
      combined = combined.flatMap((before) => list.map((each) => new Map([...before, [key, String(each)]])));
    }
    if (given.size > 0) entries.push(...combined);
    if (entries.length > MAX_JOBS) return tooMany(at);
  }
  return entries.length === 0 ? at.fail("can't be blank") : entries;
};

const tooMany = (at: KeyPath): null => at.fail(`generates too many jobs (maximum is ${MAX_JOBS})`);

/** Returns the name of a job of a matrix: `test: [a, b]`. */
export const variantName = (name: string, entry: MatrixEntry): string => `${name}: [${[...entry.values()].join(', ')}]`;

/** Returns how many jobs there are of one. */
export const countOf = (parallel: Parallel | null): number =>
  parallel === null ? 1 : typeof parallel === 'number' ? parallel : parallel.length;

export interface Variant {
  readonly name: string;
  readonly variables: MatrixEntry;
  readonly parallel: { readonly index: number; readonly total: number };
}

/** Returns the jobs that `parallel` makes of a job. */
export const variantsOf = (name: string, parallel: Parallel): readonly Variant[] => {
  if (typeof parallel !== 'number') {
    const total = parallel.length;
    return parallel.map((variables, index) => ({
      name: variantName(name, variables),
      variables,
      parallel: { index: index + 1, total },
    }));
  }
  return Array.from({ length: parallel }, (_, index) => ({
    name: `${name} ${index + 1}/${parallel}`,
    variables: new Map(),
    parallel: { index: index + 1, total: parallel },
  }));
};
