import type { FastifyRequest } from 'fastify';
import type { CallerCheck } from '#platform/caller/caller-check.ts';
import type { Actor, Client, Context, Services } from '#platform/context.ts';
import { readChainId } from '#platform/event-log/event-chain.ts';
import { splitTarget } from '#platform/urls.ts';
import {
  type Assume,
  type Authenticate,
  type Credential,
  hasCredential,
  type RequestInfo,
  readCaller,
  readSudo,
} from './auth.ts';
import { NOBODYS_BODY_BYTES } from './body.ts';
import { type Parameters, parseForm } from './nested.ts';

interface ContextRequest {
  readonly actor: Actor;
  readonly requestId: string;
  readonly chainId: string | null;
  readonly client: Client;
  readonly signal: AbortSignal;
  readonly callerCheck?: CallerCheck | undefined;
}

export type Throttle = (request: {
  /** Null when the credential was invalid. */
  readonly actor: Actor | null;
  readonly ip: string;
  /** True for pages and git, false for REST and GraphQL. */
  readonly web: boolean;
  setHeader(name: string, value: string): void;
}) => Promise<void>;

/** The parts that authenticate a caller and create their context. */
export interface ContextDependencies {
  readonly services: Services;
  readonly authenticate: Authenticate;
  /** Lets reads run for an assumed caller while the credential is re-checked. Such requests are not counted. */
  readonly assume?: Assume;
  /** Counts the request. Throws when its caller has made too many. */
  readonly throttle?: Throttle;
  readonly createContext: (request: ContextRequest) => Context;
}

export interface OpenOptions {
  readonly body?: Parameters | null;
  /** True when the request was already counted. */
  readonly counted?: boolean;
  /** Replaces the credential of the request. */
  readonly given?: Credential | undefined;
}

/** Authenticates the caller and creates the request's context. The credential may also be in the query or the body. */
export const openContext = async (
  request: FastifyRequest,
  dependencies: ContextDependencies,
  query: Parameters,
  { body = null, given, counted = false }: OpenOptions = {},
): Promise<Context> => {
  const sent = body === null ? query : { ...query, ...body };
  let actor: Actor;
  try {
    const credential = given ?? readCaller(request, sent, dependencies.services);
    actor = await dependencies.authenticate(credential, infoOf(request, query, sent));
  } catch (error) {
    // Failed credentials count as anonymous, so guessing is rate limited.
    if (!counted) await count(request, dependencies, null);
    throw error;
  }
  if (!counted) await count(request, dependencies, actor);
  return contextOf(request, dependencies, actor);
};

/** Returns the context of the assumed caller, which is still to be confirmed, or null. */
export const assumeContext = async (
  request: FastifyRequest,
  dependencies: ContextDependencies,
  query: Parameters,
): Promise<Context | null> => {
  const { services, assume } = dependencies;
  let assumed: Awaited<ReturnType<Assume>> = null;
  try {
    assumed = (await assume?.(readCaller(request, query, services), infoOf(request, query, query))) ?? null;
  } catch {
    // `openContext` reports the invalid credential.
  }
  return assumed && contextOf(request, dependencies, assumed.actor, assumed.callerCheck);
};

const infoOf = (request: FastifyRequest, query: Parameters, sent: Parameters): RequestInfo => ({
  method: request.method,
  route: request.routeOptions.url ?? '',
  ip: request.ip,
  userAgent: request.headers['user-agent'] ?? null,
  requestId: request.id,
  sudo: readSudo(request.headers, sent),
  tokenInQuery: hasCredential(query),
});

const count = (request: FastifyRequest, { throttle }: ContextDependencies, actor: Actor | null) =>
  throttle?.({
    actor,
    ip: request.ip,
    web: !(request.routeOptions.url ?? '').startsWith('/api/'),
    setHeader: (name, value) => request.response?.setHeader(name, value),
  });

const contextOf = (
  request: FastifyRequest,
  { createContext, services }: ContextDependencies,
  actor: Actor,
  callerCheck?: CallerCheck,
): Context => {
  request.userId = actor.userId;
  request.abortController ??= new AbortController();
  return createContext({
    actor,
    requestId: request.id,
    client: { ip: request.ip, userAgent: request.headers['user-agent'] ?? null },
    chainId: readChainId(services.secretKey, request.headers['x-gitlab-event-uuid']),
    signal: request.abortController.signal,
    callerCheck,
  });
};

/** The query as parameters; 400 when it is malformed. */
export const readQuery = ({ raw: { url = '' } }: FastifyRequest): Parameters => parseForm(splitTarget(url).query);

/**
 * Returns whether only the body can still say who calls: nothing before it does, and it is small enough to be read for
 * a caller who may turn out to be nobody.
 */
export const awaitsBody = (request: FastifyRequest, query: Parameters, services: Services): boolean => {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined) return false;
  if (Number(headers['content-length'] ?? 0) > NOBODYS_BODY_BYTES) return false;
  try {
    return readCaller(request, query, services).kind === 'none';
  } catch {
    // `openContext` reports the invalid credential.
    return false;
  }
};

/** Returns whether the body carries a credential or a sudo user. */
export const namesCaller = (body: Parameters | null): boolean =>
  body !== null && (hasCredential(body) || body.sudo !== undefined);
