import type { FastifyInstance } from 'fastify';
import type { Registry } from 'prom-client';
import { withClosedGroups } from '#domains/access/restrictions.ts';
import { countUses } from '#domains/deprecations/counting.ts';
import { audiencesOf } from '#domains/events/audience.ts';
import { groupDeleted } from '#domains/groups/events.ts';
import { projectDeleted } from '#domains/projects/events.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { throttle } from '#domains/settings/throttles.ts';
import { requireObligationsMet } from '#domains/sign-in/pages/obligations.ts';
import { assume, authenticate } from '#domains/tokens/authentication.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import type { Caller } from '#graphql/caller.ts';
import { asksForSocket } from '#graphql/websocket.ts';
import { mountGraphql } from '#graphql/yoga.ts';
import { readCookie, sessionCookieName } from '#platform/caller/cookies.ts';
import { csrfToken } from '#platform/caller/csrf.ts';
import { callerAddress, trustOf } from '#platform/caller/trusted-proxies.ts';
import { type Actor, type Services, systemActor } from '#platform/context.ts';
import type { CreateContext } from '#platform/create-context.ts';
import { DomainError } from '#platform/errors.ts';
import { readChainId } from '#platform/event-log/event-chain.ts';
import type { EventLog } from '#platform/event-log/event-log.ts';
import type { EventRow } from '#platform/events.ts';
import { requireWorker } from '#platform/process/processes.ts';
import { splitTarget } from '#platform/urls.ts';
import { type Assume, type Authenticate, hasCredential, readCaller, readSudo } from '#rest/auth.ts';
import { eventDefinitions } from './events.ts';
import { createHttp, type Mount } from './http.ts';
import { mounts } from './mounts.ts';
import { openApiDocument } from './openapi.ts';
import { pages } from './pages.ts';
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
    assume: assumeUncounted(services),
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
    versions: async () => {
      const settings = await getSettings({ services });
      return { isV5Enabled: settings.api_v5_preview_enabled, sunset: settings.api_v4_sunset_on };
    },
    countDeprecated: (use) => countUses(services, use),
  });

/**
 * Authenticates the caller. A session whose user must first accept the terms or enrol a second factor may use pages only,
 * which lead them there.
 */
const admit =
  ({ services, createContext }: Pick<WebOptions, 'services' | 'createContext'>): Authenticate =>
  async (credential, request) => {
    const actor = await authenticate(services, credential, request);
    if (actor.credential?.kind === 'session' && !pagePaths.has(request.route)) {
      await requireObligationsMet(createContext({ actor, requestId: request.requestId }));
    }
    return actor;
  };

/** With rate limits the caller must be certain first, so that requests never count against someone else. */
const assumeUncounted =
  (services: Services): Assume =>
  async (credential, request) =>
    (await getSettings({ services })).throttle_authenticated_api_enabled ? null : assume(services, credential, request);

const pagePaths: ReadonlySet<string> = new Set(pages.map(({ path }) => path));

const graphqlMount =
  ({ services, createContext, eventLog }: Pick<WebOptions, 'services' | 'createContext' | 'eventLog'>): Mount =>
  async (fastify) => {
    const ownContext = createContext({ actor: systemActor });
    const audiences = audiencesOf(eventDefinitions);
    const admitted = admit({ services, createContext });
    const assumeCaller = assumeUncounted(services);
    const trusted = trustOf(services.config.trustedProxies);
    const clientOf = ({ ip, headers }: Caller) => ({ ip, userAgent: headers['user-agent'] ?? null });
    const credentialOf = (caller: Caller) => {
      const { headers, method, requestId } = caller;
      const sent = Object.fromEntries(new URLSearchParams(splitTarget(caller.url).query));
      const request = {
        method,
        route: '/api/graphql',
        ...clientOf(caller),
        requestId,
        sudo: readSudo(headers, sent),
        tokenInQuery: hasCredential(sent),
      };
      return [readCaller({ method, headers }, sent, services), request] as const;
    };
    const requestOf = (caller: Caller) => ({
      requestId: caller.requestId,
      client: clientOf(caller),
      chainId: readChainId(services.secretKey, caller.headers['x-gitlab-event-uuid']),
      signal: caller.signal,
    });
    await mountGraphql(fastify, {
      answers: services.answers,
      schema,
      contextOf: async (caller) => {
        const { ip, setHeader } = caller;
        const count = (actor: Actor | null) => throttle(services, { actor, ip, web: false, setHeader });
        let actor: Actor;
        try {
          actor = await admitted(...credentialOf(caller));
        } catch (error) {
          await count(null);
          throw error;
        }
        await count(actor);
        return createContext({ actor, ...requestOf(caller) });
      },
      assume: async (caller) => {
        try {
          const assumed = await assumeCaller(...credentialOf(caller));
          return assumed && createContext({ ...assumed, ...requestOf(caller) });
        } catch (error) {
          if (error instanceof DomainError) return null; // `contextOf` reports the invalid credential.
          throw error;
        }
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
      endings: new Set([projectDeleted.kind, groupDeleted.kind]),
      csrfTokenOf: (headers) => {
        const session = readCookie(headers, sessionCookieName(services.urls));
        return session === null ? null : csrfToken(services.secretKey, session);
      },
      countDeprecated: (use) => countUses(services, use),
      caches: services.caches,
      limits: services.config,
      addressOf: (request) => callerAddress(request, trusted),
      graphiqlEnabled: async () => (await getSettings(ownContext)).graphiql_enabled,
      log: services.log,
    });
  };
