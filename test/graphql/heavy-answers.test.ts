import { afterAll, beforeAll, expect, it } from 'vitest';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { LIMITS } from '#graphql/limits.ts';
import { startServer } from './server.ts';

interface Row {
  readonly id: number;
}
const rows: Row[] = Array.from({ length: 5 }, (_, index) => ({ id: index + 1 }));
/** Longer than one query may block the others, in milliseconds. */
const BUSY_MS = 60;

let turns = 0;
const turnsSeen: number[] = [];
const RowRef = builder.objectRef<Row>('HeavyRow').implement({
  fields: (t) => ({
    id: t.exposeID('id'),
    busy: t.int({
      resolve: () => {
        turnsSeen.push(turns);
        for (const end = performance.now() + BUSY_MS; performance.now() < end; );
        return 1;
      },
    }),
    text: t.string({ resolve: () => 'x'.repeat(LIMITS.answerLength / 4) }),
  }),
});
const RowConnection = builder.connectionObject({ type: RowRef, name: 'HeavyRowConnection' }, { name: 'HeavyRowEdge' });
builder.queryField('heavyRows', (t) =>
  t.connection(
    {
      type: RowRef,
      resolve: (_root, args, _ctx, info) => connection(args, info, (page) => pageOfAll(page, rows, (row) => [row.id])),
    },
    RowConnection,
  ),
);
builder.objectField(RowRef, 'rows', (t) =>
  t.connection(
    {
      type: RowRef,
      resolve: (_row, args, _ctx, info) => connection(args, info, (page) => pageOfAll(page, rows, (row) => [row.id])),
    },
    RowConnection,
  ),
);

const many: Row[] = Array.from({ length: 100 }, (_, index) => ({ id: index + 1 }));
for (const name of ['some', 'others', 'more'])
  builder.objectField(RowRef, name, (t) =>
    t.connection(
      {
        type: RowRef,
        extensions: { usualSize: 1 },
        resolve: (_row, args, _ctx, info) => connection(args, info, (page) => pageOfAll(page, many, (row) => [row.id])),
      },
      RowConnection,
    ),
  );

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.app.close());

const ask = (query: string) => post({ query });
const post = async (body: unknown) => {
  const response = await fetch(server.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return response.json();
};
const wide = (size: number, directive = '') => {
  const fields = Array.from({ length: 55 }, (_, index) => `a${index}: id`).join(' ');
  return `{ heavyRows(first: 100) { nodes { rows(first: ${size}) { nodes { ${fields} ${directive} } } } } }`;
};

it('refuses queries for too many values before anything runs', async () => {
  const { errors, data } = await ask(wide(90));
  expect(data).toBeUndefined();
  expect(errors[0].extensions.code).toBe('QUERY_LIMIT_EXCEEDED');
  expect(errors[0].message).toContain(`values, more than the limit of ${LIMITS.values}`);
  expect((await ask(wide(50))).errors).toBeUndefined();
});

it('allows fewer values if they are computed in one go', async () => {
  const { errors } = await ask(wide(50, 'id @include(if: true)'));
  expect(errors[0].message).toContain(`values, more than the limit of ${LIMITS.valuesInOneGo}`);
});

it('ends queries whose lists hold far more than usual', async () => {
  const within = (names: readonly string[], last = 'id') =>
    names.reduceRight((below, name) => `${name} { nodes { ${below} } }`, last);
  const usual = await ask(`{ ${within(['heavyRows', 'some'])} }`);
  expect(usual.data.heavyRows.nodes[0].some.nodes).toHaveLength(many.length);
  const endless = await ask(`{ ${within(['heavyRows', 'some', 'others', 'more'])} }`);
  expect(endless).toEqual({
    data: null,
    errors: [
      {
        message: `The answer has more than the limit of ${LIMITS.values} values: ask for smaller pages, or for fewer fields`,
        extensions: { code: 'QUERY_LIMIT_EXCEEDED' },
      },
    ],
  });
  const { errors } = await ask(`{ ${within(['heavyRows', 'some', 'others'], 'id @include(if: true)')} }`);
  expect(errors[0].message).toContain(`more than the limit of ${LIMITS.valuesInOneGo} values`);
});

it('counts whole pages for a list within itself', async () => {
  const score = async (fields: string) =>
    (await ask(`{ queryComplexity { score } heavyRows(first: 1) { nodes { ${fields} } } }`)).data.queryComplexity.score;
  expect(await score('some { nodes { others(first: 1) { nodes { id } } } }')).toBe(3);
  expect(await score('some { nodes { others(first: 1) { nodes { some { nodes { id } } } } } }')).toBe(103);
});

it('lets other work run while it computes a long list', async () => {
  let isOver = false;
  const tick = () => {
    turns++;
    if (!isOver) setImmediate(tick);
  };
  tick();
  const { data } = await ask('{ heavyRows { nodes { id busy } } }');
  isOver = true;
  expect(data.heavyRows.nodes).toEqual(rows.map(({ id }) => ({ id: String(id), busy: 1 })));
  expect(new Set(turnsSeen).size).toBe(rows.length);
});

it('refuses to write an answer that is too long', async () => {
  const { errors, data } = await ask('{ heavyRows { nodes { text } } }');
  expect(data).toBeNull();
  expect(errors).toEqual([
    {
      message: `The answer exceeds the limit of ${LIMITS.answerLength} characters: ask for smaller pages`,
      extensions: { code: 'QUERY_LIMIT_EXCEEDED' },
    },
  ]);
  expect((await ask('{ heavyRows(first: 2) { nodes { text } } }')).errors).toBeUndefined();
  const batch = await post(Array(2).fill({ query: '{ heavyRows(first: 3) { nodes { text } } }' }));
  expect(batch[0].errors).toBeUndefined();
  expect(batch[1].errors[0].message).toContain('The answer exceeds the limit');
});

it('answers queries in every form of request only when it is their turn', async () => {
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const signal = new AbortController().signal;
  const taken = Array.from({ length: 16 }, () => server.answers.inTurn(signal, () => over));
  const ran = turnsSeen.length;
  const query = '{ heavyRows(first: 1) { nodes { busy } } }';
  const sent = [
    ['application/json', '*/*', JSON.stringify({ query })],
    ['application/json', '*/*', JSON.stringify([{ query }])],
    ['application/json', 'text/event-stream', JSON.stringify({ query })],
    ['application/graphql', '*/*', query],
  ] as const;
  const waiting = sent.map(async ([type, accept, body]) => {
    const headers = { 'content-type': type, accept };
    return (await fetch(server.url, { method: 'POST', headers, body })).text();
  });
  // Refused queries need no turn.
  for (let n = 0; n < 10; n++) expect((await ask('{ nothing }')).errors).toHaveLength(1);
  expect(turnsSeen).toHaveLength(ran);
  end();
  await Promise.all(taken);
  for (const answer of await Promise.all(waiting)) expect(answer).toContain('"busy":1');
  expect(turnsSeen).toHaveLength(ran + sent.length);
});
