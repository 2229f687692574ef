import { parseArgs } from 'node:util';

/** The options beside the names of benches. */
export interface Options {
  /** Directories of databases that `bench:fill` has filled. */
  readonly small: string | undefined;
  readonly large: string | undefined;
  /** Part of the names of the lists to measure. */
  readonly only: string | undefined;
  readonly plans: boolean;
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
    },
  });
  return {
    names: positionals,
    options: { small: values.small, large: values.large, only: values.only, plans: values.plans },
  };
};
