import {
  type ExecutionResult,
  executeRootSelectionSet,
  GraphQLEnumType,
  type GraphQLFieldConfig,
  GraphQLID,
  GraphQLInt,
  GraphQLInterfaceType,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLSchema,
  GraphQLString,
  GraphQLUnionType,
  parse,
  validate,
  validateExecutionArgs,
} from 'graphql';
import { describe, expect, it } from 'vitest';
import { planOf } from '#graphql/executor.ts';

const later = <T>(value: T): Promise<T> => new Promise((resolve) => setImmediate(() => resolve(value)));
const laterFails = (message: string): Promise<never> =>
  new Promise((_, reject) => setImmediate(() => reject(new Error(message))));
const boom = (message: string): never => {
  throw new Error(message);
};

const Color = new GraphQLEnumType({ name: 'Color', values: { RED: { value: 1 }, BLUE: { value: 2 } } });
const Being = new GraphQLInterfaceType({
  name: 'Being',
  fields: { name: { type: GraphQLString } },
  resolveType: (value) => later(String(Reflect.get(value, 'kind'))),
});
const Dog = new GraphQLObjectType({
  name: 'Dog',
  interfaces: [Being],
  fields: { name: { type: GraphQLString }, barks: { type: GraphQLInt } },
});
const Cat = new GraphQLObjectType({
  name: 'Cat',
  interfaces: [Being],
  fields: { name: { type: GraphQLString }, lives: { type: new GraphQLNonNull(GraphQLInt) } },
});
const Strict = new GraphQLObjectType({
  name: 'Strict',
  isTypeOf: (value) => Reflect.get(value, 'strict') === true,
  fields: { name: { type: GraphQLString } },
});
const Pet = new GraphQLUnionType({
  name: 'Pet',
  types: [Dog, Cat],
  resolveType: (value: { kind: string }) => value.kind,
});

const nonNull = new GraphQLNonNull(GraphQLString);
const fields: Record<string, GraphQLFieldConfig<unknown, unknown>> = {
  id: { type: GraphQLID, resolve: () => 7 },
  text: { type: GraphQLString, resolve: () => 'text' },
  lateText: { type: nonNull, resolve: () => later('late') },
  plain: { type: GraphQLInt },
  method: { type: GraphQLString },
  nothing: { type: GraphQLString, resolve: () => undefined },
  fails: { type: GraphQLString, resolve: () => boom('fails') },
  failsLate: { type: GraphQLString, resolve: () => laterFails('failsLate') },
  returnsError: { type: GraphQLString, resolve: () => new Error('returned') },
  required: { type: nonNull, resolve: () => null },
  requiredLate: { type: nonNull, resolve: () => later(null) },
  requiredFails: { type: nonNull, resolve: () => boom('requiredFails') },
  requiredFailsLate: { type: nonNull, resolve: () => laterFails('requiredFailsLate') },
  badInt: { type: GraphQLInt, resolve: () => 'no number' },
  color: { type: Color, resolve: () => 2 },
  badColor: { type: Color, resolve: () => 3 },
  strings: { type: new GraphQLList(nonNull), resolve: () => ['a', later('b'), 'c'] },
  holes: { type: new GraphQLList(GraphQLString), resolve: () => ['a', null, laterFails('item'), new Error('item2')] },
  strictHoles: { type: new GraphQLList(nonNull), resolve: () => [laterFails('gone'), null] },
  matrix: {
    type: new GraphQLList(new GraphQLList(new GraphQLNonNull(GraphQLInt))),
    resolve: () => [[1, 2], [3, null], null],
  },
  set: { type: new GraphQLList(GraphQLInt), resolve: () => new Set([1, 2]) },
  noList: { type: new GraphQLList(GraphQLInt), resolve: () => 5 },
  echo: {
    type: GraphQLString,
    args: { text: { type: GraphQLString, defaultValue: 'default' }, n: { type: GraphQLInt }, color: { type: Color } },
    resolve: (_source, args) => JSON.stringify(args),
  },
  need: { type: GraphQLString, args: { text: { type: nonNull } }, resolve: (_source, { text }) => text },
  info: {
    type: GraphQLString,
    resolve: (_source, _args, _ctx, info) =>
      JSON.stringify([
        info.fieldName,
        info.path.key,
        info.path.typename,
        info.path.prev?.key,
        String(info.returnType),
        info.parentType.name,
        info.fieldNodes.length,
        info.variableValues.coerced,
        Object.keys(info.fragments),
        info.operation.operation,
      ]),
  },
  being: { type: Being, resolve: () => ({ kind: 'Dog', name: 'Rex', barks: 3 }) },
  beings: {
    type: new GraphQLList(Being),
    resolve: () => [
      { kind: 'Dog', name: 'Rex', barks: 3 },
      { kind: 'Cat', name: 'Tom', lives: null },
      { kind: 'Nobody' },
    ],
  },
  pets: {
    type: new GraphQLList(Pet),
    resolve: () => [
      { kind: 'Dog', name: 'Rex', barks: 3 },
      later({ kind: 'Cat', name: 'Tom', lives: 9 }),
      { kind: 'Being' },
    ],
  },
  strict: { type: Strict, resolve: () => ({ strict: true, name: 'yes' }) },
  lax: { type: Strict, resolve: () => ({ name: 'no' }) },
};
const Node: GraphQLObjectType = new GraphQLObjectType({
  name: 'Node',
  fields: () => ({
    ...fields,
    node: {
      type: Node,
      args: { n: { type: GraphQLInt } },
      resolve: (_source, { n }) => ({ plain: n ?? 1, method: () => `method ${n}` }),
    },
    lateNode: { type: Node, resolve: () => later({ plain: 2 }) },
    sureNode: { type: new GraphQLNonNull(Node), resolve: () => ({ plain: 3 }) },
    nodes: { type: new GraphQLList(Node), resolve: () => [{ plain: 1 }, later({ plain: 2 }), null] },
    sureNodes: {
      type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(Node))),
      resolve: () => [{ plain: 1 }, later({ plain: 2 })],
    },
  }),
});
const schema = new GraphQLSchema({ query: Node, types: [Dog, Cat] });

const both = async (
  source: string,
  variableValues: Record<string, unknown>,
): Promise<[ExecutionResult, ExecutionResult]> => {
  const document = parse(source);
  expect(validate(schema, document)).toEqual([]);
  const args = validateExecutionArgs({ schema, document, variableValues, rootValue: { plain: 0 }, contextValue: {} });
  if (!('schema' in args)) throw args[0];
  const fragments = Object.fromEntries(
    document.definitions.flatMap((each) => (each.kind === 'FragmentDefinition' ? [[each.name.value, each]] : [])),
  );
  const plan = planOf(schema, { document, operation: args.operation, fragments });
  if (!plan) throw new Error('not planned');
  return [await executeRootSelectionSet(args), await plan(args)];
};

const sorted = (result: ExecutionResult) => {
  const { data, errors } = JSON.parse(JSON.stringify(result));
  const key = (error: unknown) => JSON.stringify(error);
  return { data, errors: errors?.toSorted((a: unknown, b: unknown) => key(a).localeCompare(key(b))) };
};

const QUERIES: Record<string, [string, Record<string, unknown>?]> = {
  leaves: ['{ id text lateText nothing color set strings matrix plain __typename }'],
  'order of keys': ['{ z: lateText a: text m: lateText b: id }'],
  errors: ['{ text fails failsLate returnsError badInt badColor noList holes }'],
  'null up to the nearest nullable': [
    '{ node { node { required text } text } lateNode { requiredLate } a: node { sureNode { sureNode { requiredFails } } } }',
  ],
  'null through lists': [
    '{ nodes { plain required } b: nodes { plain requiredFailsLate } strictHoles node { sureNodes { plain requiredFailsLate } } }',
  ],
  'null to the top': ['{ text sureNode { requiredFails } failsLate }'],
  'late null to the top': ['{ text sureNodes { requiredFailsLate } }'],
  arguments: [
    'query($t: String, $n: Int = 4) { echo a: echo(text: "x") b: echo(text: $t) c: echo(n: $n, color: RED) d: echo(text: null) node(n: $n) { plain method } need(text: "y") }',
    { n: 5 },
  ],
  'missing variables': ['query($t: String, $n: Int = 4) { b: echo(text: $t) c: echo(n: $n) }'],
  fragments: ['{ ...A node { ...A ... on Node { id } } } fragment A on Node { text node { plain } node { id } info }'],
  info: [
    'query Q($n: Int) { nodes { info } x: node { i: info ...F } } fragment F on Node { i: info echo(n: $n) }',
    { n: 1 },
  ],
  abstract: [
    '{ being { __typename name ... on Dog { barks } ... on Cat { lives } } pets { ... on Being { name } ... on Cat { lives } __typename } }',
  ],
  'abstract and wrong': [
    '{ beings { name ... on Dog { barks } ... on Cat { lives } } pets { __typename } lax { name } strict { name } }',
  ],
};

describe('the planned executor', () => {
  for (const [name, [source, variables = {}]] of Object.entries(QUERIES)) {
    it(`gives the same answer as graphql-js: ${name}`, async () => {
      const [theirs, ours] = await both(source, variables);
      expect(Object.keys(ours.data ?? {})).toEqual(Object.keys(theirs.data ?? {}));
      // Messages about invalid types differ.
      const plain = (result: ExecutionResult) =>
        JSON.parse(
          JSON.stringify(sorted(result), (key, value) => (key === 'message' && /type/i.test(value) ? '' : value)),
        );
      expect(plain(ours)).toEqual(plain(theirs));
    });
  }

  it('leaves queries that it cannot plan to graphql-js', () => {
    for (const source of ['{ __schema { description } }', '{ text @skip(if: true) }', '{ __proto__: text }']) {
      const document = parse(source);
      const [operation] = document.definitions;
      if (operation?.kind !== 'OperationDefinition') throw new Error('no operation');
      expect(planOf(schema, { document, operation, fragments: {} })).toBeNull();
    }
  });
});
