import type { Readable } from 'node:stream';
import type { Context } from '#platform/context.ts';
import type { Remote } from '#platform/git/cloning.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';
import { TransferError } from '../model.ts';

const SERVICE = 'git-upload-pack';
const MAX_HOPS = 3;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Some hosts recognise git clients by it. */
const USER_AGENT = 'git/2.43.0 (Millrace)';
/** The pack has its own limit; the framing around it adds a little. */
const FRAMING = 1.01;
const MAX_ADVERTISED_BYTES = 80 * 1024 * 1024;

interface Options {
  readonly policy: AddressPolicy;
  /** In bytes. 0 means unlimited. */
  readonly maxBytes: number;
  readonly timeoutMs: number;
}

/**
 * Opens a repository behind an http(s) address that a user entered. Each request passes the guard for outgoing
 * requests, and so does each hop of a redirect. As in git, only the first request may be redirected. Credentials are
 * only sent to the server they were given for.
 */
export const openRemote = async (ctx: Context, address: string, options: Options): Promise<Remote> => {
  const { http } = ctx.services;
  const { policy, maxBytes, timeoutMs } = options;
  const deadline = performance.now() + timeoutMs;
  const entered = await http.check(address, policy);
  let base = entered.url.href.replace(/\/+$/, '');
  let { authorization } = entered;

  const send = (url: string, method: 'GET' | 'POST', limit: number, type: string, body?: Buffer) =>
    http.download({
      url,
      method,
      policy,
      headers: {
        'user-agent': USER_AGENT,
        accept: type,
        ...(body ? { 'content-type': `application/x-${SERVICE}-request` } : {}),
        ...(authorization === null ? {} : { authorization }),
      },
      ...(body ? { body } : {}),
      timeoutMs: Math.max(deadline - performance.now(), 1),
      maxResponseBytes: limit,
      signal: ctx.signal,
    });

  const accepted = (answer: Awaited<ReturnType<typeof send>>, type: string): Readable => {
    const { status, headers, stream } = answer;
    if (status === 200 && headers['content-type'] === type) return stream;
    stream.on('error', () => {}).destroy();
    throw new TransferError(problemOf(status));
  };

  return {
    async advertisement() {
      const type = `application/x-${SERVICE}-advertisement`;
      for (let hops = 0; ; hops++) {
        const answer = await send(`${base}/info/refs?service=${SERVICE}`, 'GET', MAX_ADVERTISED_BYTES, type);
        const { location } = answer.headers;
        if (!REDIRECTS.has(answer.status) || typeof location !== 'string') return accepted(answer, type);
        answer.stream.on('error', () => {}).destroy();
        if (hops >= MAX_HOPS) throw new TransferError('The server redirects too often.');
        const next = followed(base, location);
        if (new URL(next).origin !== new URL(base).origin) authorization = null;
        base = next;
      }
    },
    async request(body) {
      const type = `application/x-${SERVICE}-result`;
      const limit = maxBytes > 0 ? Math.ceil(maxBytes * FRAMING) + 1024 * 1024 : Number.MAX_SAFE_INTEGER;
      return accepted(await send(`${base}/${SERVICE}`, 'POST', limit, type, body), type);
    },
  };
};

/** Returns the repository URL that `location` points to. Its address is checked when it is requested. */
const followed = (base: string, location: string): string => {
  const url = URL.parse(location, `${base}/info/refs`);
  const suffix = '/info/refs';
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:';
  const leadsOn = isHttp && url.pathname.endsWith(suffix) && url.search === `?service=${SERVICE}`;
  if (!url || !leadsOn || url.username !== '' || url.password !== '')
    throw new TransferError('The server redirects to something other than a repository.');
  if (base.startsWith('https:') && url.protocol !== 'https:')
    throw new TransferError('The server redirects from https to http.');
  return url.origin + url.pathname.slice(0, -suffix.length);
};

const problemOf = (status: number): string => {
  if (status === 401 || status === 403)
    return 'The server does not let these credentials read the repository, or requires some.';
  if (status === 404 || status === 410) return 'The server has no repository at this address.';
  if (status === 200) return "The server does not speak git's smart HTTP protocol at this address.";
  return REDIRECTS.has(status)
    ? 'The server redirects in the middle of the transfer.'
    : `The server answered ${status}.`;
};
