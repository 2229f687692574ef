import Fastify, { type FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Registry, register } from 'prom-client';
import type { Caches } from '#platform/cache.ts';
import type { Answers } from '#platform/caller/answers.ts';
import type { Services } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';
import { sameSecret } from '#platform/secrets.ts';
import { NO_SUCH_ROUTE } from '#rest/errors.ts';
import { sendError, sendJson } from '#rest/respond.ts';

/** Serves `/-/metrics` in the Prometheus format. If a token is set, requests must carry it as a bearer token. */
export const mountMetrics = (
  fastify: FastifyInstance,
  { metrics, token }: { readonly metrics: Registry; readonly token: string | null },
): void => {
  fastify.route({
    method: ['GET', 'HEAD'],
    url: '/-/metrics',
    handler: async ({ headers }, reply) => {
      if (token !== null && !sameSecret(headers.authorization ?? '', `Bearer ${token}`)) {
        reply.header('WWW-Authenticate', 'Bearer');
        throw unauthenticated();
      }
      return reply.type(metrics.contentType).send(await metrics.metrics());
    },
  });
};

/** A server that serves only `/-/metrics`, not yet listening. For an address that the public cannot reach. */
export const createMetricsServer = (options: {
  readonly metrics: Registry;
  readonly token: string | null;
}): FastifyInstance => {
  const fastify = Fastify({ logger: false, forceCloseConnections: true });
  fastify.setNotFoundHandler((_request, reply) => sendJson(reply, 404, NO_SUCH_ROUTE));
  fastify.setErrorHandler((error, _request, reply) => {
    sendError(reply, error);
  });
  mountMetrics(fastify, options);
  return fastify;
};

let collecting = false;

/** The metrics of this process: its HTTP metrics, caches and answers, and those registered once for the whole process. */
export const metricsOfProcess = ({ caches, answers }: Pick<Services, 'caches' | 'answers'>): Registry => {
  if (!collecting) collectDefaultMetrics();
  collecting = true;
  const metrics = new Registry();
  for (const { name } of register.getMetricsAsArray()) {
    const metric = register.getSingleMetric(name);
    if (metric) metrics.registerMetric(metric);
  }
  collectCaches(metrics, caches);
  collectAnswers(metrics, answers);
  return metrics;
};

/** Adds the figures of the caches to the metrics, with the cache as a label. */
const collectCaches = (metrics: Registry, caches: Caches): void => {
  new Gauge({
    name: 'millrace_cache_entries',
    help: 'Values in each cache of this process.',
    labelNames: ['cache'],
    registers: [metrics],
    collect() {
      for (const [cache, { entries }] of caches.figures()) this.set({ cache }, entries);
    },
  });
  new Counter({
    name: 'millrace_cache_lookups_total',
    help: 'Look-ups in each cache of this process by result: hit, miss.',
    labelNames: ['cache', 'result'],
    registers: [metrics],
    collect() {
      this.reset();
      for (const [cache, { hits, misses }] of caches.figures()) {
        this.inc({ cache, result: 'hit' }, hits);
        this.inc({ cache, result: 'miss' }, misses);
      }
    },
  });
};

/** Adds how busy the process is with answers. */
const collectAnswers = (metrics: Registry, answers: Answers): void => {
  new Gauge({
    name: 'millrace_answers',
    help: 'Lists and GraphQL queries of this process by state: running, waiting for their turn.',
    labelNames: ['state'],
    registers: [metrics],
    collect() {
      const { running, waiting } = answers.figures();
      this.set({ state: 'running' }, running);
      this.set({ state: 'waiting' }, waiting);
    },
  });
  new Gauge({
    name: 'millrace_unsent_answer_bytes',
    help: 'Bytes of large answers that their clients have yet to read.',
    registers: [metrics],
    collect() {
      this.set(answers.figures().unsentBytes);
    },
  });
};
