import { createWriteStream, openAsBlob } from 'node:fs';
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TypedDocumentNode } from '@graphql-typed-document-node/core';
import { print } from 'graphql';
import { z } from 'zod';

/** An error reported by the hub, with the hub's message. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
}

/** The hub cannot be reached, or went away. It may come back. */
export class UnreachableError extends ApiError {}

const restError = z.object({ error: z.unknown().optional(), message: z.unknown().optional() });
const graphqlAnswer = z.object({
  data: z.unknown().optional(),
  errors: z.array(z.object({ message: z.string() })).optional(),
});

type Parameters = Readonly<Record<string, unknown>>;

/** A client of a hub's public interfaces, which are open to any tool. */
export class Api {
  readonly url: string;
  readonly #token: string;

  constructor(url: string, token: string) {
    this.url = url.replace(/\/+$/, '');
    this.#token = token;
  }

  /**
   * Makes a REST call below `/api/v4` and parses the response with `schema`.
   * @throws ApiError
   */
  async rest<T extends z.ZodType>(
    schema: T,
    method: string,
    path: string,
    body?: Parameters | FormData,
  ): Promise<z.output<T>> {
    const isForm = body instanceof FormData;
    const response = await this.#fetch(`/api/v4${path}`, {
      method,
      headers: body && !isForm ? { 'content-type': 'application/json' } : {},
      ...(body ? { body: isForm ? body : JSON.stringify(body) } : {}),
    });
    return this.#read(schema, `${method} ${path}`, response);
  }

  async #read<T extends z.ZodType>(schema: T, what: string, response: Response): Promise<z.output<T>> {
    const text = await this.#textOf(response);
    if (!response.ok) throw new ApiError(`${what}: ${response.status} ${reasonOf(text)}`);
    return schema.parse(text === '' ? null : JSON.parse(text));
  }

  /**
   * Runs a query or mutation.
   * @throws ApiError for top-level errors and for errors in a mutation's payload
   */
  async graphql<Data, Variables>(document: TypedDocumentNode<Data, Variables>, variables: Variables): Promise<Data> {
    const response = await this.#fetch('/api/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: print(document), variables }),
    });
    return dataOf<Data>(JSON.parse(await this.#textOf(response)));
  }

  /**
   * Follows a subscription over server-sent events until the hub completes it or `signal` aborts. Resolves once the hub
   * has accepted it: the stream contains every later event.
   * @throws ApiError, UnreachableError also in the middle of the stream
   */
  async subscribe<Data, Variables>(
    document: TypedDocumentNode<Data, Variables>,
    variables: Variables,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<Data, void>> {
    const response = await this.#fetch('/api/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ query: print(document), variables }),
      signal,
    });
    const { body } = response;
    if (!response.ok || !body)
      throw new ApiError(`subscription: ${response.status} ${reasonOf(await response.text())}`);
    // Locks the stream now: a response that is garbage-collected before anyone reads its body cancels it, and that looks
    // like the end of the stream.
    const chunks = body.values();
    const brokenOff = (error: unknown) => this.#unreachable(error);
    return (async function* () {
      try {
        for await (const { event, data } of readEvents(chunks)) {
          if (event === 'complete') return;
          if (event === 'next') yield dataOf<Data>(JSON.parse(data));
        }
      } catch (error) {
        throw brokenOff(error);
      }
    })();
  }

  /**
   * Downloads the path to a file. Continues after broken connections, and after an earlier call that was interrupted:
   * until it is complete, the file is `<file>.part`, and `<file>.part.etag` says what it is a part of. Calls `onBytes`
   * with the bytes so far.
   * @throws ApiError
   */
  async download(path: string, file: string, onBytes: OnBytes = () => {}): Promise<void> {
    const [part, tag] = [`${file}.part`, `${file}.part.etag`];
    let lostAt: number | null = null;
    for (let before = -1; ; ) {
      const etag = await readFile(tag, 'utf8').catch(() => '');
      const start = etag === '' ? 0 : ((await stat(part).catch(() => null))?.size ?? 0);
      if (start > before) lostAt = null;
      before = start;
      try {
        const response = await this.#fetch(`/api/v4${path}`, {
          headers: start === 0 ? {} : { range: `bytes=${start}-`, 'if-range': etag },
        });
        // The part is the whole file already.
        if (response.status === 416 && response.headers.get('content-range') === `bytes */${start}`) break;
        if (!response.ok || !response.body)
          throw new ApiError(`GET ${path}: ${response.status} ${reasonOf(await response.text())}`);
        await writeFile(tag, response.headers.get('etag') ?? '');
        const isRest = response.status === 206;
        const counted = response.body.pipeThrough(counting(onBytes, isRest ? start : 0));
        await pipeline(counted, createWriteStream(part, { flags: isRest ? 'a' : 'w' }));
        break;
      } catch (error) {
        if (error instanceof ApiError && !(error instanceof UnreachableError)) throw error;
        lostAt ??= performance.now();
        if (performance.now() - lostAt > GIVE_UP_MS)
          throw new ApiError('the download broke off; run the command again', { cause: error });
        await sleep(RETRY_MS);
      }
    }
    await rename(part, file);
    await rm(tag, { force: true });
  }

  /**
   * Uploads a file as the form part `file`, after the other fields. Calls `onBytes` with the bytes so far.
   * @throws ApiError
   */
  async upload<T extends z.ZodType>(
    schema: T,
    path: string,
    file: string,
    fields: Readonly<Record<string, string>>,
    onBytes: OnBytes = () => {},
  ): Promise<z.output<T>> {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append('file', await openAsBlob(file), basename(file));
    const { headers, body } = new Response(form);
    const sent = {
      method: 'POST',
      headers: { 'content-type': headers.get('content-type') ?? '' },
      body: body?.pipeThrough(counting(onBytes)) ?? null,
      // Required for streams.
      duplex: 'half',
    };
    const response = await this.#fetch(`/api/v4${path}`, sent);
    return this.#read(schema, `POST ${path}`, response);
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const response = await fetch(this.url + path, {
      ...init,
      headers: { ...init.headers, authorization: `Bearer ${this.#token}` },
    }).catch((error: unknown) => {
      throw this.#unreachable(error);
    });
    // A proxy answers so while the hub behind it starts again.
    if (!GATEWAY_ERRORS.has(response.status)) return response;
    await response.body?.cancel();
    throw new UnreachableError(`${this.url} is not reachable: ${response.status}`);
  }

  /** @throws UnreachableError if the connection is lost before the whole body is there */
  #textOf(response: Response): Promise<string> {
    return response.text().catch((error: unknown) => {
      throw this.#unreachable(error);
    });
  }

  /** `fetch` reports every network error as a TypeError. Returns other errors unchanged. */
  #unreachable(error: unknown): unknown {
    return error instanceof TypeError ? new UnreachableError(`${this.url} is not reachable`, { cause: error }) : error;
  }
}

type OnBytes = (bytes: number) => void;

/** Passes a stream on, and counts its bytes after the first ones. */
const counting = (onBytes: OnBytes, before = 0): TransformStream<Uint8Array, Uint8Array> => {
  let bytes = before;
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      onBytes(bytes);
      controller.enqueue(chunk);
    },
  });
};

/** How long the client waits for a hub that cannot be reached. */
export const GIVE_UP_MS = 120_000;
const RETRY_MS = 500;
const GATEWAY_ERRORS = new Set([502, 503, 504]);

const payloadErrors = z.record(z.string(), z.unknown());

const dataOf = <Data>(answer: unknown): Data => {
  const { data, errors } = graphqlAnswer.parse(answer);
  if (errors && errors.length > 0) throw new ApiError(errors.map(({ message }) => message).join('; '));
  for (const payload of Object.values(payloadErrors.parse(data ?? {}))) {
    const refused = z.object({ errors: z.array(z.string()).min(1) }).safeParse(payload);
    if (refused.success) throw new ApiError(refused.data.errors.join('; '));
  }
  // The document types are generated from the hub's own schema.
  return data as Data;
};

const reasonOf = (text: string): string => {
  try {
    const { error, message } = restError.parse(JSON.parse(text));
    const reason = error ?? message;
    return typeof reason === 'string' ? reason : JSON.stringify(reason);
  } catch {
    return text.slice(0, 200);
  }
};

interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
}

async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent, void> {
  const decoder = new TextDecoder();
  let pending = '';
  for await (const chunk of body) {
    pending += decoder.decode(chunk, { stream: true });
    for (let end = pending.indexOf('\n\n'); end >= 0; end = pending.indexOf('\n\n')) {
      const fields = new Map(
        pending
          .slice(0, end)
          .split('\n')
          .map((line) => {
            const colon = line.indexOf(':');
            return [line.slice(0, colon), line.slice(colon + 1).trimStart()] as const;
          }),
      );
      pending = pending.slice(end + 2);
      const event = fields.get('event');
      if (event !== undefined) yield { event, data: fields.get('data') ?? '' };
    }
  }
}
