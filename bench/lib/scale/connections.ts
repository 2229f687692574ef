import { readFile } from 'node:fs/promises';
import {
  buildSchema,
  type GraphQLArgument,
  type GraphQLField,
  getNamedType,
  isEnumType,
  isObjectType,
  isRequiredArgument,
} from 'graphql';
import type { PageRequest } from './rest-lists.ts';
import { type Samples, sampleOf } from './samples.ts';

const FILTERS = 10;

/**
 * Returns a page of each GraphQL connection of the query and of its most common objects: plain, with each of its orders,
 * and with its first ten filters.
 */
export const connections = async (samples: Samples): Promise<PageRequest[]> => {
  const text = await readFile(new URL('../../../schema/schema.graphql', import.meta.url), 'utf8');
  const schema = buildSchema(text);
  const value = (name: string) => JSON.stringify(samples.values.get(name) ?? '');
  const project = (selection: string) => `{ project(fullPath: ${value('full_path')}) { ${selection} } }`;
  const parents: Readonly<Record<string, (selection: string) => string>> = {
    Query: (selection) => `{ ${selection} }`,
    Project: project,
    Group: (selection) => `{ group(fullPath: ${value('groups/id')}) { ${selection} } }`,
    CurrentUser: (selection) => `{ currentUser { ${selection} } }`,
    User: (selection) => `{ user(username: ${value('username')}) { ${selection} } }`,
    Issue: (selection) => project(`issue(iid: ${value('issues/iid')}) { ${selection} }`),
    MergeRequest: (selection) => project(`mergeRequest(iid: ${value('merge_requests/iid')}) { ${selection} }`),
    Pipeline: (selection) => project(`pipelines(first: 1) { nodes { ${selection} } }`),
  };
  return Object.entries(parents).flatMap(([parent, wrap]) => {
    const type = schema.getType(parent);
    if (!isObjectType(type)) return [];
    return Object.values(type.getFields()).flatMap((field) =>
      getNamedType(field.type).name.endsWith('Connection') ? pagesOf(samples, parent, field, wrap) : [],
    );
  });
};

const pagesOf = (
  samples: Samples,
  parent: string,
  field: GraphQLField<unknown, unknown>,
  wrap: (selection: string) => string,
): PageRequest[] => {
  const needed = field.args.filter(isRequiredArgument).flatMap((argument) => written(samples, argument) ?? []);
  const request = (what: string, extra: readonly string[]): PageRequest => ({
    list: `${parent}.${field.name}`,
    what,
    path: { query: wrap(`${field.name}(${['first: 20', ...needed, ...extra].join(', ')}) { nodes { __typename } }`) },
  });
  const filters = field.args.flatMap((argument) => {
    if (isRequiredArgument(argument) || /^(first|last|after|before|sort)$/.test(argument.name)) return [];
    return written(samples, argument) ?? [];
  });
  const sort = field.args.find(({ name }) => name === 'sort');
  const orders = sort && isEnumType(getNamedType(sort.type)) ? getNamedType(sort.type) : undefined;
  const values = isEnumType(orders) ? orders.getValues().map(({ name }) => `sort: ${name}`) : [];
  return [
    request('plain', []),
    ...values.map((order) => request(order, [order])),
    ...filters.slice(0, FILTERS).map((filter) => request(filter, [filter])),
  ];
};

/** Returns the argument with a sample value, as in a query. Null for input objects. */
const written = (samples: Samples, { name, type }: GraphQLArgument): string | null => {
  const named = getNamedType(type);
  if (isEnumType(named)) return `${name}: ${named.getValues()[0]?.name}`;
  const kinds: Readonly<Record<string, string>> = {
    Int: 'integer',
    Boolean: 'boolean',
    String: 'string',
    ID: 'string',
    Date: 'date',
    Time: 'date-time',
  };
  const kind = kinds[named.name] ?? null;
  const value = kind === null ? null : sampleOf(samples, name, { kind });
  if (value === null) return null;
  return `${name}: ${kind === 'integer' || kind === 'boolean' ? value : JSON.stringify(value)}`;
};
