import { execute, type GraphQLResolveInfo, graphql, parse, printType } from 'graphql';
import { describe, expect, it } from 'vitest';
import { builder } from '#graphql/builder.ts';
import { connection, pageOf, pageOfAll } from '#graphql/connection.ts';
import { maskError, orNull } from '#graphql/errors.ts';
import { gid, parseGid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { type Selection, selectedFields, selectedNodes } from '#graphql/lookahead.ts';
import { mutationField } from '#graphql/mutation.ts';
import { anonymous } from '#platform/context.ts';
import { encodeCursor } from '#platform/cursor.ts';
import { conflict, DomainError, forbidden, invalid, notFound } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import { kitContext, logged, userActor } from './support.ts';

interface Item {
  readonly id: number;
  readonly name: string;
  readonly owner_id: number;
  readonly created_at: string;
}

const items: Item[] = Array.from({ length: 250 }, (_, i) => ({
  id: i + 1,
  name: `item ${i + 1}`,
  owner_id: (i % 3) + 1,
  created_at: '2026-11-21 01:42:33.123456+00',
}));

let ownerCalls: (readonly number[])[] = [];
const ownerName = loader(async (_ctx, ids: readonly number[]) => {
  ownerCalls.push(ids);
  return new Map(ids.filter((id) => id !== 3).map((id) => [id, `owner ${id}`]));
});

let counted = 0;
let seen: Selection = {};
let lastInfo: GraphQLResolveInfo | null = null;

const ItemRef = builder.objectRef<Item>('Item').implement({
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (item) => gid('Issue', item.id) }),
    name: t.exposeString('name'),
    createdAt: t.expose('created_at', { type: 'Time' }),
    ownerName: t.string({ resolve: (item, _args, ctx) => ownerName(ctx, item.owner_id) }),
  }),
});
const ItemConnection = builder.connectionObject({ type: ItemRef, name: 'ItemConnection' }, { name: 'ItemEdge' });

builder.objectField(ItemRef, 'items', (t) =>
  t.connection(
    {
      type: ItemRef,
      args: { even: t.arg.boolean() },
      resolve: (_item, args, _ctx, info) => connection(args, info, (page) => pageOfAll(page, items, (row) => [row.id])),
    },
    ItemConnection,
  ),
);

builder.queryField('items', (t) =>
  t.connection(
    {
      type: ItemRef,
      args: { ids: t.arg({ type: ['IssueID'] }) },
      resolve: (_root, args, _ctx, info) => {
        seen = selectedNodes(info);
        lastInfo = info;
        return connection(args, info, (page) => {
          const all = args.ids ? items.filter((item) => args.ids?.includes(item.id)) : items;
          const ordered = page.backwards ? all.toReversed() : all;
          const fetched = ordered.filter(
            (row) =>
              (!page.after || row.id > Number(page.after[0])) && (!page.before || row.id < Number(page.before[0])),
          );
          return pageOf(page, fetched.slice(0, page.limit + 1), {
            cursorOf: (row) => [row.id],
            count: () => {
              counted++;
              return all.length;
            },
          });
        });
      },
    },
    ItemConnection,
  ),
);
builder.queryField('item', (t) =>
  t.field({
    type: ItemRef,
    args: { id: t.arg({ type: 'IssueID', required: true }), failing: t.arg.string() },
    resolve: async (_root, { id, failing }) => {
      if (failing === 'forbidden') throw forbidden();
      if (failing === 'crash') throw new Error('the password is hunter2');
      return orNull(
        Promise.resolve().then(() => items.find((item) => item.id === id) ?? Promise.reject(notFound('Item'))),
      );
    },
  }),
);
builder.queryField('roundTrip', (t) =>
  t.field({
    type: 'JSON',
    args: {
      time: t.arg({ type: 'Time' }),
      date: t.arg({ type: 'Date' }),
      big: t.arg({ type: 'BigInt' }),
      color: t.arg({ type: 'Color' }),
      issuable: t.arg({ type: 'IssuableID' }),
    },
    resolve: (_root, args) => args,
  }),
);

mutationField('itemCreate', {
  description: 'Creates an item.',
  input: (t) => ({ name: t.string({ required: true }), ownerId: t.field({ type: 'UserID' }) }),
  payload: { item: ItemRef, tags: ['String'] },
  run: async (_ctx, input) => {
    const failures: Record<string, () => DomainError> = {
      invalid: () => invalid({ name: ['has already been taken'], base: ['Too many items'] }),
      conflict: () => conflict('Another one exists'),
      bad: () => new DomainError('bad_request', '400 Bad request - no such thing'),
      secret: () => notFound('Item'),
      denied: () => forbidden('not yours'),
    };
    const failure = failures[input.name];
    if (failure) throw failure();
    return {
      item: { id: 7, name: input.name, owner_id: input.ownerId ?? 1, created_at: '2026-01-01 00:00:00+00' },
      tags: ['a'],
    };
  },
});

const schema = builder.toSchema();

const run = async (source: string, variableValues: Record<string, unknown> = {}) => {
  const ctx = kitContext(userActor(1));
  const result = await graphql({ schema, source, variableValues, contextValue: ctx });
  const errors = result.errors?.map((error) => maskError(error, ctx));
  return JSON.parse(JSON.stringify({ data: result.data, ...(errors ? { errors } : {}) }));
};
const messages = (result: { errors?: { message: string }[] }) => result.errors?.map(({ message }) => message);

describe('connections', () => {
  it('page forwards and backwards by cursor', async () => {
    const first = await run(
      '{ items(first: 2) { count nodes { name } edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }',
    );
    expect(first.data.items).toEqual({
      count: 250,
      nodes: [{ name: 'item 1' }, { name: 'item 2' }],
      edges: [
        { cursor: encodeCursor([1]), node: { id: 'gid://gitlab/Issue/1' } },
        { cursor: encodeCursor([2]), node: { id: 'gid://gitlab/Issue/2' } },
      ],
      pageInfo: {
        hasNextPage: true,
        hasPreviousPage: false,
        startCursor: encodeCursor([1]),
        endCursor: encodeCursor([2]),
      },
    });
    const query = (args: string) =>
      run(`{ items(${args}) { nodes { name } pageInfo { hasNextPage hasPreviousPage } } }`);
    const next = await query(`first: 1, after: "${encodeCursor([249])}"`);
    expect(next.data.items).toEqual({
      nodes: [{ name: 'item 250' }],
      pageInfo: { hasNextPage: false, hasPreviousPage: true },
    });
    const last = await query('last: 2');
    expect(last.data.items).toEqual({
      nodes: [{ name: 'item 249' }, { name: 'item 250' }],
      pageInfo: { hasNextPage: false, hasPreviousPage: true },
    });
    const before = await query(`last: 2, before: "${encodeCursor([3])}"`);
    expect(before.data.items).toEqual({
      nodes: [{ name: 'item 1' }, { name: 'item 2' }],
      pageInfo: { hasNextPage: true, hasPreviousPage: false },
    });
  });

  it('cut pages at 100 and count only on request', async () => {
    counted = 0;
    const result = await run('{ items(first: 1000000000) { nodes { id } } }');
    expect(result.data.items.nodes).toHaveLength(100);
    expect((await run('{ items { nodes { id } } }')).data.items.nodes).toHaveLength(100);
    expect(counted).toBe(0);
    await run('{ items { count } }');
    expect(counted).toBe(1);
  });

  it('refuse invalid arguments with a clear message', async () => {
    expect(messages(await run('{ items(first: -1) { count } }'))).toEqual(['`first` must not be negative']);
    expect(messages(await run('{ items(first: 1, last: 1) { count } }'))?.[0]).toMatch(/either/);
    for (const cursor of [
      'nonsense',
      '',
      Buffer.from('{"a":1}').toString('base64url'),
      Buffer.from('["\\u0000"]').toString('base64url'),
    ]) {
      const result = await run('query($c: String) { items(first: 1, after: $c) { nodes { id } } }', { c: cursor });
      if (cursor === '') expect(result.errors).toBeUndefined();
      else expect(messages(result)).toEqual(['The cursor is invalid for this list']);
    }
  });

  it('refuse the cursor of a row in memory that is gone', async () => {
    for (const side of ['after', 'before']) {
      const result = await run(
        `{ item(id: "gid://gitlab/Issue/1") { items(first: 2, ${side}: "${encodeCursor([999])}") { nodes { name } } } }`,
      );
      expect(messages(result)).toEqual(['The item of the cursor is gone: start again at the first page']);
    }
  });

  it('page rows in memory the same way', async () => {
    const result = await run(
      `{ item(id: "gid://gitlab/Issue/1") { items(last: 2, before: "${encodeCursor([5])}") { count nodes { name } pageInfo { hasNextPage hasPreviousPage } } } }`,
    );
    expect(result.data.item.items).toEqual({
      count: 250,
      nodes: [{ name: 'item 3' }, { name: 'item 4' }],
      pageInfo: { hasNextPage: true, hasPreviousPage: true },
    });
  });
});

describe('ids and scalars', () => {
  it('accept only the global id of their model', async () => {
    expect(parseGid('gid://gitlab/Project/12', 'Project')).toBe(12);
    const item = (id: unknown) => run('query($id: IssueID!) { item(id: $id) { name } }', { id });
    expect((await item('gid://gitlab/Issue/3')).data.item.name).toBe('item 3');
    for (const bad of [
      3,
      '3',
      'gid://gitlab/Project/3',
      'gid://gitlab/Issue/0',
      'gid://gitlab/Issue/99999999999999999999',
      'gid://gitlab/Issue/3x',
      '',
    ]) {
      expect(messages(await item(bad))?.[0], String(bad)).toMatch(/global id|does not represent/);
    }
    expect(messages(await run('{ item(id: 3) { name } }'))).toEqual(['"3" is not a valid global id']);
    expect((await run('{ items(ids: ["gid://gitlab/Issue/5"]) { nodes { id } } }')).data.items.nodes).toEqual([
      { id: 'gid://gitlab/Issue/5' },
    ]);
  });

  it('read and write the other scalars', async () => {
    const { data } = await run(
      '{ roundTrip(time: "2026-11-21T02:42:33+01:00", date: "2026-02-28", big: "9007199254740991", color: "#ff0000", issuable: "gid://gitlab/MergeRequest/4") items(first: 1) { nodes { createdAt } } }',
    );
    expect(data.roundTrip).toEqual({
      time: '2026-11-21T01:42:33.000Z',
      date: '2026-02-28',
      big: 9007199254740991,
      color: '#ff0000',
      issuable: { model: 'MergeRequest', id: 4 },
    });
    expect(data.items.nodes[0].createdAt).toBe('2026-11-21T01:42:33.123Z');
    for (const bad of [
      'date: "2026-02-30"',
      'time: "yesterday"',
      'time: "0000-01-01T00:00:00Z"',
      'time: "9999-12-31T23:59:59-10:00"',
      'date: "0000-01-01"',
      'big: "1e3"',
      'color: "url(x)"',
      'issuable: "gid://gitlab/User/1"',
    ]) {
      expect((await run(`{ roundTrip(${bad}) }`)).errors, bad).toHaveLength(1);
    }
  });
});

describe('lookahead', () => {
  it('sees through fragments, aliases and directives', async () => {
    const query = `query($yes: Boolean = true) {
      items(first: 1) { nodes { ...F a: name @skip(if: $yes) } edges { node { ownerName ... on Item { items(first: 3) { nodes { id } } } } } }
    } fragment F on Item { id alias: createdAt @include(if: $yes) }`;
    await run(query);
    expect(seen).toEqual({ id: {}, createdAt: {}, ownerName: {}, items: { nodes: { id: {} } } });
    await run(query, { yes: false });
    expect(seen).toEqual({ id: {}, name: {}, ownerName: {}, items: { nodes: { id: {} } } });
  });

  it('is computed once for a document without conditions', async () => {
    const document = parse('{ items(first: 1) { nodes { id } } }');
    const selections = new Set<Selection>();
    for (let i = 0; i < 3; i++) {
      await execute({ schema, document, contextValue: kitContext(anonymous) });
      if (lastInfo) selections.add(selectedFields(lastInfo));
    }
    expect(selections.size).toBe(1);
  });
});

describe('loaders', () => {
  it('fetch all keys of a request in one call', async () => {
    ownerCalls = [];
    const result = await run('{ items(first: 4) { nodes { ownerName } } }');
    expect(result.data.items.nodes.map((node: { ownerName: string }) => node.ownerName)).toEqual([
      'owner 1',
      'owner 2',
      null,
      'owner 1',
    ]);
    expect(ownerCalls).toEqual([[1, 2, 3]]);
  });
});

describe('errors', () => {
  const create = (name: string) =>
    run('mutation($i: ItemCreateInput!) { itemCreate(input: $i) { item { name } tags errors clientMutationId } }', {
      i: { name, clientMutationId: 'c1' },
    });

  it('go into the payload if they concern validation', async () => {
    expect((await create('good')).data.itemCreate).toEqual({
      item: { name: 'good' },
      tags: ['a'],
      errors: [],
      clientMutationId: 'c1',
    });
    const nothing = { item: null, tags: null, clientMutationId: 'c1' };
    expect((await create('invalid')).data.itemCreate).toEqual({
      ...nothing,
      errors: ['Name has already been taken', 'Too many items'],
    });
    expect((await create('conflict')).data.itemCreate).toEqual({ ...nothing, errors: ['Another one exists'] });
    expect((await create('bad')).data.itemCreate).toEqual({ ...nothing, errors: ['no such thing'] });
  });

  it('are the same for missing and for forbidden records', async () => {
    const [secret, denied] = [await create('secret'), await create('denied')];
    expect(secret.data.itemCreate).toBeNull();
    expect(messages(secret)).toEqual(messages(denied));
    expect(messages(secret)?.[0]).toMatch(/^The resource that you are attempting to access does not exist/);
  });

  it('become null when a missing record is read, and are masked when unexpected', async () => {
    expect(await run('{ item(id: "gid://gitlab/Issue/999") { id } }')).toEqual({ data: { item: null } });
    const crash = await run('{ item(id: "gid://gitlab/Issue/1", failing: "crash") { id } }');
    expect(JSON.stringify(crash)).not.toContain('hunter2');
    expect(crash.errors[0]).toMatchObject({
      message: 'Internal server error',
      path: ['item'],
      extensions: { requestId: 'test-request' },
    });
    expect(logged.join()).toContain('hunter2');
    expect(
      (await run('{ item(id: "gid://gitlab/Issue/1", failing: "forbidden") { id } }')).errors[0].extensions.code,
    ).toBe('FORBIDDEN');
  });
});

describe('the schema', () => {
  it('has the shapes of the reference', () => {
    const print = (name: string) => {
      const type = schema.getType(name);
      return type ? printType(type) : null;
    };
    expect(print('ItemConnection')).toMatch(
      /count: Int![^}]*edges: \[ItemEdge\]\n\s+nodes: \[Item\]\n\s+pageInfo: PageInfo!/,
    );
    expect(print('ItemCreateInput')).toMatch(/clientMutationId: String\n\s+name: String!\n\s+ownerId: UserID/);
    expect(print('ItemCreatePayload')).toMatch(
      /clientMutationId: String[^}]*errors: \[String!\]!\n\s+item: Item\n\s+tags: \[String!\]/,
    );
    expect(schema.getType('Node')).toBeUndefined();
  });
});

it('a full disk is reported as unavailable', () => {
  const ctx = kitContext(anonymous);
  for (const error of [
    Object.assign(new Error('could not extend file'), { code: '53100' }),
    new GitError('no_space', 'There is no space left for the repository'),
  ]) {
    const masked = maskError(error, ctx);
    expect([masked.message, masked.extensions.code]).toEqual(['Insufficient storage', 'UNAVAILABLE']);
  }
});

it('says that the service is unavailable if a repeated request may succeed', () => {
  const ctx = kitContext(anonymous);
  for (const code of ['57P01', '57014', '55P03', '40001', 'EMFILE']) {
    const masked = maskError(Object.assign(new Error('secret'), { code }), ctx);
    expect([code, masked.message, masked.extensions.code]).toEqual([code, 'Service unavailable', 'UNAVAILABLE']);
  }
});
