import { lookup as systemLookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import {
  type AddressPolicy,
  assertAllowed,
  checkAddress,
  destinationOf,
  type OutboundUrl,
  parseOutboundUrl,
} from './address-guard.ts';
import type { Agents, Connect, Lookup } from './agents.ts';
import {
  type Answer,
  type Hop,
  type RequestBody,
  type ResponseHeaders,
  sendBuffered,
  sendStreamed,
} from './exchange.ts';
import { isHarmlessHeader } from './headers.ts';
import { OutboundError, toOutboundError } from './outbound-error.ts';

export type { AddressPolicy } from './address-guard.ts';
export type { ResponseHeaders } from './exchange.ts';
export { OutboundError } from './outbound-error.ts';

/** Sends requests to servers that users chose. Checks the actual address of every connection against the policy. */
export interface HttpClient {
  /**
   * Sends a request and keeps at most `maxResponseBytes` of the response body. Any status is a result. The time limit
   * covers waiting for a connection, sending, and the whole response.
   *
   * @throws OutboundError if there is no response
   */
  request(options: OutboundRequest): Promise<OutboundResponse>;
  /**
   * Downloads a file. Resolves when the response headers have arrived. The stream fails with OutboundError `too_large`
   * after `maxResponseBytes` and `timeout` after `timeoutMs`. Any status is a result: the caller checks it, and
   * destroys an unwanted stream.
   */
  download(options: OutboundDownload): Promise<DownloadResponse>;
  /**
   * Resolves and checks a URL without connecting, for use before saving it.
   *
   * @throws OutboundError `blocked`, or `dns` if the host name is unknown
   */
  check(url: string, policy: AddressPolicy): Promise<OutboundUrl>;
  /** Waits for running requests, then closes the connections. */
  close(): Promise<void>;
}

export interface OutboundRequest {
  /** May contain `user:password@`, which is sent as Basic authorization. */
  readonly url: string;
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly headers?: { readonly [name: string]: string };
  readonly body?: RequestBody;
  /** The length of a streamed body. Without it the body is sent in chunks, which some object stores refuse. */
  readonly contentLength?: number;
  readonly policy: AddressPolicy;
  readonly timeoutMs: number;
  /** The rest of the body is dropped, and `truncated` is set. */
  readonly maxResponseBytes: number;
  readonly signal?: AbortSignal;
  readonly tls?: { readonly verify: boolean };
  /** Without it a redirect is returned like any other response. */
  readonly followRedirects?: { readonly max: number };
}

export interface OutboundResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly body: Buffer;
  readonly truncated: boolean;
  readonly durationMs: number;
  /** The address that the newest connection to this origin reached. */
  readonly remoteAddress: string | null;
}

export interface OutboundDownload extends Omit<OutboundRequest, 'method' | 'contentLength'> {
  readonly method?: 'GET' | 'POST';
}

export interface DownloadResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly stream: Readable;
  readonly remoteAddress: string | null;
}

export interface HttpClientOptions {
  /** Resolves a host name to all its addresses. */
  readonly lookup?: Lookup;
  /** Opens a connection to addresses that have been checked. */
  readonly connect?: Connect;
  readonly connectionsPerOrigin?: number;
}

/** The credentials of the URL replace a header of the caller, whatever its case. */
const withAuthorization = (headers: Readonly<Record<string, string>>, authorization: string) => ({
  ...Object.fromEntries(Object.entries(headers).filter(([name]) => name.toLowerCase() !== 'authorization')),
  authorization,
});

/**
 * Creates the client, one per process. It keeps connections alive and shares them per origin, policy and TLS
 * verification.
 */
export const createHttpClient = (options: HttpClientOptions = {}): HttpClient => {
  const lookup = options.lookup ?? ((host) => systemLookup(host, { all: true, order: 'verbatim' }));
  let loading: Promise<Agents> | null = null;
  /** The library is large, and many hubs never send a request. */
  const load = (): Promise<Agents> =>
    (loading ??= import('./agents.ts').then(({ createAgents }) => createAgents({ ...options, lookup })));

  /** Sends the request, follows redirects if enabled, and returns the last response. */
  const follow = async <T extends Answer>(
    request: OutboundRequest,
    startedAt: number,
    send: (dispatcher: Dispatcher, hop: Hop) => Promise<T>,
  ): Promise<{ answer: T; remoteAddress: string | null }> => {
    let { url, authorization } = parseOutboundUrl(request.url, request.policy);
    let { method, body } = request;
    const agents = await load();
    let headers: { readonly [name: string]: string } = request.headers ?? {};
    for (let hops = 0; ; hops++) {
      const agent = agents.get(request.policy, request.tls?.verify ?? true);
      const answer = await send(agent.dispatcher, {
        url,
        method,
        headers: authorization ? withAuthorization(headers, authorization) : headers,
        body,
        contentLength: body === request.body ? request.contentLength : undefined,
        timeoutMs: request.timeoutMs - (performance.now() - startedAt),
        maxResponseBytes: request.maxResponseBytes,
        signal: request.signal,
      });
      const remoteAddress = agent.remoteAddress(url.origin);
      const location = answer.headers.location;
      if (!request.followRedirects || !REDIRECTS.has(answer.status) || typeof location !== 'string') {
        return { answer, remoteAddress };
      }
      answer.discard();
      if (hops >= request.followRedirects.max) throw new OutboundError('protocol', 'There are too many redirects');
      const target = URL.parse(location, url.href);
      if (!target) throw new OutboundError('protocol', 'The server redirects to an invalid URL');
      const next = parseOutboundUrl(target.href, request.policy);
      if (next.url.origin !== url.origin) {
        if (url.protocol === 'https:' && next.url.protocol === 'http:') {
          throw new OutboundError('blocked', 'URL is blocked: it redirects from https to http');
        }
        headers = Object.fromEntries(Object.entries(headers).filter(([name]) => isHarmlessHeader(name)));
        // Credentials in the Location of another server are not ours.
        authorization = null;
      }
      url = next.url;
      if (answer.status === 303 || (answer.status <= 302 && method === 'POST')) {
        method = method === 'HEAD' ? 'HEAD' : 'GET';
        body = undefined;
      } else if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
        throw new OutboundError('protocol', 'The server redirects an upload, which cannot be sent twice');
      }
    }
  };

  return {
    async request(request) {
      const startedAt = performance.now();
      const { answer, remoteAddress } = await follow(request, startedAt, sendBuffered);
      const durationMs = performance.now() - startedAt;
      const { status, headers, body, truncated } = answer;
      return { status, headers, body, truncated, durationMs, remoteAddress };
    },

    async download(request) {
      const headers = { 'accept-encoding': 'identity', ...request.headers };
      const { answer, remoteAddress } = await follow(
        { ...request, method: request.method ?? 'GET', headers },
        performance.now(),
        sendStreamed,
      );
      return { status: answer.status, headers: answer.headers, stream: answer.stream, remoteAddress };
    },

    async check(text, policy) {
      const parsed = parseOutboundUrl(text, policy);
      const destination = destinationOf(parsed.url);
      if (isIP(destination.host) !== 0) return parsed;
      const addresses = await lookup(destination.host).catch((error: unknown) => {
        throw toOutboundError(error);
      });
      if (addresses.length === 0) throw new OutboundError('dns', 'The host name could not be resolved');
      for (const { address } of addresses) assertAllowed(checkAddress(address, policy, destination));
      return parsed;
    },

    close: async () => {
      await (await loading)?.close();
    },
  };
};

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
