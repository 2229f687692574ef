import fc from 'fast-check';
import {
  buildSchema,
  type DocumentNode,
  executeSync,
  type GraphQLResolveInfo,
  getOperationAST,
  parse,
  type SelectionNode,
  type SelectionSetNode,
  visit,
} from 'graphql';
import { describe, expect, it } from 'vitest';
import { schema } from '#app/schema.ts';
import { costOf } from '#graphql/cost.ts';
import { Engine, Refused } from '#graphql/engine.ts';
import { planOf } from '#graphql/executor.ts';
import { checkShape, LIMITS } from '#graphql/limits.ts';
import { selectedFields } from '#graphql/lookahead.ts';
import { computedMs } from '../support/computed-ms.ts';

// Threats, GraphQL: fragments that spread each other cost no more than their own text.

/** Each fragment spreads the next one twice. The last one appears 2^levels times in the expanded query. */
const doubling = (levels: number, type: string, last: string): string =>
  [
    ...Array.from({ length: levels }, (_, i) => `fragment F${i} on ${type} { ...F${i + 1} ...F${i + 1} }`),
    `fragment F${levels} on ${type} { ${last} }`,
  ].join(' ');

/** Parses the source into a document that counts how often its selections are visited. */
const counted = (source: string): { document: DocumentNode; visits: () => number } => {
  let visits = 0;
  const document = visit(parse(source), {
    SelectionSet: {
      leave: (set: SelectionSetNode): SelectionSetNode => ({
        ...set,
        get selections(): readonly SelectionNode[] {
          visits += set.selections.length;
          return set.selections;
        },
      }),
    },
  });
  return { document, visits: () => visits };
};

const fragmentsOf = (document: DocumentNode) =>
  Object.fromEntries(
    document.definitions.flatMap((each) => (each.kind === 'FragmentDefinition' ? [[each.name.value, each]] : [])),
  );

const operationOf = (document: DocumentNode) => {
  const operation = getOperationAST(document);
  if (!operation) throw new Error('no operation');
  return operation;
};

const refusalOf = (query: string): string => {
  const prepared = new Engine(schema).prepare({ query, operationName: null });
  return prepared instanceof Refused ? (prepared.errors[0]?.message ?? '') : 'accepted';
};

describe('fragments that spread each other twice on each level', () => {
  it.each([
    [
      'an unknown fragment at the end',
      `{ ...F0 } ${doubling(60, 'Query', '...Nothing')}`,
      'Unknown fragment "Nothing".',
    ],
    ['a field at the end', `{ ...F0 } ${doubling(60, 'Query', '__typename')}`, /limit of 5000 fields/],
    ['nothing at the end', `{ ...F0 } ${doubling(60, 'Query', '')}`, /limit of 10000 selections/],
    [
      'introspection',
      `{ __schema { ...F0 } } ${doubling(60, '__Schema', 'queryType { name }')}`,
      /limit of 5000 fields/,
    ],
    ['a subscription', `subscription { ...F0 } ${doubling(60, 'Subscription', '')}`, /limit of 10000 selections/],
    ['unused ones', `{ __typename } ${doubling(60, 'Query', '__typename')}`, 'Fragment "F0" is never used.'],
    [
      'two of one name',
      `{ ...F0 } ${doubling(60, 'Query', '__typename')} fragment F0 on Query { __typename }`,
      'There can be only one fragment named "F0".',
    ],
    [
      'many operations',
      `${Array.from({ length: 200 }, (_, i) => `query Q${i} { ...F0 }`).join(' ')} ${doubling(11, 'Query', '')}`,
      /limit of 10000 selections/,
    ],
  ])('are refused at once: %s', (_name, query, message) => {
    const started = computedMs();
    expect(refusalOf(query)).toMatch(message);
    expect(computedMs() - started).toBeLessThan(500);
  });

  it('are visited once by the walks behind the limits', () => {
    // 2^8 spreads are within the limits.
    const { document, visits } = counted(`{ projects { nodes { ...F0 } } } ${doubling(8, 'Project', 'id')}`);
    const size = 3 + 2 * 8 + 1;
    const visitsOf = (work: () => unknown): number => {
      const before = visits();
      work();
      return visits() - before;
    };
    const operation = operationOf(document);
    const fragments = fragmentsOf(document);
    expect(visitsOf(() => checkShape(document))).toBeLessThan(size * 4);
    expect(visitsOf(() => costOf(schema, operation, fragments)({}))).toBeLessThan(size * 3);
    const plan = planOf(schema, { document, operation, fragments });
    expect(plan).not.toBeNull();
  });

  it('are visited once by lookahead, and once for all rows if the request includes fields by variables', () => {
    const { document, visits } = counted(
      `query($yes: Boolean!) { items { nodes { ...F0 @include(if: $yes) } } } ${doubling(8, 'Item', 'id')}`,
    );
    const selections: unknown[] = [];
    let looked = 0;
    const items = (_args: unknown, _ctx: unknown, info: GraphQLResolveInfo) => {
      const before = visits();
      for (let row = 0; row < 100; row++) selections.push(selectedFields(info));
      looked += visits() - before;
      return null;
    };
    const result = executeSync({ schema: small, document, rootValue: { items }, variableValues: { yes: true } });
    expect(result).toEqual({ data: { items: null } });
    expect(selections).toHaveLength(100);
    expect(selections[99]).toEqual({ nodes: { id: {} } });
    expect(looked).toBeLessThan(60);
  });
});

const small = buildSchema(`
  type Query { item: Item, items: Items }
  type Items { nodes: [Item] }
  type Item { id: ID, name: String, item(n: Int): Item, items: Items }
`);

describe('any document', () => {
  const FRAGMENTS = 8;
  /** A selection set of an item. A fragment spreads only later fragments, because a cycle would be refused. */
  const setOf = (from: number) =>
    fc.letrec<{ set: string; node: string }>((tie) => ({
      set: fc.array(tie('node'), { minLength: 1, maxLength: 4 }).map((nodes) => `{ ${nodes.join(' ')} }`),
      node: fc.oneof(
        { maxDepth: 3, depthSize: 'small' },
        fc.constantFrom('id', 'name', '__typename', 'id name', 'x: id'),
        from < FRAGMENTS ? fc.integer({ min: from, max: FRAGMENTS - 1 }).map((n) => `...F${n}`) : fc.constant('id'),
        tie('set').map((set) => `... on Item ${set}`),
        tie('set').map((set) => `item ${set}`),
        fc.tuple(fc.nat(5), tie('set')).map(([n, set]) => `a${n}: item(n: ${n}) ${set}`),
        tie('set').map((set) => `items { nodes ${set} }`),
      ),
    })).set;
  const documents = fc.tuple(...Array.from({ length: FRAGMENTS }, (_, n) => setOf(n + 1))).map((sets) => {
    const spreads = sets.map((_, n) => `...F${n}`).join(' ');
    const fragments = sets.map((set, n) => `fragment F${n} on Item ${set}`).join(' ');
    return `{ item { ${spreads} } } ${fragments}`;
  });

  it('is accepted or refused after little work', () => {
    const engine = new Engine(small);
    let accepted = 0;
    fc.assert(
      fc.property(documents, (query) => {
        const started = computedMs();
        const prepared = engine.prepare({ query, operationName: null });
        expect(computedMs() - started).toBeLessThan(250);
        if (!(prepared instanceof Refused)) accepted++;
      }),
      { numRuns: 200 },
    );
    // Otherwise the rules that follow the limits never ran.
    expect(accepted).toBeGreaterThan(0);
  });
});

describe('cached documents', () => {
  it('have a limited total weight, and do not include refused documents', () => {
    const engine = new Engine(schema);
    const ask = (query: string) => engine.prepare({ query, operationName: null });
    const small = ask('{ __typename }');
    expect(ask('{ __typename }')).toBe(small);
    const refused = ask('{ nothing }');
    expect(ask('{ nothing }')).not.toBe(refused);
    const large = (n: number) => `query Q${n} { projects { nodes { ${'id name '.repeat(60)} } } }`;
    let weight = 0;
    for (let n = 0; weight < LIMITS.rememberedWeight; n++) {
      const prepared = ask(large(n));
      if (prepared instanceof Refused) throw prepared.errors[0];
      weight += prepared.weight;
    }
    expect(ask('{ __typename }')).not.toBe(small);
  });
});
