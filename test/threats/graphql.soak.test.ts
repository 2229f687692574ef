import {
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInputType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
} from 'graphql';
import { beforeAll, describe, expect, it } from 'vitest';
import { schema } from '#app/schema.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { privateWorld, type World } from './world.ts';

// Threats, GraphQL and Authorisation: covers every root field of the schema, as the other tests here cover the routes.

const app = useApp({ sweep: true });
let world: World;
/** A world that the tests may destroy. */
let doomed: World;
let stranger: TestUser;

beforeAll(async () => {
  world = await privateWorld(app());
  doomed = await privateWorld(app());
  stranger = await app().make.user();
});

type RootField = GraphQLField<unknown, unknown>;

const fieldsOf = (root: GraphQLObjectType | null | undefined): RootField[] => Object.values(root?.getFields() ?? {});
const queries = () => fieldsOf(schema.getQueryType()).filter(({ name }) => !name.startsWith('__'));
/** Mutations that delete things come last, because little is left to test after them. */
const mutations = () =>
  fieldsOf(schema.getMutationType()).toSorted(
    (left, right) => Number(ENDS.test(left.name)) - Number(ENDS.test(right.name)),
  );
const ENDS = /delete|destroy|remove|revoke|transfer|archive/i;

/** Selects the fields without arguments, since GraphQL requires a selection. */
const selectionOf = (type: GraphQLOutputType): string => {
  const named = getNamedType(type);
  if (!isObjectType(named)) return 'getFields' in named ? '{ __typename }' : '';
  const plain = Object.values(named.getFields()).filter(
    (field) => field.args.length === 0 && isScalarType(getNamedType(field.type)),
  );
  return `{ __typename ${plain.map(({ name }) => name).join(' ')} }`;
};

const operationOf = (kind: 'query' | 'mutation', field: RootField): string => {
  const variables = field.args.map(({ name, type }) => `$${name}: ${String(type)}`).join(', ');
  const args = field.args.map(({ name }) => `${name}: $${name}`).join(', ');
  return `${kind} Probe${variables && `(${variables})`} { ${field.name}${args && `(${args})`} ${selectionOf(field.type)} }`;
};

const HOSTILE_TEXTS = ['', '../..', "';--", 'x'.repeat(20_000), '\u202e\r\n', '-x', '__proto__'];
const HOSTILE_IDS = [
  '0',
  'gid://millrace/Project/99999999999999999999',
  'gid://millrace/Project/-1',
  'gid://millrace/__proto__/1',
  'gid://other/User/1',
  ...HOSTILE_TEXTS.slice(0, 4),
];

/** Values that the type accepts, but that no honest client sends. */
const hostileValues = (type: GraphQLInputType, depth = 0): readonly unknown[] => {
  if (isNonNullType(type)) return hostileValues(type.ofType, depth);
  if (isListType(type)) return [[], ...hostileValues(type.ofType, depth).map((value) => [value, value])];
  if (isEnumType(type))
    return type
      .getValues()
      .map(({ name }) => name)
      .slice(0, 2);
  if (isInputObjectType(type)) {
    if (depth > 3) return [{}];
    return Array.from({ length: 6 }, (_, turn) => inputValue(type, turn, depth));
  }
  switch (type.name) {
    case 'Int':
      return [0, -1, 2_147_483_647, -2_147_483_648];
    case 'Float':
    case 'Duration':
      return [-1, 1e308, 0.1];
    case 'Boolean':
      return [true, false];
    case 'Time':
      return ['0000-01-01T00:00:00Z', '9999-12-31', 'now'];
    case 'Date':
      return ['0000-00-00', '9999-12-31'];
    case 'BigInt':
      return ['9007199254740991', '-9007199254740991'];
    case 'JSON':
      return [{ a: [1] }, 'x', null, [[]]];
    default:
      return type.name === 'ID' ? HOSTILE_IDS : type.name === 'String' ? HOSTILE_TEXTS : globalIdsFor(type.name);
  }
};

const globalIdsFor = (scalar: string): readonly string[] => {
  const model = scalar.replace(/ID$/, '');
  return [
    `gid://millrace/${model}/${model === 'Group' ? doomed.group.id : doomed.project.id}`,
    'nonsense',
    ...HOSTILE_IDS.slice(1, 3),
  ];
};

const inputValue = (type: GraphQLInputType, turn: number, depth: number): Record<string, unknown> => {
  if (!isInputObjectType(type)) return {};
  const real: Readonly<Record<string, unknown>> = {
    projectPath: doomed.project.path_with_namespace,
    fullPath: doomed.project.path_with_namespace,
    groupPath: doomed.group.full_path,
  };
  return Object.fromEntries(
    Object.values(type.getFields()).flatMap((field, index) => {
      if (field.name in real && turn % 3 > 0) return [[field.name, real[field.name]]];
      const values = hostileValues(field.type, depth + 1);
      return isNonNullType(field.type) || (turn + index) % 2 === 0
        ? [[field.name, values[(turn + index) % values.length]]]
        : [];
    }),
  );
};

const variablesOf = (args: readonly GraphQLArgument[], turn: number): Record<string, unknown> =>
  Object.fromEntries(
    args.map(({ name, type }, index) => {
      const values = hostileValues(type);
      return [name, values[(turn + index) % values.length]];
    }),
  );

/**
 * Returns the turns of a field, which choose its values. An input object has six values. Anonymous callers send the same
 * types of values. Three turns per field are enough for that; the first one shifts from field to field.
 */
const turnsOf = ({ args }: RootField, index: number, isAnonymous: boolean): readonly number[] => {
  if (args.length === 0) return [0];
  const [only, ...others] = args;
  const all = only && others.length === 0 && isInputObjectType(getNamedType(only.type)) ? 6 : 7;
  return isAnonymous ? [0, 2, 4].map((turn) => (turn + index) % all) : Array.from({ length: all }, (_, turn) => turn);
};

const probe = async (client: Client, operation: string, variables: Record<string, unknown>): Promise<string | null> => {
  const answer = await client.post('/api/graphql', { query: operation, variables });
  const text = JSON.stringify(answer.body);
  const bad = answer.status >= 500 || /Internal server error|INTERNAL_SERVER_ERROR|node_modules|\.ts:\d/.test(text);
  return bad ? `${operation.slice(0, 200)} ${JSON.stringify(variables).slice(0, 300)} -> ${text.slice(0, 300)}` : null;
};

describe('a hostile value', () => {
  it('causes an internal error in no field of the schema', async () => {
    const problems: (string | null)[] = [];
    for (const [kind, client, fields] of [
      ['query', app().as(doomed.owner), queries()],
      ['query', app().anonymous, queries()],
      ['mutation', app().as(app().root), mutations().filter(({ name }) => /settings|^user/i.test(name))],
      ['mutation', app().as(doomed.owner), mutations().filter(({ name }) => !/self/i.test(name))],
    ] as const) {
      for (const [index, field] of fields.entries()) {
        const operation = operationOf(kind, field);
        const turns = turnsOf(field, index, client === app().anonymous);
        problems.push(
          ...(await Promise.all(turns.map((turn) => probe(client, operation, variablesOf(field.args, turn))))),
        );
      }
    }
    expect(problems.filter((problem) => problem !== null)).toEqual([]);
    expect(problems.length).toBeGreaterThan(150);
  });
});

describe('a text that cannot be stored', () => {
  it('is refused before execution, as a variable and as a literal', async () => {
    const client = app().as(world.owner);
    const query = 'query($search: String) { projects(search: $search) { count } }';
    for (const search of ['a\0b', 'a\ud800b']) {
      const { errors } = await client.graphql(query, { search });
      expect(errors).toEqual([
        expect.objectContaining({ message: 'A string contains a character that cannot be stored' }),
      ]);
    }
    for (const literal of ['"a\\u0000b"', '"a\\u{0}b"', '"a\\uD800b"']) {
      const { data, errors } = await client.graphql(`{ projects(search: ${literal}) { count } }`);
      expect([literal, data, errors?.length]).toEqual([literal, undefined, 1]);
    }
  });
});

describe('a private record', () => {
  const placesOf = () =>
    [
      ['project', { fullPath: world.project.path_with_namespace }, { fullPath: `${world.group.full_path}/nothing` }],
      ['group', { fullPath: world.group.full_path }, { fullPath: 'nothing-there' }],
      ['namespace', { fullPath: world.group.full_path }, { fullPath: 'nothing-there' }],
    ] as const;

  it('is null to strangers and anonymous callers, like a missing one', async () => {
    for (const [name, there, absent] of placesOf()) {
      const field = queries().find((each) => each.name === name);
      if (!field) continue;
      const operation = operationOf('query', field);
      for (const client of [app().as(stranger), app().anonymous]) {
        const [one, other] = await Promise.all([client.graphql(operation, there), client.graphql(operation, absent)]);
        expect(one).toEqual(other);
        expect(one.data[name]).toBeNull();
      }
      const mine = await app().as(world.owner).graphql(operation, there);
      expect(mine.data[name]).not.toBeNull();
    }
  });

  it('appears in no list and in no count', async () => {
    const operation = '{ projects { count nodes { id } } groups { count nodes { id } } }';
    for (const client of [app().as(stranger), app().anonymous]) {
      const { data } = await client.graphql(operation);
      expect(data).toEqual({ projects: { count: 0, nodes: [] }, groups: { count: 0, nodes: [] } });
    }
  });

  it('is refused to strangers by every mutation, like a missing one', async () => {
    const before = await app().as(world.owner).get(`/projects/${world.project.id}`);
    const seen: string[] = [];
    for (const field of mutations()) {
      const [input] = field.args;
      const type = input && getNamedType(input.type);
      if (!isInputObjectType(type)) continue;
      const fields = Object.values(type.getFields());
      const place = fields.find(({ name }) => name === 'projectPath' || name === 'groupPath' || name === 'fullPath');
      if (!place) continue;
      const path =
        place.name === 'groupPath' || /group/i.test(field.name)
          ? world.group.full_path
          : world.project.path_with_namespace;
      const required = Object.fromEntries(
        fields
          .filter((each) => isNonNullType(each.type) && each !== place)
          .map((each) => [each.name, plainValue(each.type)]),
      );
      const ask = (at: string) =>
        app()
          .as(stranger)
          .graphql(operationOf('mutation', field), { input: { ...required, [place.name]: at } });
      const [real, nothing] = await Promise.all([ask(path), ask(`${path}-not`)]);
      expect([field.name, real]).toEqual([field.name, nothing]);
      expect(real.errors?.[0]?.message ?? real.data?.[field.name]?.errors?.[0]).toEqual(expect.any(String));
      seen.push(field.name);
    }
    expect(seen.length).toBeGreaterThan(5);
    expect((await app().as(world.owner).get(`/projects/${world.project.id}`)).body).toEqual(before.body);
  });
});

const plainValue = (type: GraphQLInputType): unknown => {
  if (isNonNullType(type)) return plainValue(type.ofType);
  if (isListType(type)) return [plainValue(type.ofType)];
  if (isEnumType(type)) return type.getValues()[0]?.name;
  if (isInputObjectType(type)) return {};
  const known: Readonly<Record<string, unknown>> = {
    Int: 30,
    Boolean: true,
    String: 'main',
    Color: '#ff0000',
    ID: '1',
  };
  return known[type.name] ?? `gid://millrace/${type.name.replace(/ID$/, '')}/1`;
};
