import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Registry, register } from 'prom-client';
import { withClosedGroups } from '#domains/access/restrictions.ts';
import { audiencesOf } from '#domains/events/audience.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { throttle } from '#domains/settings/throttles.ts';
import { requireEnrolled } from '#domains/sign-in/enrolment.ts';
import { assume, authenticate } from '#domains/tokens/authentication.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import { asksForSocket } from '#graphql/websocket.ts';
import { mountGraphql } from '#graphql/yoga.ts';
import type { Caches } from '#platform/cache.ts';
import { type Actor, type Services, systemActor } from '#platform/context.ts';
import { readCookie, sessionCookieName } from '#platform/cookies.ts';
import type { CreateContext } from '#platform/create-context.ts';
import { csrfToken } from '#platform/csrf.ts';
import { readChainId } from '#platform/event-chain.ts';
import type { EventLog } from '#platform/event-log.ts';
import type { EventRow } from '#platform/events.ts';
import { requireWorker } from '#platform/processes.ts';
import { callerAddress, trustOf } from '#platform/trusted-proxies.ts';
import { splitTarget } from '#platform/urls.ts';
import { type Authenticate, hasCredential, readCaller, readSudo } from '#rest/auth.ts';
import { eventDefinitions } from './events.ts';
import { createHttp, type Mount } from './http.ts';
import { collectCaches } from './metrics.ts';
import { mounts } from './mounts.ts';
import { openApiDocument } from './openapi.ts';
import { routes } from './routes.ts';
import { schema } from './schema.ts';

export interface WebOptions {
  readonly services: Services;
  readonly createContext: CreateContext;
  readonly eventLog: EventLog;
  readonly checkResponses: boolean;
  readonly metrics: Registry;
  /** False serves only the probes: a worker serves only its operator. */
  readonly faces: boolean;
}

/** The HTTP side of a process, not yet listening. */
export const serveWeb = ({
  services,
  createContext,
  eventLog,
  checkResponses,
  metrics,
  faces,
}: WebOptions): Promise<FastifyInstance> =>
  createHttp({
    services,
    createContext,
    authenticate: admit({ services, createContext }),
    // With rate limits the caller must be certain first, so that requests never count against someone else.
    assume: async (credential, request) =>
      (await getSettings({ services })).throttle_authenticated_api_enabled
        ? null
        : assume(services, credential, request),
    throttle: (request) => throttle(services, request),
    checkResponses,
    routes: faces ? routes : [],
    mounts: faces ? [graphqlMount({ services, createContext, eventLog }), ...mounts] : [],
    metrics,
    readiness: {
      database: async () => {
        await services.pool.query('select 1');
      },
      worker: () => requireWorker(services),
      storage: () => services.storage.ready(),
    },
    mayUpgrade: (request) => faces && asksForSocket(request),
    openApi: openApiDocument,
  });

/** Authenticates the caller. A session whose user must first enrol a second factor may use pages but no API. */
const admit =
  ({ services, createContext }: Pick<WebOptions, 'services' | 'createContext'>): Authenticate =>
  async (credential, request) => {
    const actor = await authenticate(services, credential, request);
    if (actor.credential?.kind === 'session' && request.route.startsWith('/api/')) {
      await requireEnrolled(createContext({ actor, requestId: request.requestId }));
    }
    return actor;
  };

const graphqlMount =
  ({ services, createContext, eventLog }: Pick<WebOptions, 'services' | 'createContext' | 'eventLog'>): Mount =>
  async (fastify) => {
    const ownContext = createContext({ actor: systemActor });
    const audiences = audiencesOf(eventDefinitions);
    const admitted = admit({ services, createContext });
    const trusted = trustOf(services.config.trustedProxies);
    await mountGraphql(fastify, {
      schema,
      contextOf: async (caller) => {
        const { headers, method, ip, requestId, signal, setHeader } = caller;
        const sent = Object.fromEntries(new URLSearchParams(splitTarget(caller.url).query));
        const client = { ip, userAgent: headers['user-agent'] ?? null };
        const count = (actor: Actor | null) => throttle(services, { actor, ip, web: false, setHeader });
        let actor: Actor;
        try {
          actor = await admitted(readCaller({ method, headers }, sent, services), {
            method,
            route: '/api/graphql',
            ...client,
            requestId,
            sudo: readSudo(headers, sent),
            tokenInQuery: hasCredential(sent),
          });
        } catch (error) {
          await count(null);
          throw error;
        }
        await count(actor);
        const chainId = readChainId(services.secretKey, headers['x-gitlab-event-uuid']);
        return createContext({ actor, requestId, client, chainId, signal });
      },
      contextFor: async (viewer) => {
        const [actor = viewer] = await withClosedGroups(services, [viewer]);
        return createContext({ actor });
      },
      feed: eventLog.feed,
      mayStillSee: async (viewers: readonly Actor[], event: EventRow) => {
        const valid = await stillValid(services, viewers);
        const seeing = await audiences.audienceOf(ownContext, await withClosedGroups(services, viewers), event);
        return new Set([...seeing].filter((index) => valid.has(index)));
      },
      seenBy: async (viewer, events) => {
        if (!(await stillValid(services, [viewer])).has(0)) return new Set();
        const [actor = viewer] = await withClosedGroups(services, [viewer]);
        return audiences.eventsSeenBy(ownContext, actor, events);
      },
      stillValid: (viewers) => stillValid(services, viewers),
      csrfTokenOf: (headers) => {
        const session = readCookie(headers, sessionCookieName(services.urls));
        return session === null ? null : csrfToken(services.secretKey, session);
      },
      caches: services.caches,
      limits: services.config,
      addressOf: (request) => callerAddress(request, trusted),
      graphiqlEnabled: async () => (await getSettings(ownContext)).graphiql_enabled,
      log: services.log,
    });
  };

let collecting = false;

/** The metrics of this process: its own HTTP metrics, its caches, and those registered once for the whole process. */
export const metricsOfProcess = (caches: Caches): Registry => {
  if (!collecting) collectDefaultMetrics();
  collecting = true;
  const metrics = new Registry();
  for (const { name } of register.getMetricsAsArray()) {
    const metric = register.getSingleMetric(name);
    if (metric) metrics.registerMetric(metric);
  }
  collectCaches(metrics, caches);
  return metrics;
};
