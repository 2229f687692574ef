import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import type { Context } from '#platform/context.ts';
import { type DownloadResponse, OutboundError } from '#platform/http-client/http-client.ts';
import { TransferError } from '../model.ts';
import { checkHeaders, type SizeLimit, single } from './headers.ts';
import { type ArchiveSource, requestUrl } from './source.ts';

const TIMEOUT_MS = 6 * 60 * 60_000;
const SILENCE_MS = 2 * 60_000;
const MAX_REDIRECTS = 3;
/** Failures in a row, without a byte in between. */
const MAX_FAILURES = 5;
const MAX_REQUESTS = 200;
const FIRST_DELAY_MS = 200;
const MAX_DELAY_MS = 15_000;

/** The identity of a file at its server. */
export const fileIdentity = z.object({
  size: z.number(),
  etag: z.string().nullable(),
  modified: z.string().nullable(),
});
export type FileIdentity = z.output<typeof fileIdentity>;

/** Returns whether the server identifies the file, so that another one of the same size is noticed. */
export const isIdentified = ({ etag, modified }: FileIdentity): boolean => (etag ?? modified) !== null;

const UNIDENTIFIED =
  'The connection broke off, and the download cannot be resumed: the server sends no strong ETag and no Last-Modified.';

export interface FetchOptions {
  readonly limit: SizeLimit;
  /** Continues the download of this file after its first bytes. */
  readonly resume?: { readonly file: FileIdentity; readonly received: number } | null;
  /** Called once, after the first response. */
  readonly onFile: (file: FileIdentity) => void;
  /** Called with the number of bytes so far. */
  readonly onBytes: (bytes: number) => void;
  readonly silenceMs?: number;
}

/** The server or the connection to it is at fault. Another attempt may succeed. */
export class DownloadError extends TransferError {}

/** The rest of the file does not belong to its first bytes, or may not. A download from the start may succeed. */
export class CannotResume extends DownloadError {}

/**
 * Downloads the archive. After a broken connection it requests the rest with `Range`, if the server can tell that
 * the file is still the same. Each request and each redirect passes the guard for outgoing requests.
 *
 * @throws CannotResume if the file has changed, or may have
 * @throws TransferError if the server is at fault; its message holds no address
 */
export async function* fetchArchive(
  ctx: Context,
  source: ArchiveSource,
  options: FetchOptions,
): AsyncGenerator<Buffer> {
  const deadline = performance.now() + TIMEOUT_MS;
  let first = options.resume?.file ?? null;
  let received = options.resume?.received ?? 0;
  if (received === first?.size) return;
  let failures = 0;
  for (let requests = 1; ; requests++) {
    const before = received;
    try {
      const answer = await send(ctx, source, received, first, { ...options, timeoutMs: deadline - performance.now() });
      const { stream } = answer;
      try {
        first ??= readFirst(answer, source, options);
        let skip = bytesToSkip(answer, first, received);
        for await (const chunk of unlessSilent(stream, options.silenceMs ?? SILENCE_MS)) {
          const part = skip >= chunk.length ? null : chunk.subarray(skip);
          skip = Math.max(0, skip - chunk.length);
          if (!part) continue;
          received += part.length;
          options.onBytes(received);
          yield part;
        }
      } finally {
        stream.on('error', () => {}).destroy();
      }
      if (received === first.size) return;
      if (received > first.size) throw new TransferError('The server sent more than the Content-Length of the file.');
      throw new OutboundError('connect', 'The response ended before the end of the file');
    } catch (error) {
      if (!isTemporary(error) || ctx.signal.aborted) throw explain(error);
      if (received > 0 && first && !isIdentified(first)) throw new CannotResume(UNIDENTIFIED);
      failures = received > before ? 1 : failures + 1;
      if (failures > MAX_FAILURES || requests >= MAX_REQUESTS) throw explain(error);
      ctx.log.info({ received, failures }, 'the download of an archive broke off; resuming');
    }
    await sleep(Math.min(FIRST_DELAY_MS * 2 ** failures, MAX_DELAY_MS), undefined, { signal: ctx.signal });
  }
}

const send = async (
  ctx: Context,
  source: ArchiveSource,
  received: number,
  first: FileIdentity | null,
  { limit, timeoutMs }: FetchOptions & { readonly timeoutMs: number },
): Promise<DownloadResponse> =>
  ctx.services.http.download({
    url: await requestUrl(source, 'GET'),
    policy: await outboundPolicy(ctx),
    headers: received === 0 ? {} : { range: `bytes=${received}-`, ...(first?.etag ? { 'if-range': first.etag } : {}) },
    followRedirects: { max: MAX_REDIRECTS },
    timeoutMs,
    maxResponseBytes: limit.bytes,
    signal: ctx.signal,
  });

const readFirst = (answer: DownloadResponse, source: ArchiveSource, options: FetchOptions): FileIdentity => {
  if (answer.status !== 200) throw new StatusError(answer.status);
  const checked = checkHeaders(answer.headers, source, options.limit);
  if ('problem' in checked) throw new TransferError(`${checked.problem}.`);
  const file = { size: checked.size, ...validatorsOf(answer) };
  options.onFile(file);
  return file;
};

/** Returns how many bytes of this response are known already: servers may ignore `Range` and send the whole file. */
const bytesToSkip = (answer: DownloadResponse, first: FileIdentity, received: number): number => {
  if (answer.status !== 200 && answer.status !== 206) throw new StatusError(answer.status);
  const { etag, modified } = validatorsOf(answer);
  const part = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(single(answer.headers['content-range']) ?? '');
  const size = answer.status === 206 ? (part?.[2] ?? '') : (single(answer.headers['content-length']) ?? '');
  const isSame = etag === first.etag && modified === first.modified && (size === '*' || Number(size) === first.size);
  if (!isSame) throw new CannotResume('The file changed while it was downloaded.');
  if (answer.status === 206 && Number(part?.[1]) !== received)
    throw new TransferError('The server sent another part of the file than the requested one.');
  return answer.status === 206 ? 0 : received;
};

const validatorsOf = ({ headers }: DownloadResponse): Pick<FileIdentity, 'etag' | 'modified'> => ({
  // A weak tag does not promise the same bytes.
  etag: single(headers.etag)?.replace(/^W\/.*/, '') || null,
  modified: single(headers['last-modified']),
});

/** Ends a connection on which nothing arrives any more. */
async function* unlessSilent(stream: Readable, silenceMs: number): AsyncGenerator<Buffer> {
  const silent = () => stream.destroy(new OutboundError('timeout', 'The server sent nothing for too long'));
  let timer = setTimeout(silent, silenceMs);
  try {
    for await (const chunk of stream) {
      clearTimeout(timer);
      yield chunk;
      timer = setTimeout(silent, silenceMs);
    }
  } finally {
    clearTimeout(timer);
  }
}

class StatusError extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`The server answered ${status}`);
    this.status = status;
  }
}

const TEMPORARY = new Set(['connect', 'timeout', 'protocol', 'dns']);

const isTemporary = (error: unknown): boolean =>
  error instanceof StatusError
    ? error.status >= 500 || error.status === 429
    : error instanceof OutboundError && TEMPORARY.has(error.kind);

const explain = (error: unknown): unknown =>
  error instanceof StatusError || (error instanceof OutboundError && error.kind !== 'aborted')
    ? new DownloadError(`The archive could not be downloaded: ${error.message.replace(/\.$/, '')}.`)
    : error;
