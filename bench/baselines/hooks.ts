import { createHmac, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { run } from 'graphile-worker';
import pg from 'pg';
import { Agent, request } from 'undici';
import { announce } from './announce.ts';

// The maximum rate of deliveries, and the minimum latency of jobs.
//     POST /deliver?count=N&to=URL  sends the body N times, signed, 64 at a time, and writes log rows in batches.
//                                   Answers when all rows are written.
//     POST /job                     adds a job to graphile-worker. Answers with the milliseconds until its handler ran.
const connectionString = process.env.DATABASE_URL ?? '';
const pool = new pg.Pool({ connectionString, max: 4 });
await pool.query(`
  create table if not exists bare_attempts (like webhook_attempts including all);
  create sequence if not exists bare_attempts_id_seq owned by bare_attempts.id`);

const CONCURRENCY = 64;
const GROUP_MS = 3;
const MAX_GROUP = 256;
const key = Buffer.alloc(32, 1);
const agent = new Agent({ connections: CONCURRENCY, pipelining: 1 });

const deliver = async (count: number, url: string, body: Buffer): Promise<void> => {
  const log = new Log();
  let sent = 0;
  const send = async (): Promise<void> => {
    const id = randomUUID();
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
    const headers = {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    };
    const startedAt = performance.now();
    const answer = await request(url, { method: 'POST', headers, body, dispatcher: agent });
    const text = await answer.body.text();
    await log.write({
      delivery_id: id,
      webhook_id: 1,
      attempt: 1,
      trigger: 'push_events',
      request_url: url,
      request_headers: headers,
      response_status: answer.statusCode,
      response_headers: answer.headers,
      response_body: text,
      duration_ms: Math.round(performance.now() - startedAt),
    });
  };
  await Promise.all(
    // More senders than requests in flight, because senders also wait for their log row.
    Array.from({ length: CONCURRENCY * 4 }, async () => {
      while (sent < count) {
        sent++;
        await send();
      }
    }),
  );
};

class Log {
  #waiting: { row: object; written: () => void }[] = [];
  #timer: NodeJS.Timeout | undefined;

  write(row: object): Promise<void> {
    return new Promise((written) => {
      this.#waiting.push({ row, written });
      if (this.#waiting.length >= MAX_GROUP) void this.#flush();
      else this.#timer ??= setTimeout(() => void this.#flush(), GROUP_MS);
    });
  }

  async #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const group = this.#waiting.splice(0);
    await pool.query({
      name: 'log',
      text: `
        insert into bare_attempts (id, delivery_created_at, payload_id, delivery_id, webhook_id, attempt, trigger, request_url, request_headers,
          response_status, response_headers, response_body, duration_ms)
        select nextval('bare_attempts_id_seq'), now(), 1, given.* from json_to_recordset($1::json) as given (
          delivery_id uuid, webhook_id bigint, attempt int, trigger text, request_url text, request_headers json,
          response_status int, response_headers json, response_body text, duration_ms int)`,
      values: [JSON.stringify(group.map(({ row }) => row))],
    });
    for (const { written } of group) written();
  }
}

let handled: () => void = () => {};
const runner = await run({
  connectionString,
  concurrency: 8,
  noHandleSignals: true,
  logger: undefined,
  schema: 'bare_worker',
  taskList: { bare: () => handled() },
});

const server = createServer((incoming, response) => {
  const { pathname, searchParams } = new URL(incoming.url ?? '', 'http://bare');
  const chunks: Buffer[] = [];
  incoming
    .on('data', (chunk: Buffer) => chunks.push(chunk))
    .on('end', async () => {
      if (pathname === '/job') {
        const ran = new Promise<void>((resolve) => {
          handled = resolve;
        });
        const start = performance.now();
        await runner.addJob('bare', {});
        await ran;
        response.end(String(performance.now() - start));
        return;
      }
      await deliver(Number(searchParams.get('count')), searchParams.get('to') ?? '', Buffer.concat(chunks));
      response.end();
    });
});
announce(server);
