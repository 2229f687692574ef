import { sql } from 'kysely';
import { type Moment, momentOf } from '#domains/events/visibility.ts';
import { type Context, type Services, systemActor, type Tx } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { isTransient } from '#platform/db/failures.ts';
import { newChainId } from '#platform/event-chain.ts';
import { defineFollower, type Follower } from '#platform/event-log/followers.ts';
import type { AnyEventDefinition, EventRow } from '#platform/events.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import { allowedCalls } from './call-limit.ts';
import { MAX_BODY_BYTES, wantsBranch } from './model.ts';
import { isTrigger } from './triggers.ts';

/** The Postgres channel that announces new deliveries. */
export const DELIVERIES_CHANNEL = 'webhook_deliveries';

/**
 * Turns events into deliveries, exactly one for each hook that listens to the event. Writes them in the transaction
 * that moves the cursor, so a crash neither loses nor doubles one. Knows events only by their registered definitions.
 */
export const dispatchToHooks = (definitions: readonly AnyEventDefinition[]): Follower => {
  const byKind = new Map(definitions.map((definition) => [definition.kind, definition]));
  return defineFollower({
    name: 'hooks.dispatch',
    wants: ({ kind }) => byKind.get(kind)?.hasWebhook ?? false,
    handle: async (tx, events) => {
      const fired = events.flatMap((event) => {
        const definition = byKind.get(event.kind);
        const trigger = definition?.trigger(event.payload) ?? null;
        if (!definition || trigger === null) return [];
        if (isTrigger(trigger)) return [{ event, definition, trigger }];
        tx.log.error({ kind: event.kind, trigger }, 'an event kind names a trigger that is not in the list');
        return [];
      });
      if (fired.length === 0) return;
      const hooks = await findHooks(tx, fired);
      if (hooks.length === 0) return;
      const recursion = await Recursion.of(
        tx,
        fired.map(({ event }) => event),
      );
      // Bodies are built outside this transaction, so that a failing query cannot abort it.
      const reading = createContextFactory(tx.services)({
        actor: systemActor,
        requestId: 'hooks.dispatch',
        signal: tx.signal,
      });
      const wanted: Wanted[] = [];
      for (const { event, definition, trigger } of fired) {
        const listening = hooks.filter(
          (hook) =>
            hook.triggers.includes(trigger) &&
            (hook.namespace_id === null
              ? hook.project_id === event.project_id
              : event.namespace_ids.includes(hook.namespace_id)),
        );
        if (listening.length === 0) continue;
        const built = await build(reading, definition, event);
        if (built === null) continue;
        const hearing =
          trigger === 'push_events' ? listening.filter((hook) => wantsPush(tx.services, hook, built.ref)) : listening;
        if (hearing.length === 0) continue;
        const chain_id = event.chain_id ?? newChainId(tx.services.secretKey);
        wanted.push({
          root: event.namespace_ids[0] ?? null,
          event_id: event.id,
          kind: event.kind,
          trigger,
          chain_id,
          body: built.body,
          moment: momentOf(event, definition.part(event.payload)),
          hooks: hearing.map(({ id }) => ({ id, reason: built.failure ?? recursion.judge(event.chain_id, id) })),
        });
      }
      if (wanted.length > 0) await insertDeliveries(tx, await withinLimit(tx, wanted));
    },
  });
};

interface Listening {
  readonly id: number;
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly triggers: readonly string[];
  readonly push_events_branch_filter: string | null;
  readonly branch_filter_strategy: string;
}

interface Fired {
  readonly event: EventRow;
  readonly trigger: string;
}

/** Returns the hooks that may listen to any of the events: those of the projects, the groups and all parent groups. */
const findHooks = async (tx: Tx, fired: readonly Fired[]): Promise<readonly Listening[]> => {
  const namespaceIds = [...new Set(fired.flatMap(({ event }) => event.namespace_ids))];
  const projectIds = [...new Set(fired.flatMap(({ event }) => event.project_id ?? []))];
  const triggers = [...new Set(fired.map(({ trigger }) => trigger))];
  const columns = sql.raw('id, namespace_id, project_id, triggers, push_events_branch_filter, branch_filter_strategy');
  const { rows } = await sql<Listening>`
    select ${columns} from webhooks where namespace_id = any (${namespaceIds}::bigint[]) and triggers && ${triggers}::text[]
    union all
    select ${columns} from webhooks where project_id = any (${projectIds}::bigint[]) and triggers && ${triggers}::text[]
    order by id`.execute(tx.db);
  return rows;
};

interface Built {
  readonly body: string | null;
  /** Why nothing can be sent, or null. */
  readonly failure: string | null;
  readonly ref: string | null;
}

/** Builds the body once for all hooks. Returns null if the subject is gone. A build error becomes the failure. */
const build = async (ctx: Context, definition: AnyEventDefinition, event: EventRow): Promise<Built | null> => {
  try {
    const object = await definition.body(ctx, event);
    if (object === null) return null;
    const body = JSON.stringify(object);
    const ref = typeof object.ref === 'string' ? object.ref : null;
    if (Buffer.byteLength(body) > MAX_BODY_BYTES) return { body: null, failure: 'The body is larger than 25 MB', ref };
    return { body, failure: null, ref };
  } catch (error) {
    if (isTransient(error) || ctx.signal.aborted) throw error;
    ctx.log.error({ err: error, event_id: event.id, kind: event.kind }, 'the body of a hook could not be built');
    return { body: null, failure: 'The body could not be built', ref: null };
  }
};

const HEADS = 'refs/heads/';

const wantsPush = (services: Services, hook: Listening, ref: string | null): boolean =>
  ref === null || !ref.startsWith(HEADS) || wantsBranch(services, hook, ref.slice(HEADS.length));

const MAX_CHAIN = 100;

/** The hooks that each request chain has fired in the last half hour (reference: webhooks §1 "Recursion"). */
class Recursion {
  readonly #fired: ReadonlyMap<string, Set<number>>;

  private constructor(fired: ReadonlyMap<string, Set<number>>) {
    this.#fired = fired;
  }

  static async of(tx: Tx, events: readonly EventRow[]): Promise<Recursion> {
    const chains = [...new Set(events.flatMap(({ chain_id }) => chain_id ?? []))];
    const fired = new Map(chains.map((chain) => [chain, new Set<number>()]));
    if (chains.length > 0) {
      const { rows } = await sql<{ chain_id: string; webhook_id: number }>`
        select p.chain_id, d.webhook_id
        from webhook_payloads p join webhook_deliveries d on d.payload_id = p.id
        where p.chain_id = any (${chains}::text[]) and p.created_at > now() - interval '30 minutes'
          and d.state <> 'dropped'`.execute(tx.db);
      for (const { chain_id, webhook_id } of rows) fired.get(chain_id)?.add(webhook_id);
    }
    return new Recursion(fired);
  }

  /** Returns why the hook must not fire, or null and counts it as fired. Requests outside any chain always fire. */
  judge(chain: string | null, webhookId: number): string | null {
    const fired = chain === null ? undefined : this.#fired.get(chain);
    if (!fired) return null;
    if (fired.has(webhookId)) return 'Dropped: the hook was triggered by a request that it caused itself';
    if (fired.size >= MAX_CHAIN) return `Dropped: the chain of requests has fired ${MAX_CHAIN} hooks already`;
    fired.add(webhookId);
    return null;
  }
}

interface Wanted {
  /** The root namespace of the event. */
  readonly root: number | null;
  readonly event_id: number;
  readonly kind: string;
  readonly trigger: string;
  readonly chain_id: string;
  readonly body: string | null;
  /** Decides later who may see the delivery's content. */
  readonly moment: Moment;
  readonly hooks: readonly { readonly id: number; readonly reason: string | null }[];
}

/** Drops, with a reason, the calls that exceed the minute limit of a root namespace. */
const withinLimit = async (tx: Tx, wanted: readonly Wanted[]): Promise<readonly Wanted[]> => {
  const allowed = await allowedCalls(
    tx,
    wanted.map(({ root, hooks }) => ({ root, calls: hooks.filter(({ reason }) => reason === null).length })),
  );
  return wanted.map((each, n) => {
    let left = allowed[n] ?? 0;
    return {
      ...each,
      hooks: each.hooks.map((hook) => (hook.reason !== null || left-- > 0 ? hook : { ...hook, reason: OVER_LIMIT })),
    };
  });
};

const OVER_LIMIT = 'Dropped: the top-level group has reached its limit of hook calls per minute';

/** Inserts the deliveries in the order of the log, so the deliveries of one hook become due in that order. */
const insertDeliveries = async (tx: Tx, wanted: readonly Wanted[]): Promise<void> => {
  const payloads = wanted.map(({ hooks: _, root: _root, ...payload }) => payload);
  const deliveries = wanted.flatMap(({ event_id, hooks }, n) =>
    hooks.map(({ id, reason }) => ({ event_id, webhook_id: id, reason, n })),
  );
  await sql`
    with payloads as (
      insert into webhook_payloads (event_id, kind, trigger, chain_id, body, moment)
      select event_id, kind, trigger, chain_id, body, moment
      from json_to_recordset(${toJsonb(payloads)}::json)
        as (event_id bigint, kind text, trigger text, chain_id text, body text, moment jsonb)
      on conflict (event_id) do nothing
      returning id, event_id
    )
    insert into webhook_deliveries (webhook_id, payload_id, state, last_error, next_attempt_at, finished_at)
    select h.id, payloads.id, case when given.reason is null then 'waiting' else 'dropped' end, given.reason,
      now() + given.n * interval '1 microsecond', case when given.reason is not null then now() end
    from json_to_recordset(${JSON.stringify(deliveries)}::json)
      as given (event_id bigint, webhook_id bigint, reason text, n int)
    join payloads using (event_id)
    join webhooks h on h.id = given.webhook_id
    on conflict (payload_id, webhook_id) do nothing`.execute(tx.db);
  await sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`.execute(tx.db);
};
