import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { OutboundError, toOutboundError } from './outbound-error.ts';

export type RequestBody = Buffer | string | Readable;
export type ResponseHeaders = { readonly [name: string]: string | string[] | undefined };

/** One request to one URL. The caller handles redirects. */
export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: { readonly [name: string]: string };
  readonly body: RequestBody | undefined;
  readonly contentLength: number | undefined;
  readonly timeoutMs: number;
  readonly maxResponseBytes: number;
  readonly signal: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** Discards the unread rest. */
  discard(): void;
}

export interface BufferedAnswer extends Answer {
  readonly body: Buffer;
  readonly truncated: boolean;
}

export interface StreamedAnswer extends Answer {
  readonly stream: Readable;
}

/** Sends the request and waits for the whole response. Keeps the first `maxResponseBytes` of the body. */
export const sendBuffered = (dispatcher: Dispatcher, hop: Hop): Promise<BufferedAnswer> =>
  new Promise((resolve, reject) => {
    let head: Pick<Answer, 'status' | 'headers'> = { status: 0, headers: {} };
    const chunks: Buffer[] = [];
    let receivedBytes = 0;
    const run = start(dispatcher, hop, reject);
    const succeed = () => {
      const truncated = receivedBytes > hop.maxResponseBytes;
      const [first] = chunks;
      const all = chunks.length === 1 && first ? first : Buffer.concat(chunks);
      // A copy, because a small slice would keep the parser's whole chunk alive.
      const body = truncated ? Buffer.from(all.subarray(0, hop.maxResponseBytes)) : all;
      run.finish();
      resolve({ ...head, body, truncated, discard: () => undefined });
    };
    run.dispatch({
      onStart: (status, headers) => {
        head = { status, headers };
      },
      onData: (controller, chunk) => {
        if (receivedBytes < hop.maxResponseBytes) chunks.push(chunk);
        receivedBytes += chunk.length;
        // Reading a little more keeps the connection usable. Longer responses are cut off.
        if (receivedBytes > hop.maxResponseBytes + DRAIN_BYTES) {
          succeed();
          controller.abort(new OutboundError('too_large', 'The answer is too large'));
        }
      },
      onEnd: succeed,
    });
  });

/** Sends the request and resolves when the response starts. The time limit applies until its stream ends. */
export const sendStreamed = (dispatcher: Dispatcher, hop: Hop): Promise<StreamedAnswer> =>
  new Promise((resolve, reject) => {
    let stream: Readable | undefined;
    let receivedBytes = 0;
    const run = start(dispatcher, hop, (error) => {
      if (stream) stream.destroy(error);
      else reject(error);
    });
    run.dispatch({
      onStart: (status, headers, controller) => {
        const opened = new Readable({
          highWaterMark: 256 * 1024,
          read: () => controller.resume(),
          destroy: (error, callback) => {
            run.abort(new OutboundError('aborted', 'The download was aborted'));
            callback(error);
          },
        });
        stream = opened;
        resolve({ status, headers, stream: opened, discard: () => opened.destroy() });
      },
      onData: (controller, chunk) => {
        receivedBytes += chunk.length;
        if (receivedBytes > hop.maxResponseBytes) {
          run.abort(
            new OutboundError('too_large', `The file is larger than the limit of ${hop.maxResponseBytes} bytes`),
          );
        } else if (stream?.push(chunk) === false) {
          controller.pause();
        }
      },
      onEnd: () => {
        run.finish();
        stream?.push(null);
      },
    });
  });

interface Handlers {
  onStart(status: number, headers: ResponseHeaders, controller: Dispatcher.DispatchController): void;
  onData(controller: Dispatcher.DispatchController, chunk: Buffer): void;
  onEnd(): void;
}

/**
 * The common part of both kinds: the time limit, the caller's signal, and failing once, even before there is a
 * connection.
 */
const start = (dispatcher: Dispatcher, hop: Hop, onFailure: (error: OutboundError) => void) => {
  let controller: Dispatcher.DispatchController | undefined;
  let failure: OutboundError | undefined;
  let done = false;

  const finish = () => {
    done = true;
    clearTimeout(timer);
    hop.signal?.removeEventListener('abort', onAbort);
  };
  const fail = (error: OutboundError) => {
    if (done) return;
    finish();
    failure = error;
    if (hop.body instanceof Readable) hop.body.on('error', ignore).destroy();
    onFailure(error);
  };
  const abort = (error: OutboundError) => {
    if (done) return;
    fail(error);
    controller?.abort(error);
  };
  const onAbort = () => abort(new OutboundError('aborted', 'The request was aborted'));
  const timer = setTimeout(
    () => abort(new OutboundError('timeout', 'The server did not answer in time')),
    Math.min(Math.max(hop.timeoutMs, 0), MAX_TIMER_MS),
  );

  const dispatch = (handlers: Handlers) => {
    if (hop.signal?.aborted) return onAbort();
    hop.signal?.addEventListener('abort', onAbort, { once: true });
    const { url, contentLength } = hop;
    dispatcher.dispatch(
      {
        origin: url.origin,
        path: url.pathname + url.search,
        method: hop.method,
        headers:
          contentLength === undefined ? { ...hop.headers } : { ...hop.headers, 'content-length': `${contentLength}` },
        body: hop.body ?? null,
      },
      {
        onRequestStart(started) {
          controller = started;
          if (failure) started.abort(failure);
        },
        onResponseStart(started, status, headers) {
          if (status >= 200 && !done) handlers.onStart(status, headers, started);
        },
        onResponseData(started, chunk) {
          if (!done) handlers.onData(started, chunk);
        },
        onResponseEnd() {
          if (!done) handlers.onEnd();
        },
        onResponseError(_controller, error) {
          fail(toOutboundError(error));
        },
      },
    );
  };
  return { dispatch, finish, abort };
};

const ignore = () => undefined;

const DRAIN_BYTES = 64 * 1024;
const MAX_TIMER_MS = 2 ** 31 - 1;
