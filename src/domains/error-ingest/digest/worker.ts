import { constants, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import pg from 'pg';
import { type Contents, readContents } from './read.ts';
import type { Answer, Batch, ThreadData } from './thread.ts';

// Reads envelopes in a thread of its own, so that they never block requests (digest/thread.ts).

// On Linux this is the priority of the thread alone. Requests go first where processors are few.
try {
  if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
} catch {
  // Some sandboxes forbid it. Then reports are read as fast as requests are answered.
}

const { connectionString }: ThreadData = workerData;
let connecting: Promise<pg.Client> | null = null;

const connect = async (): Promise<pg.Client> => {
  const client = new pg.Client({
    connectionString,
    application_name: 'millrace digest',
    connectionTimeoutMillis: 10_000,
  });
  // The statement that fails reports it.
  client.on('error', () => undefined);
  await client.connect();
  return client;
};

const readBodies = async (ids: readonly number[]): Promise<ReadonlyMap<number, Buffer>> => {
  connecting ??= connect();
  try {
    const client = await connecting;
    // Hexadecimal, the usual form of bytea, takes Node six times as long to decode.
    const { rows } = await client.query<{ id: string; body: string }>({
      name: 'bodies',
      text: `select id, encode(body, 'base64') as body from ingest_envelopes where id = any ($1::bigint[])`,
      values: [ids],
    });
    return new Map(rows.map(({ id, body }) => [Number(id), Buffer.from(body, 'base64')]));
  } catch (error) {
    const failed = connecting;
    connecting = null;
    void failed.then((client) => client.end()).catch(() => undefined);
    throw error;
  }
};

const answer = async (batch: Batch): Promise<Answer> => {
  let bodies: ReadonlyMap<number, Buffer>;
  try {
    bodies = await readBodies(batch.map(({ id }) => id));
  } catch (error) {
    return { unread: error instanceof Error ? error.message : String(error) };
  }
  const contents: Contents[] = [];
  for (const envelope of batch) {
    const body = bodies.get(envelope.id);
    // The main thread has locked the rows, and removes all of them after this answer.
    if (!body) return { unread: `the body of envelope ${envelope.id} is missing` };
    contents.push(readContents({ ...envelope, body }));
  }
  return { contents };
};

parentPort?.on('message', async (batch: Batch) => {
  const answered = await answer(batch);
  const events = 'contents' in answered ? answered.contents.flatMap((each) => each.events) : [];
  parentPort?.postMessage(
    answered,
    events.map(({ payload }) => payload.buffer),
  );
});
