import { z } from 'zod';
import type { Context } from './context.ts';

/**
 * One row of the event log. The sequencer assigns `position` after the event is committed (see event-log.ts). Cursors
 * are positions, never ids.
 */
export interface EventRow {
  readonly id: number;
  readonly position: number;
  readonly kind: string;
  readonly actor_id: number | null;
  readonly subject_type: string;
  readonly subject_id: number;
  readonly project_id: number | null;
  /** The namespace (group or personal) of the event and all its ancestors, outermost first. */
  readonly namespace_ids: readonly number[];
  /** The visibility of the project or namespace when the event happened; null means members only. */
  readonly visibility_level: number | null;
  /** The lowest role that could see the event when it happened. Null means everyone who could see the container. */
  readonly min_access_level: number | null;
  /**
   * Users who may see the event whatever their role. If it has no project and no namespace, only they and
   * administrators see it.
   */
  readonly user_ids: readonly number[];
  readonly payload: unknown;
  /** Identifies the chain of requests that caused the event (`X-Gitlab-Event-UUID`). */
  readonly chain_id: string | null;
  readonly created_at: string;
}

/** The argument of `tx.emit`. */
export interface NewEvent<P> {
  readonly subject: { readonly type: string; readonly id: number };
  readonly project_id?: number | null;
  readonly namespace_ids?: readonly number[];
  /** The visibility of the project or namespace after this change. Without it only members see the event. */
  readonly visibility_level?: number | null;
  readonly min_access_level?: number | null;
  readonly user_ids?: readonly number[];
  readonly payload: P;
}

/**
 * Binds an event kind to hooks: the toggle that selects it, and the body that receivers get (reference: webhooks §3).
 */
export interface WebhookBinding<P> {
  /** Returns the toggle of this event, or null if the payload is not for hooks. */
  trigger(payload: P): string | null;
  /** Builds the body once per event, when it is dispatched. Null drops the delivery, because the subject is gone. */
  body(ctx: Context, event: EventRow, payload: P): Promise<Record<string, unknown> | null>;
}

/**
 * The part of a project that an event is about, if reading it needs more than access to the project. A reader must be
 * able to read that part now, and must have been able to read the event when it happened
 * (domains/events/visibility.ts).
 */
export interface EventPart {
  /** The ability that a reader needs in the project now. */
  readonly ability: string;
  /** An object with its own visibility that the reader must be able to see now. */
  readonly subject?: { readonly type: string; readonly id: number } | undefined;
  /** The lowest role that a reader needs now, in addition to the ability. */
  readonly least?: number | undefined;
}

/** Optional properties of an event kind: its part, fixed or computed from the payload, and its webhook binding. */
export type EventBinding<P> = {
  readonly part?: EventPart | ((payload: P) => EventPart | null) | undefined;
} & (WebhookBinding<P> | { readonly trigger?: undefined; readonly body?: undefined });

export interface EventDefinition<P> {
  readonly kind: string;
  readonly payload: z.ZodType<P>;
  readonly webhook?: WebhookBinding<P>;
}

/** Declares an event kind, named `<subject>.<past participle>`. */
export const defineEvent = <P>(
  kind: string,
  payload: z.ZodType<P>,
  binding: EventBinding<P> = {},
): EventDefinition<P> => {
  const webhook = binding.trigger ? { trigger: binding.trigger, body: binding.body } : null;
  const definition = webhook ? { kind, payload, webhook } : { kind, payload };
  // Calls for the trigger are usually followed by a call for the body with the same payload.
  const known = new WeakMap<object, P>();
  const parse = (sent: unknown): P => {
    if (typeof sent !== 'object' || sent === null) return payload.parse(sent);
    const parsed = known.get(sent) ?? payload.parse(sent);
    known.set(sent, parsed);
    return parsed;
  };
  const { part = null } = binding;
  registry.set(definition, {
    kind,
    hasWebhook: webhook !== null,
    part: (sent) => (typeof part === 'function' ? part(parse(sent)) : part),
    trigger: (sent) => webhook?.trigger(parse(sent)) ?? null,
    body: async (ctx, event) => (await webhook?.body(ctx, event, parse(event.payload))) ?? null,
  });
  return definition;
};

/** A definition that hides its payload type, so that one list can hold many. */
export interface AnyEventDefinition {
  readonly kind: string;
  /** False if events of this kind never go to hooks. */
  readonly hasWebhook: boolean;
  /** Null if access to the project or namespace is enough to read the event. */
  part(payload: unknown): EventPart | null;
  /** Returns null if the kind has no binding, or the payload is not for hooks. */
  trigger(payload: unknown): string | null;
  body(ctx: Context, event: EventRow): Promise<Record<string, unknown> | null>;
}

const registry = new WeakMap<object, AnyEventDefinition>();

/**
 * Returns the event kinds among the exports of a domain's `events.ts`: `definitionsIn(await import('./events.ts'))`.
 */
export const definitionsIn = (exports: Readonly<Record<string, unknown>>): AnyEventDefinition[] =>
  Object.values(exports).flatMap((value) => {
    const definition = typeof value === 'object' && value !== null ? registry.get(value) : undefined;
    return definition ? [definition] : [];
  });

/** Removes `previous` from all changes, except those of the attributes in `kept`. */
export const withoutPrevious = <C extends { readonly current: unknown }>(
  changes: Readonly<Record<string, C>>,
  kept: readonly string[] = [],
): Record<string, C | Pick<C, 'current'>> =>
  Object.fromEntries(
    Object.entries(changes).map(([name, change]) => [name, kept.includes(name) ? change : { current: change.current }]),
  );

const recorded = z.object({ changes: z.record(z.string(), z.object({ previous: z.unknown(), current: z.unknown() })) });

/**
 * Returns the payload as `events` shows it, without `hook_only`, which is for hook bodies. Events from before their
 * visibility was recorded may contain former values that fewer people could read, so those are removed too.
 */
export const shownPayload = (event: Pick<EventRow, 'payload' | 'visibility_level' | 'namespace_ids'>): unknown => {
  const { payload, visibility_level, namespace_ids } = event;
  if (typeof payload !== 'object' || payload === null) return payload;
  const { hook_only: _hidden, ...shown } = { hook_only: null, ...payload };
  const changed = visibility_level === null && namespace_ids.length > 0 ? recorded.safeParse(payload) : null;
  return changed?.success ? { ...shown, changes: withoutPrevious(changed.data.changes) } : shown;
};
