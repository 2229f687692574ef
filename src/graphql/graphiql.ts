import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { gunzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

interface Page {
  readonly br: Buffer;
  readonly gzip: Buffer;
  readonly etag: string;
}

let page: Promise<Page> | null = null;

/** Serves the GraphiQL page from local assets. The page is compressed once, on the first request. */
export const sendGraphiql = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
  page ??= render().catch((error: unknown) => {
    page = null;
    throw error;
  });
  const { br, gzip, etag } = await page;
  reply.headers({
    etag,
    vary: 'Accept-Encoding, Accept',
    'cache-control': 'private, no-cache',
    'content-security-policy':
      "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; style-src 'unsafe-inline'; img-src data:; font-src data:; worker-src blob:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
  });
  if (request.headers['if-none-match'] === etag) return reply.code(304).send();
  reply.type('text/html; charset=utf-8');
  const accepted = request.headers['accept-encoding'] ?? '';
  if (/\bbr\b/.test(accepted)) return reply.header('content-encoding', 'br').send(br);
  if (/\bgzip\b/.test(accepted)) return reply.header('content-encoding', 'gzip').send(gzip);
  return reply.send(await inflate(gzip));
};

const render = async (): Promise<Page> => {
  const worker = new Worker(new URL('./graphiql-worker.ts', import.meta.url));
  try {
    const [message]: unknown[] = await once(worker, 'message');
    if (!isCompressed(message)) throw new Error('the GraphiQL page could not be rendered');
    const gzip = Buffer.from(message.gzip);
    return {
      br: Buffer.from(message.br),
      gzip,
      etag: `"${createHash('sha256').update(gzip).digest('base64url').slice(0, 22)}"`,
    };
  } finally {
    await worker.terminate();
  }
};

const isCompressed = (message: unknown): message is { br: Uint8Array; gzip: Uint8Array } =>
  typeof message === 'object' &&
  message !== null &&
  'br' in message &&
  message.br instanceof Uint8Array &&
  'gzip' in message &&
  message.gzip instanceof Uint8Array;

const inflate = (data: Buffer): Promise<Buffer> => {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  gunzip(data, (error, result) => (error ? reject(error) : resolve(result)));
  return promise;
};
