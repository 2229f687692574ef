import type { GraphQLError, GraphQLResolveInfo } from 'graphql';
import { limitError } from './limits.ts';

// The cost of a query assumes usual sizes for some lists (cost.ts). Their real size is counted while it runs.

type Variables = GraphQLResolveInfo['variableValues'];

interface Counted {
  readonly limit: number;
  values: number;
  /** One error for all fields of the query, because there may be many. */
  error: GraphQLError | null;
}

const runs = new WeakMap<Variables, Counted>();

/** Begins to count up to the limit for a run. Subscriptions run again with the same variables. */
export const beginCount = (variables: Variables, limit: number): void => {
  runs.set(variables, { limit, values: 0, error: null });
};

/**
 * Counts the rows of a page, each with so many fields.
 *
 * @throws GraphQLError once the pages of the query hold more values than the limit of the run
 */
export const countRows = ({ variableValues }: GraphQLResolveInfo, rows: number, fields: number): void => {
  const run = runs.get(variableValues);
  if (!run) return;
  run.values += rows * (1 + fields);
  if (run.values <= run.limit) return;
  run.error ??= limitError(
    `The answer has more than the limit of ${run.limit} values: ask for smaller pages, or for fewer fields`,
  );
  throw run.error;
};
