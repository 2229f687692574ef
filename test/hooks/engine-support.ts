import { sql } from 'kysely';
import { type DeliveryEngine, startDeliveryEngine } from '#domains/hooks/delivery/engine.ts';
import { ensureDeliveryPartitions } from '#domains/hooks/delivery/partitions.ts';
import type { Clock } from '#platform/clock.ts';
import type { Services } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { Listener } from '#platform/db/listener.ts';
import { createHttpClient, type HttpClient, type OutboundRequest } from '#platform/http-client/http-client.ts';
import { startProcesses } from '#platform/process/processes.ts';
import { createTestServices } from '../support/services.ts';

export interface EngineProcess extends AsyncDisposable {
  readonly services: Services;
  readonly engine: DeliveryEngine;
}

export interface EngineProcessOptions {
  readonly backoffMs?: (failures: number) => number;
  readonly heartbeatMs?: number;
  /** For tests in which a process dies. By default no process is considered dead, however slow the machine is. */
  readonly deadAfterMs?: number;
  readonly clock?: Clock;
  /** Replaces the client that really resolves names. */
  readonly http?: HttpClient;
}

/** Starts a process of the hub that only delivers. */
export const startEngineProcess = async (url: string, options: EngineProcessOptions = {}): Promise<EngineProcess> => {
  const { heartbeatMs = 200, deadAfterMs = 300_000, backoffMs = () => 20 } = options;
  const held = await createTestServices(url, options.clock ? { clock: options.clock } : {});
  const services = options.http ? { ...held.services, http: options.http } : held.services;
  const listener = new Listener(url, services.log);
  await listener.start();
  const processes = await startProcesses({ services, heartbeatMs, deadAfterMs });
  const engine = await startDeliveryEngine({
    services,
    createContext: createContextFactory(services),
    notifications: listener,
    processes,
    backoffMs,
    pollMs: 100,
  });
  return {
    services,
    engine,
    [Symbol.asyncDispose]: async () => {
      await engine.stop();
      await processes.stop();
      await listener.close();
      await held[Symbol.asyncDispose]();
    },
  };
};

/** Creates a client whose requests get the deadline that `adjust` returns for them, in milliseconds. */
export const withDeadlines = (adjust: (request: OutboundRequest) => Promise<number> | number): HttpClient => {
  const http = createHttpClient();
  return { ...http, request: async (request) => http.request({ ...request, timeoutMs: await adjust(request) }) };
};

let made = 0;

/** Inserts a hook of a new group, and returns the id of the hook. */
export const insertHook = async ({ db }: Pick<Services, 'db'>, url: string): Promise<number> => {
  made += 1;
  const path = `engine-group-${made}`;
  const { id: namespace_id } = await db
    .insertInto('namespaces')
    .values({ kind: 'group', name: path, path, full_path: path, full_name: path, visibility_level: 0 })
    .returning('id')
    .executeTakeFirstOrThrow();
  const hook = await db.insertInto('webhooks').values({ namespace_id, url }).returning('id').executeTakeFirstOrThrow();
  return hook.id;
};

/** Inserts deliveries of `count` events to each of the hooks, as dispatch does. */
export const insertDeliveries = async (services: Services, webhookIds: readonly number[], count = 1): Promise<void> => {
  const { db } = services;
  await ensureDeliveryPartitions({ services });
  await sql`
    with payloads as (
      insert into webhook_payloads (kind, trigger, chain_id, body)
      select 'push.received', 'push_events', gen_random_uuid()::text, json_build_object('n', n)::text
      from generate_series(1, ${count}::int) n returning id
    ), deliveries as (
      insert into webhook_deliveries (webhook_id, payload_id)
      select hook, payloads.id from unnest(${webhookIds}::bigint[]) hook, payloads
      returning id, webhook_id, payload_id, created_at
    )
    insert into webhook_queue (delivery_id, webhook_id, payload_id, created_at) select * from deliveries`.execute(db);
  await sql`select pg_notify('webhook_deliveries', '')`.execute(db);
};

export const allowLocal = async ({ db }: Pick<Services, 'db'>): Promise<void> => {
  await sql`
    update application_settings
    set attributes = attributes || '{"allow_local_requests_from_web_hooks_and_services": true}'`.execute(db);
};
