import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createPool } from '../../src/platform/db/pool.ts';
import { announce } from './announce.ts';

// The minimum for the list of projects: one named prepared statement, its rows as JSON, and the headers and bytes that
// the hub sends. No callers, no permissions, no parameters, no count. Columns that a record shows as they are stored are
// read for each request. What the hub computes of them (URLs, permissions, totals) is taken from the hub's own answer.

type Json = Readonly<Record<string, unknown>>;

/** The answers of the hub. The bench writes these to the file in ANSWERS. */
export interface HubAnswer {
  readonly path: string;
  readonly orderBy: 'created_at' | 'id';
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

const pool = createPool({ connectionString: process.env.DATABASE_URL ?? '', max: 20, applicationName: 'baseline' });

const NAMESPACE = 'namespace_';

const serverOf = async ({ orderBy, headers, text }: HubAnswer) => {
  const records: readonly (Json & { readonly id: number; readonly namespace: Json })[] = JSON.parse(text);
  const statement = (columns: string) => `select ${columns} from projects p join namespaces n on n.id = p.namespace_id
    order by p.${orderBy} desc, p.id desc limit 20`;
  const all = await pool.query<Json>(
    statement(`p.*, n.name as namespace_name, n.path as namespace_path, n.kind as namespace_kind,
      n.full_path as namespace_full_path, n.parent_id as namespace_parent_id`),
  );
  const isStored = (value: (record: Json & { readonly namespace: Json }) => unknown, column: string) =>
    records.every((record, i) => JSON.stringify(value(record)) === JSON.stringify(all.rows[i]?.[column]));
  const [first] = records;
  const own = Object.keys(first ?? {}).filter((key) => isStored((record) => record[key], key));
  const ofNamespace = Object.keys(first?.namespace ?? {}).filter((key) =>
    isStored((record) => record.namespace[key], NAMESPACE + key),
  );
  const computed = new Map(records.map((record) => [record.id, record]));
  const wanted = {
    name: `projects by ${orderBy}`,
    text: statement(
      [
        ...own.map((key) => `p."${key}"`),
        ...ofNamespace.map((key) => (key === 'id' ? 'p.namespace_id' : `n."${key}" as "${NAMESPACE + key}"`)),
      ].join(),
    ),
  };
  return async () => {
    const { rows } = await pool.query<Json & { readonly id: number }>(wanted);
    const sent = rows.map((row) => {
      const record = computed.get(row.id);
      const namespace: Record<string, unknown> = { ...record?.namespace };
      for (const key of ofNamespace) namespace[key] = row[NAMESPACE + key];
      const made: Record<string, unknown> = { ...record, namespace };
      for (const key of own) made[key] = row[key];
      return made;
    });
    const body = Buffer.from(JSON.stringify(sent));
    return { body, headers: { ...headers, 'content-length': body.length } };
  };
};

const answers: readonly HubAnswer[] = JSON.parse(readFileSync(process.env.ANSWERS ?? '', 'utf8'));
const servers = new Map(
  await Promise.all(answers.map(async (answer) => [answer.path, await serverOf(answer)] as const)),
);

const server = createServer((request, response) => {
  const answer = servers.get(request.url ?? '');
  if (!answer) return void response.writeHead(404).end();
  answer().then(
    ({ headers, body }) => response.writeHead(200, headers).end(body),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
announce(server);
