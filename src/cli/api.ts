import { createWriteStream, openAsBlob } from 'node:fs';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { TypedDocumentNode } from '@graphql-typed-document-node/core';
import { print } from 'graphql';
import { z } from 'zod';

/** An error reported by the hub, with the hub's message. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
}

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
    const text = await response.text();
    if (!response.ok) throw new ApiError(`${method} ${path}: ${response.status} ${reasonOf(text)}`);
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
    return dataOf<Data>(await response.json());
  }

  /**
   * Follows a subscription over server-sent events until the hub completes it or `signal` aborts. Resolves once the hub
   * has accepted it: the stream contains every later event.
   * @throws ApiError
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
    return (async function* () {
      for await (const { event, data } of readEvents(body)) {
        if (event === 'complete') return;
        if (event === 'next') yield dataOf<Data>(JSON.parse(data));
      }
    })();
  }

  /**
   * Downloads the path to a file.
   * @throws ApiError
   */
  async download(path: string, file: string): Promise<void> {
    const response = await this.#fetch(`/api/v4${path}`, {});
    if (!response.ok || !response.body)
      throw new ApiError(`GET ${path}: ${response.status} ${reasonOf(await response.text())}`);
    await pipeline(response.body, createWriteStream(file));
  }

  /**
   * Uploads a file as the form part `file`, after the other fields.
   * @throws ApiError
   */
  async upload<T extends z.ZodType>(
    schema: T,
    path: string,
    file: string,
    fields: Readonly<Record<string, string>>,
  ): Promise<z.output<T>> {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append('file', await openAsBlob(file), basename(file));
    return this.rest(schema, 'POST', path, form);
  }

  #fetch(path: string, init: RequestInit): Promise<Response> {
    return fetch(this.url + path, {
      ...init,
      headers: { ...init.headers, authorization: `Bearer ${this.#token}` },
    }).catch((error: unknown) => {
      if (error instanceof TypeError) throw new ApiError(`${this.url} is not reachable`, { cause: error });
      throw error;
    });
  }
}

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
