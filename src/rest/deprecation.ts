import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Actor, Services } from '#platform/context.ts';
import type { Parameters } from './nested.ts';
import type { Route } from './route.ts';
import { V4, V5 } from './v5.ts';
import { deprecatedIn, type Watched } from './v5-requests.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The deprecated names of version 4 that the request uses, and its credential. */
    deprecation: Deprecation | null;
  }
}

/** Use of deprecated parts of version 4. It is answered with headers, and counted after the answer. */
export interface Deprecation {
  /** Routes such as `GET /geo_nodes`, and parameters such as `PUT /projects/:id tag_list`. */
  readonly names: readonly string[];
  readonly actor: Actor;
  /** The URL that continues the resource in version 5, or null if there is none. */
  readonly successor: string | null;
  /** The day on which the hub stops to serve what is deprecated, or null. */
  readonly sunset: string | null;
}

/** The settings of the operator for the versions. */
export interface Versions {
  /** Whether the preview of version 5 is served. */
  readonly isV5Enabled: boolean;
  readonly sunset: string | null;
}

/** The day on which the schedule of section 9 was announced here, as RFC 9745 writes it. */
const DEPRECATED_SINCE = `@${Date.UTC(2026, 10, 23) / 1000}`;

/** A credential in the query is deprecated on every route. */
const QUERY_TOKEN = 'access_token in the query';

/** Returns the deprecated names that a request of version 4 uses. Nearly always none, at the cost of a few look-ups. */
export const deprecatedNames = (
  { method, path, deprecated }: Route,
  watched: Watched,
  sent: Parameters,
  isTokenInQuery: boolean,
): readonly string[] => {
  if (!deprecated && watched.length === 0 && !isTokenInQuery) return NONE;
  return [
    ...(deprecated ? [`${method} ${path}`] : []),
    ...deprecatedIn(watched, sent).map((name) => `${method} ${path} ${name}`),
    ...(isTokenInQuery ? [QUERY_TOKEN] : []),
  ];
};

const NONE: readonly string[] = [];

export interface UseOfDeprecated {
  /** As `deprecatedNames` returns them. */
  readonly names: readonly string[];
  readonly actor: Actor;
  readonly route: Pick<Route, 'deprecated'>;
}

export interface NotingDependencies {
  readonly services: Pick<Services, 'urls'>;
  /** Returns what the operator has decided about the versions of the API. */
  readonly versions: () => Promise<Versions>;
}

/** Notes the use of deprecated names. The answer then has headers about it, also if the request fails. */
export const noteDeprecated = async (
  request: FastifyRequest,
  { names, actor, route }: UseOfDeprecated,
  { services, versions: readVersions }: NotingDependencies,
): Promise<void> => {
  if (names.length === 0) return;
  const versions = await readVersions();
  const path = successorOf(request, route, versions);
  const successor = path === null ? null : services.urls.base + path;
  request.deprecation = { names, actor, successor, sunset: versions.sunset };
};

/** Returns the path of the route that replaces a deprecated one, or of the same route in version 5. */
const successorOf = (
  { originalUrl, params }: FastifyRequest,
  { deprecated }: UseOfDeprecated['route'],
  { isV5Enabled }: Versions,
): string | null => {
  if (!deprecated) return isV5Enabled ? inV5(originalUrl) : null;
  const path = deprecated.successor?.replace(/:([a-z_]+)/g, (_, name: string) => segmentOf(params, name));
  return path === undefined ? null : (isV5Enabled ? V5 : V4).slice(0, -1) + path;
};

const inV5 = (url: string): string => {
  const path = url.split('?', 1)[0] ?? '';
  return path.startsWith(V4) ? V5 + path.slice(V4.length) : `${V5.slice(0, -1)}${path}`;
};

const segmentOf = (params: unknown, name: string): string =>
  typeof params === 'object' && params !== null ? encodeURIComponent(String(Reflect.get(params, name))) : '';

/** Adds the headers about deprecation to an answer: RFC 9745, RFC 8594 and RFC 5829. */
export const announceDeprecation = (reply: FastifyReply): void => {
  const { deprecation } = reply.request;
  if (!deprecation || reply.hasHeader('Deprecation')) return;
  reply.header('Deprecation', DEPRECATED_SINCE);
  if (deprecation.sunset !== null) reply.header('Sunset', new Date(`${deprecation.sunset}T00:00:00Z`).toUTCString());
  if (deprecation.successor === null) return;
  const pages = reply.getHeader('Link');
  const link = `<${deprecation.successor}>; rel="successor-version"`;
  reply.header('Link', typeof pages === 'string' ? `${pages}, ${link}` : link);
};
