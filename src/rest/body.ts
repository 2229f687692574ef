import { randomUUID } from 'node:crypto';
import type { MultipartFile } from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Context } from '#platform/context.ts';
import { badParameters, DomainError, invalid } from '#platform/errors.ts';
import { RestError } from './errors.ts';
import { expandJson, insertParameter, noParameters, type Parameters, parseForm } from './nested.ts';
import { type FileOptions, SpooledFile, UPLOAD_PREFIX } from './upload.ts';

/** Bodies of JSON and forms, which are read whole. A description may have a megabyte of characters, in JSON escapes. */
export const MAX_BODY_BYTES = 8 * 1024 * 1024;

/** Teaches a scope the body forms of v4 clients. A multipart body is left for `receiveForm`. */
export const registerBodyParsers = (scope: FastifyInstance): void => {
  scope.removeAllContentTypeParsers();
  for (const type of ['application/json', /^application\/[a-z0-9.-]+\+json/]) {
    scope.addContentTypeParser(type, { parseAs: 'string' }, (_request, text, done) => {
      settle(() => expandJson(parseJson(String(text))), done);
    });
  }
  scope.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, text, done) => {
    settle(() => parseForm(String(text)), done);
  });
  scope.addContentTypeParser('*', (request, _payload, done) => {
    if (request.headers['content-length'] === '0') done(null, undefined);
    else done(unsupportedType(request.headers['content-type'] ?? ''));
  });
};

export const isMultipart = (request: FastifyRequest): boolean =>
  request.headers['content-type']?.toLowerCase().startsWith('multipart/form-data') ?? false;

interface ReceivedForm {
  readonly fields: Parameters;
  readonly files: readonly SpooledFile[];
}

/**
 * Reads a multipart body. Declared files go to storage as they arrive, since the fields that decide about them may come
 * later; whatever goes wrong, none stays behind. Other files are read and dropped.
 */
export const receiveForm = async (
  request: FastifyRequest,
  ctx: Context,
  declared: ReadonlyMap<string, FileOptions>,
): Promise<ReceivedForm> => {
  const fields = noParameters();
  const files: SpooledFile[] = [];
  let fieldBytes = 0;
  try {
    const limits = { ...LIMITS, files: Math.max(declared.size, 1), fileSize: Infinity };
    for await (const part of request.parts({ limits })) {
      if (part.type === 'file') {
        const options = declared.get(part.fieldname);
        if (options) {
          const file = await spool(part, ctx, options);
          files.push(file);
          insertParameter(fields, part.fieldname, file);
        } else {
          await dropFile(part);
        }
        continue;
      }
      const value = typeof part.value === 'string' ? part.value : JSON.stringify(part.value);
      fieldBytes += value.length;
      if (fieldBytes > MAX_BODY_BYTES || part.valueTruncated || part.fieldnameTruncated) throw tooLarge();
      insertParameter(fields, part.fieldname, value);
    }
    return { fields, files };
  } catch (error) {
    await releaseAll(files);
    throw error;
  }
};

/** Removes what nobody kept. */
export const releaseAll = async (files: readonly SpooledFile[]): Promise<void> => {
  await Promise.all(files.map((file) => file.release()));
};

const LIMITS = { fieldNameSize: 500, fieldSize: MAX_BODY_BYTES, fields: 1_000, parts: 1_020, headerPairs: 50 };

const spool = async (part: MultipartFile, ctx: Context, options: FileOptions): Promise<SpooledFile> => {
  const { storage } = ctx.services;
  const key = UPLOAD_PREFIX + randomUUID();
  const maxBytes = typeof options.maxBytes === 'function' ? await options.maxBytes(ctx) : options.maxBytes;
  const contentType = part.mimetype;
  try {
    const stored = await storage.write(key, part.file, {
      contentType,
      signal: ctx.signal,
      ...(maxBytes === null ? {} : { maxBytes }),
    });
    return new SpooledFile({ key, ...stored, filename: part.filename, contentType }, storage);
  } catch (error) {
    // Storage says what is wrong with itself by DomainError; an error of the source is the sender's.
    if (part.file.errored && !(error instanceof DomainError)) throw malformed();
    if (options.tooLarge !== undefined && error instanceof DomainError && error.code === 'too_large') {
      throw invalid({ [part.fieldname]: [options.tooLarge] });
    }
    throw error;
  }
};

const dropFile = async (part: MultipartFile): Promise<void> => {
  let size = 0;
  for await (const chunk of part.file) {
    size += Buffer.byteLength(chunk);
    if (size > MAX_BODY_BYTES) throw tooLarge();
  }
};

const parseJson = (text: string): unknown => {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw badParameters('body is not valid JSON');
  }
};

const settle = (parse: () => Parameters, done: (error: Error | null, body?: Parameters) => void): void => {
  let body: Parameters;
  try {
    body = parse();
  } catch (error) {
    done(error instanceof Error ? error : new Error(String(error)));
    return;
  }
  done(null, body);
};

/** Of busboy's errors only the limits have a code; the rest is about the form's syntax. */
export const asFormError = (error: unknown): unknown =>
  error instanceof Error && error.constructor === Error && !('code' in error) ? malformed() : error;

const malformed = () => new RestError(400, { error: 'the multipart form is malformed' });
const tooLarge = () => new RestError(413, { message: '413 Request Entity Too Large' });
const unsupportedType = (type: string) =>
  new RestError(415, { error: `The provided content-type '${type.slice(0, 100)}' is not supported.` });
