import { expect } from 'vitest';
import type { Client, GraphqlAnswer } from './client.ts';

/** The arguments of a list as GraphQL text, and the nodes it then has. */
export type ListCase = readonly [args: string, expected: readonly string[]];

/** Queries with more aliases exceed a limit, and so do more fields at the top level. */
const CASES_PER_QUERY = 25;

/**
 * Expects the connection `list` to have exactly these nodes for each set of arguments. `name` is the field that names a
 * node, such as `title` or `user { username }`. The order only counts if the arguments contain `sort`.
 *
 * @param place the field around the list, such as `project(fullPath: "a/b")`, perhaps with more open fields
 *   or fragments: `user(username: "a") { ... on UserCore`; an empty text for lists at the top level
 */
export const expectLists = async (
  client: Client,
  place: string,
  list: string,
  name: string,
  table: readonly ListCase[],
): Promise<void> => {
  const path = name.match(/\w+/g) ?? [];
  for (let start = 0; start < table.length; start += CASES_PER_QUERY) {
    const cases = table.slice(start, start + CASES_PER_QUERY);
    const fields = cases
      .map(([args], index) => `of${index}: ${list}${args && `(${args})`} { nodes { ${name} } }`)
      .join('\n');
    const open = place.split('{').length - 1;
    const query = place ? `{ at: ${place} { ${fields} } ${'}'.repeat(open)} }` : `{ ${fields} }`;
    const { data, errors } = await client.graphql(query);
    expect([place, list, errors]).toEqual([place, list, undefined]);
    let holder = data;
    while (holder && !('of0' in holder)) holder = Object.values(holder)[0];
    const found = cases.map(([args], index): ListCase => {
      const { nodes } = holder[`of${index}`] ?? { nodes: [] };
      return [
        args,
        ordered(
          args,
          nodes.map((node: unknown) => path.reduce((at, field) => Reflect.get(Object(at), field), node)),
        ),
      ];
    });
    expect([place, list, found]).toEqual([
      place,
      list,
      cases.map(([args, expected]) => [args, ordered(args, expected)]),
    ]);
  }
};

const ordered = (args: string, names: readonly string[]): readonly string[] =>
  /\bsort:/.test(args) ? names : names.toSorted();

/** Runs a mutation that has to succeed, and returns its payload. */
export const mutate = async (
  client: Client,
  name: string,
  input: Readonly<Record<string, unknown>>,
  selection = '',
): Promise<GraphqlAnswer['data']> => {
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  const { data, errors } = await client.graphql(
    `mutation ($input: ${type}!) { ${name}(input: $input) { errors ${selection} } }`,
    { input },
  );
  expect([name, errors, data?.[name]?.errors]).toEqual([name, undefined, []]);
  return data[name];
};
