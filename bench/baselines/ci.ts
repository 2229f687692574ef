import { createHash, randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { parse } from 'yaml';
import { createPool } from '../../src/platform/db/pool.ts';
import { announce } from './announce.ts';

// The minimum for each part of the bench `ci`, without callers, permissions and events:
// - /take: one statement takes the next row of a queue, writes who runs it since when with which token, and its event.
//   The job is sent as JSON, in as many bytes as the hub sends. It leaves out whose turn it is, which runner may take
//   which job, what changes between creation and start (variables, refs, artifacts), and the status of the pipeline.
// - /hold: a connection that is never answered.
// - /upload: the body goes to a file and a hash, and is on disk before the answer.
// - /file?offset=N&size=N: two reads of the archive, one as large as a block of an index, one of the file.
// - /pipeline: parses the CI file in the body, and copies a row for each of its jobs.
const { DATABASE_URL = '', DIRECTORY = '' } = process.env;
const pool = createPool({ connectionString: DATABASE_URL, max: 20, applicationName: 'baseline' });
// The hub's pool pipelines statements, which COPY does not allow.
const copyPool = new pg.Pool({ connectionString: DATABASE_URL, max: 1 });
const BLOCK = 16 * 1024;
const archive = () => join(DIRECTORY, 'archive.zip');

const take = async (response: ServerResponse): Promise<void> => {
  const { rows } = await pool.query<{ job: unknown }>({
    name: 'take',
    text: `with taken as (
        update bare_queue set status = 'running', runner_id = $1, started_at = now(), token_digest = $2
        where id = (select id from bare_queue where status = 'pending' order by id limit 1 for update skip locked)
        returning id
      ), told as (
        insert into bare_events (kind, subject_id, payload)
        select 'job.updated', id, jsonb_build_object('id', id, 'status', 'running', 'runner_id', $1::bigint) from taken
      )
      select job from taken, bare_payload`,
    values: [1, createHash('sha256').update(randomUUID()).digest()],
  });
  if (rows.length === 0) return void response.writeHead(204).end();
  send(response, 201, rows[0]?.job);
};

const upload = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const hash = createHash('sha256');
  const file = await open(join(DIRECTORY, 'uploaded'), 'w');
  await pipeline(
    request,
    async function* (source) {
      for await (const chunk of source) {
        hash.update(chunk);
        yield chunk;
      }
    },
    file.createWriteStream({ flush: true }),
  );
  send(response, 201, { sha256: hash.digest('hex') });
};

const readFile = async (query: URLSearchParams, response: ServerResponse): Promise<void> => {
  const [offset, size] = [Number(query.get('offset')), Number(query.get('size'))];
  const file = await open(archive(), 'r');
  await file.read(Buffer.alloc(BLOCK), 0, BLOCK, 0);
  await file.close();
  const again = await open(archive(), 'r');
  const { buffer } = await again.read(Buffer.alloc(size), 0, size, offset);
  await again.close();
  response.writeHead(200, { 'content-type': 'text/plain', 'content-length': size }).end(buffer);
};

const createPipeline = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  const file: unknown = parse(text);
  const jobs = Object.entries(Object(file)).filter(([, job]) => Object.hasOwn(Object(job), 'script'));
  const client = await copyPool.connect();
  try {
    const rows = jobs.map(([name, job]) => `${name}\t${JSON.stringify(job).replaceAll('\\', '\\\\')}\n`);
    await pipeline([rows.join('')], client.query(copyFrom('copy bare_jobs (name, options) from stdin')));
  } finally {
    client.release();
  }
  send(response, 201, { jobs: jobs.length });
};

const send = (response: ServerResponse, status: number, value: unknown): void => {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
};

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://bench');
  if (pathname === '/take') await take(response);
  else if (pathname === '/upload') await upload(request, response);
  else if (pathname === '/file') await readFile(searchParams, response);
  else if (pathname === '/pipeline') await createPipeline(request, response);
};

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
});
server.requestTimeout = 0;
announce(server);
