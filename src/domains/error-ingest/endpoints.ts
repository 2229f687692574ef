import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { COLLECTOR } from '#domains/error-tracking/model.ts';
import { drainBody } from '#platform/concurrency/drain.ts';
import { type Services, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { type Incoming, type ReadBody, readDsnOfStart, readEnvelopeBody, readEventBody, readStart } from './body.ts';
import { readDsn, readKey, readProjectId } from './credentials.ts';
import { Intake } from './intake.ts';
import { findKey, type IngestKey } from './keys.ts';
import type { Form } from './model.ts';
import { malformed, Refusal, unknownKey } from './refusal.ts';

/** Sent with every answer: without them, browsers hide answers and limits from the SDK (reference: error-tracking §3). */
const CORS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'x-sentry-error, x-sentry-rate-limits, retry-after',
  'Cross-Origin-Resource-Policy': 'cross-origin',
};
const PREFLIGHT = {
  ...CORS,
  'Access-Control-Allow-Methods': 'POST',
  'Access-Control-Max-Age': '3600',
  'Access-Control-Allow-Headers': [
    ...['x-sentry-auth', 'x-requested-with', 'x-forwarded-for', 'origin', 'referer', 'accept', 'content-type'],
    ...['authentication', 'authorization', 'content-encoding', 'transfer-encoding', 'sentry-trace', 'baggage'],
  ].join(', '),
};

/** A handler of a request. It must end the response. */
type Handle = (request: FastifyRequest, response: ServerResponse) => Promise<void> | void;

/**
 * Mounts the endpoints that Sentry SDKs report to. They use the forms and errors of these SDKs, not those of the API, and
 * their answers never redirect, because SDKs do not follow.
 *
 * Requests leave Fastify in the first hook of their route. Its parsers, hooks and replies would cost more than storing a
 * report does.
 */
export const mountCollector = (fastify: FastifyInstance, { services }: { readonly services: Services }): void => {
  const intake = new Intake(createContextFactory(services)({ actor: systemActor }));
  const mount = (methods: string[], url: string, handle: Handle) =>
    fastify.route({
      method: methods,
      url,
      onRequest: (request, reply) => {
        reply.hijack();
        void answer(services, request, reply.raw, handle);
      },
      handler: unreachable,
    });
  for (const [name, form] of [
    ['envelope', 'envelope'],
    ['store', 'event'],
  ] as const) {
    mount(['POST'], `${COLLECTOR}/api/:project_id/${name}`, (request, response) =>
      take(services, intake, form, request, response),
    );
  }
  mount(['OPTIONS'], `${COLLECTOR}/*`, (_request, response) => {
    response.writeHead(204, PREFLIGHT).end();
  });
  mount(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], `${COLLECTOR}/*`, () => {
    throw new Refusal(404, 'only the endpoints envelope and store exist');
  });
  fastify.addHook('onClose', () => intake.close());
};

const unreachable = (): never => {
  throw new Error('the request was answered before');
};

/** Handles a request, and answers errors. Never throws. */
const answer = async (
  { log }: Services,
  request: FastifyRequest,
  response: ServerResponse,
  handle: Handle,
): Promise<void> => {
  try {
    await handle(request, response);
  } catch (error) {
    if (error instanceof Refusal) return sendRefusal(request.raw, response, error);
    const isGone = request.raw.destroyed && !request.raw.complete;
    if (isGone) return log.debug({ err: error, request_id: request.id }, 'the sender has gone');
    log.error({ err: error, request_id: request.id }, 'request failed');
    sendRefusal(request.raw, response, new Refusal(503, 'the request failed; send it again'));
  }
};

const take = async (
  services: Services,
  intake: Intake,
  form: Form,
  request: FastifyRequest,
  response: ServerResponse,
): Promise<void> => {
  const projectId = projectIdOf(request);
  const named = await findNamedKey(services, request, projectId);
  if (!named && form === 'event') throw unknownKey();
  const { incoming, key } = await openBody(services, intake, request, projectId, named);
  let read: ReadBody;
  try {
    read = await (form === 'envelope' ? readEnvelopeBody : readEventBody)(incoming, key.project_id);
    if (named && read.dsn !== undefined) await requireSameKey(services, projectId, named, read.dsn);
  } catch (error) {
    if (error instanceof Refusal) intake.noteInvalid(key);
    throw error;
  }
  if (read.dropped > 0) intake.noteDropped(key, read.dropped);
  const event_id = read.event_id ?? (read.hasEvent ? randomUUID().replaceAll('-', '') : null);
  if (!read.isEmpty) {
    await intake.accept(key, read.hasEvent ? 'events' : 'others', {
      ...{ project_id: key.project_id, key_id: key.id, event_id, form, address: request.ip },
      ...{ encoding: read.encoding, size: read.size, body: read.body },
    });
  }
  sendJson(response, 200, CORS, event_id === null ? '{}' : `{"id":"${event_id}"}`);
};

/** Finds the key that the headers or the query name. Null if they name none: the body may. @throws Refusal 401 */
const findNamedKey = async (
  services: Services,
  request: FastifyRequest,
  projectId: number | null,
): Promise<IngestKey | null> => {
  const text = readKey(request.headers, request.query);
  if (text === null) return null;
  const key = text === 'conflict' || projectId === null ? null : await findKey(services, text, projectId);
  if (!key) throw unknownKey();
  return key;
};

/**
 * Reads the start of a body. If the request names no key, the DSN in the header of the envelope does, and errors of the
 * body are only for callers with a key.
 *
 * @throws Refusal 401 if no key is found before the body is unpacked
 */
const openBody = async (
  services: Services,
  intake: Intake,
  request: FastifyRequest,
  projectId: number | null,
  named: IngestKey | null,
): Promise<{ readonly incoming: Incoming; readonly key: IngestKey }> => {
  try {
    const incoming = await readStart(request.raw);
    const key = named ?? (await findKeyOfDsn(services, projectId, await readDsnOfStart(incoming)));
    if (!key) throw unknownKey();
    return { incoming, key };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (!named) throw unknownKey();
    intake.noteInvalid(named);
    throw error;
  }
};

const findKeyOfDsn = async (services: Services, projectId: number | null, dsn: unknown): Promise<IngestKey | null> => {
  const parts = readDsn(dsn);
  const isSameProject = projectId !== null && parts?.projectId === projectId;
  return parts && isSameProject ? findKey(services, parts.key, projectId) : null;
};

/** A DSN in the envelope must agree with the request. @throws Refusal 400 */
const requireSameKey = async (
  services: Services,
  projectId: number | null,
  named: IngestKey,
  dsn: unknown,
): Promise<void> => {
  if (readDsn(dsn) === null) return;
  const key = await findKeyOfDsn(services, projectId, dsn);
  if (key?.id !== named.id) throw malformed('the DSN in the envelope differs from the key of the request');
};

const projectIdOf = ({ params }: FastifyRequest): number | null => {
  const id = typeof params === 'object' && params !== null && 'project_id' in params ? params.project_id : null;
  return typeof id === 'string' ? readProjectId(id) : null;
};

/**
 * Sends an error. A 429 has no body, because an SDK that finds one ignores the limits. The rest of the request is read
 * and dropped, because many senders write everything before they read.
 */
const sendRefusal = (request: IncomingMessage, response: ServerResponse, refusal: Refusal): void => {
  const { status, message, limit } = refusal;
  const headers: Record<string, string | number> = { ...CORS, 'X-Sentry-Error': message };
  if (!request.complete) {
    headers.Connection = 'close';
    drainBody(request);
  }
  if (limit) {
    headers['Retry-After'] = limit.seconds;
    headers['X-Sentry-Rate-Limits'] = limit.header;
  } else if (status === 503) headers['Retry-After'] = RETRY_SECONDS;
  if (status === 429) response.writeHead(status, { ...headers, 'Content-Length': 0 }).end();
  else sendJson(response, status, headers, JSON.stringify({ detail: message, causes: [] }));
};

const sendJson = (
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string | number>>,
  text: string,
): void => {
  const own = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
  response.writeHead(status, { ...headers, ...own }).end(text);
};

const RETRY_SECONDS = 10;
