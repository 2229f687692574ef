import { parseArgs } from 'node:util';

/** The options beside the names of benches. */
export interface Options {
  /** Directories of databases that `bench:fill` has filled. */
  readonly small: string | undefined;
  readonly large: string | undefined;
  /** Part of the names of the lists to measure, or the part of `merge-requests`, `ci` or `hooks`. */
  readonly only: string | undefined;
  readonly plans: boolean;
  /** Merge requests in the larger database. */
  readonly many: number;
  /** Artifacts that `ci` cleans up. */
  readonly expired: number;
  /** Projects in the database of `scale`. */
  readonly projects: number;
}

export const readOptions = (args: readonly string[]): { names: string[]; options: Options } => {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      small: { type: 'string' },
      large: { type: 'string' },
      only: { type: 'string' },
      plans: { type: 'boolean', default: false },
      many: { type: 'string', default: '1000000' },
      expired: { type: 'string', default: '20000' },
      projects: { type: 'string', default: '1000000' },
    },
  });
  return {
    names: positionals,
    options: {
      small: values.small,
      large: values.large,
      only: values.only,
      plans: values.plans,
      many: Number(values.many),
      expired: Number(values.expired),
      projects: Number(values.projects),
    },
  };
};
