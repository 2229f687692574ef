import { sql } from 'kysely';
import { momentOf } from '#domains/events/visibility.ts';
import { type Context, type Services, systemActor, type Tx } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { isTransient } from '#platform/db/failures.ts';
import { newChainId } from '#platform/event-log/event-chain.ts';
import { defineFollower, type Follower } from '#platform/event-log/followers.ts';
import type { AnyEventDefinition, EventRow } from '#platform/events.ts';
import { MAX_BODY_BYTES, wantsBranch } from '../model.ts';
import { isFired } from '../triggers.ts';
import { allowedCalls } from './call-limit.ts';
import { type HookToCall, insertDeliveries, type Wanted } from './insert.ts';
import { ensureDeliveryPartitions } from './partitions.ts';

/**
 * Turns events into deliveries, exactly one for each hook that listens to the event. Writes them in the transaction
 * that moves the cursor, so a crash neither loses nor doubles one. Knows events only by their registered definitions.
 */
export const dispatchToHooks = (definitions: readonly AnyEventDefinition[]): Follower => {
  const byKind = new Map(definitions.map((definition) => [definition.kind, definition]));
  return defineFollower({
    name: 'hooks.dispatch',
    payloads: 'text',
    wants: ({ kind }) => byKind.get(kind)?.hasWebhook ?? false,
    handle: async (tx, events) => {
      const hooks = await findHooks(tx, events);
      if (hooks.length === 0) return;
      await ensureDeliveryPartitions(tx);
      const recursion = await Recursion.of(tx, events);
      // Bodies are built outside this transaction, so that a failing query cannot abort it.
      const reading = createContextFactory(tx.services)({
        actor: systemActor,
        requestId: 'hooks.dispatch',
        signal: tx.signal,
      });
      const wanted: Wanted[] = [];
      for (const each of events) {
        const near = hooks.filter((hook) => isNear(hook, each));
        const definition = byKind.get(each.kind);
        if (near.length === 0 || !definition) continue;
        const event: EventRow = { ...each, payload: JSON.parse(String(each.payload)) };
        const trigger = definition.trigger(event.payload);
        if (trigger === null) continue;
        if (!isFired(trigger)) {
          tx.log.error({ kind: event.kind, trigger }, 'an event kind names a trigger that is not in the list');
          continue;
        }
        const listening = near.filter((hook) => hook.triggers.includes(trigger));
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
          created_at: event.created_at,
          kind: event.kind,
          trigger,
          chain_id,
          body: built.body,
          moment: momentOf(event, definition.part(event.payload)),
          hooks: hearing.map((hook) => ({
            hook,
            reason: built.failure ?? recursion.judge(event.chain_id, hook.id),
          })),
        });
      }
      if (wanted.length > 0) await insertDeliveries(tx, await withinLimit(tx, wanted));
    },
  });
};

interface Listening extends HookToCall {
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly triggers: readonly string[];
  readonly push_events_branch_filter: string | null;
  readonly branch_filter_strategy: string;
}

/** Whether the hook belongs to the instance, or to the project or a namespace of the event. */
const isNear = ({ namespace_id, project_id }: Listening, event: EventRow): boolean =>
  namespace_id === null
    ? project_id === null || project_id === event.project_id
    : event.namespace_ids.includes(namespace_id);

/** Returns the hooks of the projects, groups and parent groups of the events, and those of the instance. */
const findHooks = async (tx: Tx, events: readonly EventRow[]): Promise<readonly Listening[]> => {
  const namespaceIds = [...new Set(events.flatMap(({ namespace_ids }) => namespace_ids))];
  const projectIds = [...new Set(events.flatMap(({ project_id }) => project_id ?? []))];
  const columns = sql.raw(`id, namespace_id, project_id, triggers, push_events_branch_filter, branch_filter_strategy,
    disabled_permanently or disabled_until is not null as blocked, updated_at as version, recent_failures`);
  const { rows } = await sql<Listening>`
    select ${columns} from webhooks where namespace_id = any (${namespaceIds}::bigint[])
    union all
    select ${columns} from webhooks where project_id = any (${projectIds}::bigint[])
    union all
    select ${columns} from webhooks where namespace_id is null and project_id is null
    order by id`.execute(tx.db);
  return rows;
};

interface Built {
  readonly body: Buffer | null;
  /** Why nothing can be sent, or null. */
  readonly failure: string | null;
  readonly ref: string | null;
}

/** Builds the body once for all hooks. Returns null if the subject is gone. A build error becomes the failure. */
const build = async (ctx: Context, definition: AnyEventDefinition, event: EventRow): Promise<Built | null> => {
  try {
    const object = await definition.body(ctx, event);
    if (object === null) return null;
    const body = Buffer.from(JSON.stringify(object));
    const ref = typeof object.ref === 'string' ? object.ref : null;
    if (body.length > MAX_BODY_BYTES) return { body: null, failure: 'The body is larger than 25 MB', ref };
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
      const { rows } = await sql<{ chain_id: string; webhook_ids: number[] }>`
        select chain_id, webhook_ids from webhook_payloads
        where chain_id = any (${chains}::text[]) and created_at > now() - interval '30 minutes'`.execute(tx.db);
      for (const { chain_id, webhook_ids } of rows) for (const id of webhook_ids) fired.get(chain_id)?.add(id);
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
      hooks: each.hooks.map((one) => (one.reason !== null || left-- > 0 ? one : { ...one, reason: OVER_LIMIT })),
    };
  });
};

const OVER_LIMIT = 'Dropped: the top-level group has reached its limit of hook calls per minute';
