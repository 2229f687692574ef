import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import type { FastifyReply } from 'fastify';
import { announceDeprecation } from './deprecation.ts';
import { toJson } from './encoded-json.ts';
import { answerError, type ErrorAnswer } from './errors.ts';
import { wantedPart } from './ranges.ts';
import type { Download } from './route.ts';

const JSON_TYPE = 'application/json';
const CACHE_CONTROL = 'max-age=0, private, must-revalidate';

/** Larger responses get no ETag, because hashing them costs more than sending them again. */
const MAX_ETAG_LENGTH = 256 * 1024;

/** Sends JSON with the headers of v4 (conventions §4). A GET whose response the client already has gets 304. */
export const sendJson = (reply: FastifyReply, status: number, body: unknown): FastifyReply =>
  sendPayload(reply, status, toJson(body));

/** Sends serialised JSON as `sendJson` does. As bytes, because Fastify adds a charset to strings. */
export const sendPayload = (reply: FastifyReply, status: number, payload: Buffer): FastifyReply => {
  const { method, headers } = reply.request;
  setCommonHeaders(reply);
  if (status === 200 && payload.length <= MAX_ETAG_LENGTH && (method === 'GET' || method === 'HEAD')) {
    // A checksum is enough for a weak tag, at a third of the cost of SHA-1 (8 against 20 us for 35 KB).
    const etag = `W/"${payload.length.toString(36)}-${crc32(payload).toString(36)}"`;
    reply.header('ETag', etag);
    const known = headers['if-none-match'];
    if (known !== undefined && matches(known, etag)) return reply.code(304).send();
  }
  return reply.code(status).type(JSON_TYPE).send(payload);
};

/** Sends a response without body and content type, such as 204. */
export const sendNothing = (reply: FastifyReply, status: number): FastifyReply => {
  setCommonHeaders(reply);
  return reply.code(status).send();
};

/** Streams a file or the requested part of it. For HEAD, sends only the headers. */
export const sendDownload = async (reply: FastifyReply, status: number, download: Download): Promise<FastifyReply> => {
  setCommonHeaders(reply);
  if (download.location != null) return reply.code(302).header('Location', download.location).send();
  if (download.etag !== undefined) {
    reply.header('ETag', download.etag);
    const known = reply.request.headers['if-none-match'];
    if (known !== undefined && matches(known, download.etag)) {
      if (download.stream instanceof Readable) download.stream.destroy();
      return reply.code(304).send();
    }
  }
  const { size, part: openPart } = download;
  const ranged = openPart && size !== undefined && status === 200;
  if (ranged) reply.header('Accept-Ranges', 'bytes');
  const part = ranged && reply.request.method === 'GET' ? wantedPart(reply.request.headers, size, download.etag) : null;
  if (part === 'outside') {
    if (download.stream instanceof Readable) download.stream.destroy();
    reply.header('Content-Range', `bytes */${size}`);
    return sendJson(reply, 416, { error: '416 Range Not Satisfiable' });
  }
  reply.code(part ? 206 : status).type(download.contentType);
  for (const [name, value] of Object.entries(download.headers ?? {})) reply.header(name, value);
  if (part) {
    reply.header('Content-Range', `bytes ${part.start}-${part.end}/${size}`);
    reply.header('Content-Length', part.end - part.start + 1);
  } else if (size !== undefined) reply.header('Content-Length', size);
  if (download.filename !== undefined) {
    reply.header('Content-Disposition', contentDisposition(download.filename, download.disposition));
  }
  if (reply.request.method === 'HEAD') {
    if (download.stream instanceof Readable) download.stream.destroy();
    return reply.send();
  }
  if (part && openPart) {
    if (download.stream instanceof Readable) download.stream.destroy();
    return reply.send(await openPart(part));
  }
  const stream = typeof download.stream === 'function' ? await download.stream() : download.stream;
  return reply.send(stream);
};

/** Sends the error response of a failed request. Returns it, so that the caller can log unexpected errors. */
export const sendError = (reply: FastifyReply, error: unknown): ErrorAnswer => {
  const answer = answerError(error);
  forgetHeaders(reply);
  for (const [name, value] of Object.entries(answer.headers)) reply.header(name, value);
  // The rest of a refused body is not worth reading.
  if (!reply.request.raw.complete) reply.header('Connection', 'close');
  if (typeof answer.body === 'string') {
    setCommonHeaders(reply);
    reply.code(answer.status).type('text/plain; charset=utf-8').send(answer.body);
  } else sendJson(reply, answer.status, answer.body);
  return answer;
};

/** Builds a Content-Disposition header (RFC 6266) with a plain name for old clients and the encoded original. */
const contentDisposition = (filename: string, disposition: 'attachment' | 'inline' = 'attachment'): string => {
  const name = filename.toWellFormed().replace(/[\p{Cc}/\\]/gu, '_');
  const plain = name.replace(/[^\x20-\x7e]/g, '_').replace(/["%]/g, '_');
  const encoded = encodeURIComponent(name).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return `${disposition}; filename="${plain}"; filename*=UTF-8''${encoded}`;
};

/** Removes the headers of a response that will not be sent. Headers about the request itself remain. */
export const forgetHeaders = (reply: FastifyReply): void => {
  for (const name of Object.keys(reply.getHeaders())) if (!ABOUT_REQUEST.test(name)) reply.removeHeader(name);
};

const ABOUT_REQUEST = /^(connection$|x-request-id$|job-status$|ratelimit-|access-control-)/;

const setCommonHeaders = (reply: FastifyReply): void => {
  announceDeprecation(reply);
  reply.header('Cache-Control', CACHE_CONTROL);
  reply.header('Vary', 'Origin');
  reply.header('X-Content-Type-Options', 'nosniff');
  reply.header('X-Runtime', ((performance.now() - reply.request.startedAt) / 1000).toFixed(6));
};

/** Weak comparison with a list of tags. */
const matches = (known: string, etag: string): boolean =>
  known.split(',').some((each) => {
    const tag = each.trim();
    return tag === '*' || tag === etag || `W/${tag}` === etag;
  });
