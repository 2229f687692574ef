import type { z } from 'zod';
import type { Context } from './context.ts';

/**
 * One row of the event log. `position` is given by the sequencer once the event is committed (see event-log.ts);
 * cursors are positions, never ids.
 */
export interface EventRow {
  readonly id: number;
  readonly position: number;
  readonly kind: string;
  readonly actor_id: number | null;
  readonly subject_type: string;
  readonly subject_id: number;
  readonly project_id: number | null;
  /** The group or personal namespace concerned and all its ancestors, outermost first. */
  readonly namespace_ids: readonly number[];
  /** Least role that may see the event; null means whoever may see the project or namespace. */
  readonly min_access_level: number | null;
  /** People who may see it whatever their role; for an event without project and namespace, the only ones beside administrators. */
  readonly user_ids: readonly number[];
  readonly payload: unknown;
  /** Identifies the chain of requests that led here (`X-Gitlab-Event-UUID`). */
  readonly chain_id: string | null;
  readonly created_at: string;
}

/** What `tx.emit` is given. */
export interface NewEvent<P> {
  readonly subject: { readonly type: string; readonly id: number };
  readonly project_id?: number | null;
  readonly namespace_ids?: readonly number[];
  readonly min_access_level?: number | null;
  readonly user_ids?: readonly number[];
  readonly payload: P;
}

/** Binds an event kind to hooks: which toggles may want it, and the body receivers get (reference: webhooks §3). */
export interface WebhookBinding<P> {
  /** The toggle of this event, or null when the payload says that no hook should hear of it. */
  trigger(payload: P): string | null;
  /** Built once per event, when it is dispatched. Null drops the delivery (its subject is gone). */
  body(ctx: Context, event: EventRow, payload: P): Promise<Record<string, unknown> | null>;
}

export interface EventDefinition<P> {
  readonly kind: string;
  readonly payload: z.ZodType<P>;
  readonly webhook?: WebhookBinding<P>;
}

/** Declares an event kind, named `<subject>.<past participle>`. */
export const defineEvent = <P>(
  kind: string,
  payload: z.ZodType<P>,
  webhook?: WebhookBinding<P>,
): EventDefinition<P> => {
  const definition = webhook ? { kind, payload, webhook } : { kind, payload };
  // Whoever asked for the trigger asks for the body next.
  const known = new WeakMap<object, P>();
  const parse = (sent: unknown): P => {
    if (typeof sent !== 'object' || sent === null) return payload.parse(sent);
    const parsed = known.get(sent) ?? payload.parse(sent);
    known.set(sent, parsed);
    return parsed;
  };
  registry.set(definition, {
    kind,
    hasWebhook: webhook !== undefined,
    trigger: (sent) => webhook?.trigger(parse(sent)) ?? null,
    body: async (ctx, event) => (await webhook?.body(ctx, event, parse(event.payload))) ?? null,
  });
  return definition;
};

/** A definition whose payload type has been closed over, so that many fit into one list. */
export interface AnyEventDefinition {
  readonly kind: string;
  /** False where no event of the kind ever goes to a hook. */
  readonly hasWebhook: boolean;
  /** Null when the kind has no binding, or this payload wants no hook. */
  trigger(payload: unknown): string | null;
  body(ctx: Context, event: EventRow): Promise<Record<string, unknown> | null>;
}

const registry = new WeakMap<object, AnyEventDefinition>();

/** The event kinds among the exports of a domain's `events.ts`: `definitionsIn(await import('./events.ts'))`. */
export const definitionsIn = (exports: Readonly<Record<string, unknown>>): AnyEventDefinition[] =>
  Object.values(exports).flatMap((value) => {
    const definition = typeof value === 'object' && value !== null ? registry.get(value) : undefined;
    return definition ? [definition] : [];
  });

/** A payload as `events` shows it: what stands under `hook_only` is for the bodies of hooks alone. */
export const shownPayload = (payload: unknown): unknown => {
  if (typeof payload !== 'object' || payload === null || !('hook_only' in payload)) return payload;
  const { hook_only: _hidden, ...shown } = payload;
  return shown;
};
