import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { MultipartFile } from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Context } from '#platform/context.ts';
import { DomainError, invalid } from '#platform/errors.ts';
import { readBodyText } from './body-text.ts';
import { RestError } from './errors.ts';
import { type BodyKind, LARGE_BODY_BYTES, parseLargeBody } from './large-bodies.ts';
import { expandJson, insertParameter, MAX_JSON_DEPTH, noParameters, type Parameters } from './nested.ts';
import { type FileOptions, type FilePlace, SpooledFile, UPLOAD_PREFIX } from './upload.ts';

/** The maximum size of a body that is read as a whole, unless the route declares another. */
export const MAX_BODY_BYTES = 1024 * 1024;
/** The maximum number of object members and list items in a JSON body, unless the route declares another. */
const MAX_BODY_VALUES = 20_000;
/** Bodies up to this size are read even without a credential in the headers, because the body may carry one. */
export const NOBODYS_BODY_BYTES = 64 * 1024;

/** Registers the body parsers for v4 clients on a scope. Multipart bodies are left to `receiveForm`. */
export const registerBodyParsers = (scope: FastifyInstance): void => {
  scope.removeAllContentTypeParsers();
  for (const type of ['application/json', /^application\/[a-z0-9.-]+\+json/]) {
    scope.addContentTypeParser(type, { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) =>
      expandJson(await readBytes('json', request, bytes)),
    );
  }
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, bytes: Buffer) => expandJson(await readBytes('form', request, bytes)),
  );
  scope.addContentTypeParser('*', (request, _payload, done) => {
    const { config, bodyLimit } = request.routeOptions;
    if (config.rawBody) readRaw(request.raw, bodyLimit).then((bytes) => done(null, bytes), done);
    else if (request.headers['content-length'] === '0') done(null, undefined);
    else done(unsupportedType(request.headers['content-type'] ?? ''));
  });
};

/** Reads a body that is no parameters. @throws RestError 413 */
const readRaw = async (request: IncomingMessage, maxBytes: number): Promise<Buffer> => {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
  const chunks: Buffer[] = [];
  let size = 0;
  // Destroying the request would close the connection before the answer is sent.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += chunk.length;
    if (size > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};

export const isMultipart = (request: FastifyRequest): boolean =>
  request.headers['content-type']?.toLowerCase().startsWith('multipart/form-data') ?? false;

interface ReceivedForm {
  readonly fields: Parameters;
  readonly files: readonly SpooledFile[];
}

/**
 * Reads a multipart body. Declared files are streamed to storage as they arrive, because the fields that decide about
 * them may come later. All of them are removed on failure. Other files are read and discarded. `place` is for routes
 * with one file that decide about it beforehand.
 */
export const receiveForm = async (
  request: FastifyRequest,
  ctx: Context,
  declared: ReadonlyMap<string, FileOptions>,
  place: FilePlace | null,
): Promise<ReceivedForm> => {
  const fields = noParameters();
  const files = new Map<string, SpooledFile>();
  // The limit applies to all fields together, as in other bodies.
  const maxBytes = request.routeOptions.bodyLimit;
  let fieldBytes = 0;
  try {
    const limits = { ...LIMITS, fieldSize: maxBytes, files: declared.size + MAX_OTHER_FILES, fileSize: Infinity };
    for await (const part of request.parts({ limits })) {
      if (part.type === 'file') {
        const options = declared.get(part.fieldname);
        if (options) {
          if (files.has(part.fieldname))
            throw new RestError(400, { error: `${part.fieldname} is invalid (allowed: one file)` });
          const file = await spool(part, ctx, options, place);
          files.set(part.fieldname, file);
          insertParameter(fields, part.fieldname, file);
        } else {
          await dropFile(part, maxBytes);
        }
        continue;
      }
      const value = typeof part.value === 'string' ? part.value : JSON.stringify(part.value);
      fieldBytes += value.length;
      if (fieldBytes > maxBytes || part.valueTruncated || part.fieldnameTruncated) throw tooLarge();
      insertParameter(fields, part.fieldname, value);
    }
    return { fields, files: [...files.values()] };
  } catch (error) {
    await releaseAll([...files.values()]);
    throw error;
  }
};

/** Removes all files that were not kept. */
export const releaseAll = async (files: readonly SpooledFile[]): Promise<void> => {
  await Promise.all(files.map((file) => file.release()));
};

/** Files that a route does not declare. Parameters that it does not know are ignored, too. */
const MAX_OTHER_FILES = 10;
const LIMITS = { fieldNameSize: 500, fields: 1_000, parts: 1_020, headerPairs: 50 };

const spool = async (
  part: MultipartFile,
  ctx: Context,
  options: FileOptions,
  place: FilePlace | null,
): Promise<SpooledFile> => {
  const { storage } = ctx.services;
  const { key, maxBytes, tooLarge } = place ?? {
    key: UPLOAD_PREFIX + randomUUID(),
    maxBytes: typeof options.maxBytes === 'function' ? await options.maxBytes(ctx) : options.maxBytes,
  };
  const contentType = part.mimetype;
  try {
    const stored = await storage.write(key, part.file, {
      contentType,
      signal: ctx.signal,
      ...(maxBytes === null ? {} : { maxBytes }),
    });
    return new SpooledFile({ key, ...stored, filename: part.filename, contentType }, storage);
  } catch (error) {
    // Storage reports its own problems as DomainErrors. Any other error while the source failed is the sender's.
    if (part.file.errored && !(error instanceof DomainError)) throw malformed();
    if (tooLarge && error instanceof DomainError && error.code === 'too_large') throw tooLarge;
    if (options.tooLarge !== undefined && error instanceof DomainError && error.code === 'too_large') {
      throw invalid({ [part.fieldname]: [options.tooLarge] });
    }
    if (options.setting !== undefined && error instanceof DomainError && error.code === 'too_large')
      throw new DomainError('too_large', `${error.message} (${options.setting})`);
    throw error;
  }
};

const dropFile = async (part: MultipartFile, maxBytes: number): Promise<void> => {
  let size = 0;
  for await (const chunk of part.file) {
    size += Buffer.byteLength(chunk);
    if (size > maxBytes) throw tooLarge();
  }
};

const readBytes = async (kind: BodyKind, request: FastifyRequest, bytes: Buffer): Promise<unknown> => {
  const limits = { values: request.routeOptions.config.maxBodyValues ?? MAX_BODY_VALUES, depth: MAX_JSON_DEPTH };
  return bytes.length > LARGE_BODY_BYTES
    ? parseLargeBody({ kind, bytes, limits })
    : readBodyText(kind, bytes.toString('utf8'), limits);
};

/** Maps busboy's syntax errors to a 400. Only its limit errors have a code, and these pass unchanged. */
export const asFormError = (error: unknown): unknown =>
  error instanceof Error && error.constructor === Error && !('code' in error) ? malformed() : error;

const malformed = () => new RestError(400, { error: 'the multipart form is malformed' });
const tooLarge = () => new RestError(413, { message: '413 Request Entity Too Large' });
const unsupportedType = (type: string) =>
  new RestError(415, { error: `The provided content-type '${type.slice(0, 100)}' is not supported.` });
