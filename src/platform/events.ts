import { z } from 'zod';
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
  /** How visible the project or namespace was when it happened; null means not at all without membership. */
  readonly visibility_level: number | null;
  /** Least role that could see the event when it happened; null means whoever could see the project or namespace. */
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
  /** Of the project or namespace, as this change leaves it. Without it the event is for members alone. */
  readonly visibility_level?: number | null;
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

/**
 * What an event is about, where not everyone who may see its project may see that. The event is read by those who may read
 * this at present, and could read the event when it happened (domains/events/visibility.ts).
 */
export interface EventPart {
  /** What a reader must be able to do in the project now. */
  readonly ability: string;
  /** Something that the reader must be able to see now, and that has a visibility of its own. */
  readonly subject?: { readonly type: string; readonly id: number } | undefined;
  /** The least role that a reader must hold now, whatever the ability asks for. */
  readonly least?: number | undefined;
}

/** What else there is to say of an event kind. A part that depends on the payload is worked out from it. */
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
  // Whoever asked for the trigger asks for the body next.
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

/** A definition whose payload type has been closed over, so that many fit into one list. */
export interface AnyEventDefinition {
  readonly kind: string;
  /** False where no event of the kind ever goes to a hook. */
  readonly hasWebhook: boolean;
  /** Null when whoever may see the project or namespace may see all that the event is about. */
  part(payload: unknown): EventPart | null;
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

/** The changes without the former values, but for those of the attributes named in `kept`. */
export const withoutPrevious = <C extends { readonly current: unknown }>(
  changes: Readonly<Record<string, C>>,
  kept: readonly string[] = [],
): Record<string, C | Pick<C, 'current'>> =>
  Object.fromEntries(
    Object.entries(changes).map(([name, change]) => [name, kept.includes(name) ? change : { current: change.current }]),
  );

const recorded = z.object({ changes: z.record(z.string(), z.object({ previous: z.unknown(), current: z.unknown() })) });

/**
 * The payload as `events` shows it: what stands under `hook_only` is for the bodies of hooks alone. Events from before their
 * visibility was recorded may hold former values that fewer people could read: they are left out.
 */
export const shownPayload = (event: Pick<EventRow, 'payload' | 'visibility_level' | 'namespace_ids'>): unknown => {
  const { payload, visibility_level, namespace_ids } = event;
  if (typeof payload !== 'object' || payload === null) return payload;
  const { hook_only: _hidden, ...shown } = { hook_only: null, ...payload };
  const changed = visibility_level === null && namespace_ids.length > 0 ? recorded.safeParse(payload) : null;
  return changed?.success ? { ...shown, changes: withoutPrevious(changed.data.changes) } : shown;
};
