import {
  type ExecutionResult,
  GraphQLError,
  getArgumentValues,
  getNamedType,
  isObjectType,
  type ValidatedExecutionArgs,
} from 'graphql';
import type { Actor, Context } from '#platform/context.ts';
import type { EventFeed } from '#platform/event-log/feed.ts';
import type { LiveFilter } from '#platform/event-log/read.ts';
import type { EventRow } from '#platform/events.ts';
import type { Logger } from '#platform/log.ts';
import { type Engine, type Prepared, Refused } from './engine.ts';
import { maskError } from './errors.ts';
import { Frame } from './frame.ts';
import { limitError } from './limits.ts';
import { type LiveSink, Member, type Viewer } from './live-member.ts';
import { Rechecks } from './live-rechecks.ts';
import { type Shape, shapeOf } from './live-shape.ts';
import { eventCursor, findLiveField, type LiveField, positionOf } from './subscription.ts';

/** Returns the indexes of the viewers who may see the event now. Called once per event for all of them. */
export type RightsCheck = (viewers: readonly Actor[], event: EventRow) => Promise<ReadonlySet<number>>;

export interface LiveOptions {
  readonly engine: Engine;
  readonly feed: EventFeed;
  readonly mayStillSee: RightsCheck;
  /** Returns the indexes of the events that the viewer may see now. Called for a page of history. */
  readonly seenBy: (viewer: Actor, events: readonly EventRow[]) => Promise<ReadonlySet<number>>;
  /** Returns the indexes of the viewers whose credentials are still valid, for example not a revoked token. */
  readonly stillValid: (viewers: readonly Actor[]) => Promise<ReadonlySet<number>>;
  /** The kinds of events after which a project or group is gone, with everything in it. */
  readonly endings: ReadonlySet<string>;
  /** Creates a new context for a viewer, for each execution. */
  readonly contextFor: (actor: Actor) => Promise<Context>;
  readonly log: Logger;
}

/**
 * Subscribers who get the same frames: they share document, variables and arguments, and also the viewer if the payload
 * depends on it.
 */
interface Group {
  readonly key: string;
  readonly field: LiveField;
  readonly filter: LiveFilter;
  readonly args: Readonly<Record<string, unknown>>;
  readonly prepared: Prepared;
  readonly bound: ValidatedExecutionArgs;
  /** Whether results name the cursor in their extensions, because the type of the payload has no field for it. */
  readonly namesCursor: boolean;
  readonly members: Set<Member>;
  tail: Promise<void>;
  queued: number;
  leave: () => void;
}

/** How often credentials are re-checked. */
const VALIDITY_MS = 5_000;
/** Memory of a document per unit of its weight. Measured and rounded up. */
const BYTES_PER_WEIGHT = 500;
/** Memory of a subscription without its document and variables. */
const SUBSCRIPTION_BYTES = 4_096;
/** How long a rights check of a history page stays valid. A slow reader may take minutes for one page. */
const RIGHTS_MS = 250;
/** Events a group may lag behind before its subscribers are disconnected. They can resume. */
const MAX_QUEUED = 10_000;

/**
 * Runs subscriptions. Each event is executed and serialised once for all subscribers who share the result, and rights
 * are checked for all viewers of an event at once. History is sent before live events, without gaps or duplicates.
 */
export class LiveHub {
  readonly #options: LiveOptions;
  readonly #groups = new Map<string, Group>();
  readonly #viewers = new Map<string, Viewer>();
  readonly #shapes = new WeakMap<Prepared, Shape>();
  readonly #rechecks: Rechecks<Group, Viewer>;
  readonly #rounds: NodeJS.Timeout;
  #documents = 0;
  /** Not subscribed while nobody is, so that the feed has nothing to read. */
  #leaveEndings: (() => void) | null = null;
  #batch: { event: EventRow; viewers: Set<Viewer>; allowed: Promise<ReadonlySet<Viewer>> } | null = null;
  #rightsTail: Promise<unknown> = Promise.resolve();

  constructor(options: LiveOptions) {
    this.#options = options;
    this.#rechecks = new Rechecks({
      stillValid: options.stillValid,
      open: async (group, { actor }) => group.field.open(await options.contextFor(actor), group.args),
      expel: (group, viewer, over) => this.#expel(group, viewer, over),
      log: options.log,
    });
    this.#rounds = setInterval(() => void this.#endInvalid(), VALIDITY_MS).unref();
  }

  get size(): number {
    let size = 0;
    for (const group of this.#groups.values()) size += group.members.size;
    return size;
  }

  /**
   * Starts a subscription. Returns a function that ends it, or the refusal. `sink` may get frames before this returns.
   */
  async subscribe(
    ctx: Context,
    prepared: Prepared,
    bound: ValidatedExecutionArgs,
    sink: LiveSink,
  ): Promise<(() => void) | Refused> {
    const { feed } = this.#options;
    const shape = this.#shapeOf(prepared);
    const field = findLiveField(shape.root.name.value);
    const definition = this.#options.engine.schema.getSubscriptionType()?.getFields()[shape.root.name.value];
    if (!field || !definition) return new Refused([new GraphQLError('This cannot be subscribed to')]);

    let args: Readonly<Record<string, unknown>>;
    let filter: LiveFilter;
    let after: number | null;
    try {
      args = getArgumentValues(definition, shape.root, bound.variableValues);
      after = typeof args.after === 'string' ? positionOf(args.after) : null;
      filter = await field.open(ctx, args);
    } catch (error) {
      return new Refused([maskError(error, ctx)]);
    }
    const release = sink.seat.subscribe({
      document: prepared,
      documentBytes: prepared.weight * BYTES_PER_WEIGHT,
      ownBytes: SUBSCRIPTION_BYTES + JSON.stringify(bound.variableValues.coerced).length,
    });
    if (typeof release === 'string') return new Refused([limitError(release)]);
    // No await below: no event may pass between reading the head and joining the group.
    const viewer = this.#viewerOf(ctx.actor);
    const type = getNamedType(definition.type);
    const namesCursor = !(isObjectType(type) && type.getFields().cursor);
    const group = this.#groupOf({ prepared, shape, field, filter, args, bound, namesCursor, viewer });
    const head = feed.head();
    // `after` may be ahead of `head`, because another process can be slightly ahead of this one.
    const from = Math.max(head, after ?? 0);
    const member = new Member({ viewer, sink, release, from, replays: after !== null });
    viewer.members++;
    group.members.add(member);
    if (after !== null) {
      this.#replay(group, member, after).catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'a replay failed');
        this.#drop(group, member);
      });
    }
    return () => this.#close(group, member);
  }

  /** Disconnects all subscribers. They may resume elsewhere. */
  stop(): void {
    clearInterval(this.#rounds);
    this.#rechecks.stop();
    for (const group of this.#groups.values()) {
      for (const member of [...group.members]) this.#drop(group, member);
    }
  }

  #onEvent(group: Group, event: EventRow): void {
    if (group.queued >= MAX_QUEUED) {
      for (const member of [...group.members]) this.#drop(group, member);
      return;
    }
    const allowed = this.#allowed(group, event);
    group.queued++;
    group.tail = group.tail.then(async () => {
      try {
        await this.#deliver(group, event, await allowed);
      } catch (error) {
        // Disconnecting is safer than losing an event. Subscribers can resume with a cursor.
        this.#options.log.error({ err: error, event_id: event.id }, 'a live event could not be delivered');
        for (const member of [...group.members]) this.#drop(group, member);
      } finally {
        group.queued--;
      }
    });
  }

  /** Re-checks the access of those who follow a project or group that is gone, after they got what happened before. */
  #onEnding(event: EventRow): void {
    // The feed passes the event to all groups in this tick.
    queueMicrotask(() => {
      for (const group of this.#groups.values()) {
        const { project_id, namespace_id } = group.filter;
        if (event.project_id === null ? namespace_id !== event.subject_id : project_id !== event.project_id) continue;
        group.tail = group.tail.then(() => {
          for (const { viewer } of group.members) this.#rechecks.add(group, viewer);
        });
      }
    });
  }

  async #deliver(group: Group, event: EventRow, allowed: ReadonlySet<Viewer>): Promise<void> {
    const members = [...group.members].filter((member) => event.position > member.from);
    const seeing = members.filter((member) => allowed.has(member.viewer));
    const [first] = seeing;
    const frame = first ? await this.#execute(group, first.viewer.actor, event) : null;
    if (frame) for (const member of seeing) if (!member.take(frame)) this.#drop(group, member);
    for (const member of members) if (!allowed.has(member.viewer)) this.#rechecks.add(group, member.viewer);
  }

  /** Ends subscriptions of viewers whose token or session expired or was revoked, even if no event triggers a check. */
  async #endInvalid(): Promise<void> {
    const viewers = [...this.#viewers.values()].filter(({ actor }) => actor.userId !== null);
    if (viewers.length === 0) return;
    try {
      const valid = await this.#options.stillValid(viewers.map(({ actor }) => actor));
      for (const viewer of viewers.filter((_, index) => !valid.has(index))) {
        for (const group of [...this.#groups.values()]) this.#expel(group, viewer, true);
      }
    } catch (error) {
      // Safe to continue: rights are checked again before each event is sent.
      this.#options.log.warn({ err: error }, 'the credentials of subscribers could not be re-checked');
    }
  }

  #expel(group: Group, viewer: Viewer, over: boolean): void {
    for (const member of [...group.members]) {
      if (member.viewer !== viewer) continue;
      this.#close(group, member);
      if (over) member.sink.complete();
      else member.sink.drop();
    }
  }

  /** Checks the viewers of all groups together: the feed passes an event to all groups in the same tick. */
  #allowed(group: Group, event: EventRow): Promise<ReadonlySet<Viewer>> {
    let batch = this.#batch;
    if (batch?.event !== event) {
      const viewers = new Set<Viewer>();
      const allowed = this.#rightsTail.then(() => this.#check([...viewers], event));
      // The caller of `#allowed` handles the failure.
      this.#rightsTail = allowed.catch(() => undefined);
      batch = { event, viewers, allowed };
      this.#batch = batch;
    }
    for (const member of group.members) batch.viewers.add(member.viewer);
    return batch.allowed;
  }

  async #check(viewers: readonly Viewer[], event: EventRow): Promise<ReadonlySet<Viewer>> {
    if (this.#batch?.event === event) this.#batch = null;
    const allowed = await this.#options.mayStillSee(
      viewers.map(({ actor }) => actor),
      event,
    );
    return new Set(viewers.filter((_, index) => allowed.has(index)));
  }

  async #execute(group: Group, actor: Actor, event: EventRow): Promise<Frame | null> {
    const ctx = await this.#options.contextFor(actor);
    let result: ExecutionResult;
    try {
      const payload = await group.field.resolve(event, group.args, ctx);
      if (payload === null || payload === undefined) return null;
      result = await this.#options.engine.run(ctx, group.prepared, {
        ...group.bound,
        contextValue: ctx,
        rootValue: payload,
      });
      if (group.namesCursor) result = { ...result, extensions: { ...result.extensions, cursor: eventCursor(event) } };
    } catch (error) {
      result = { errors: [maskError(error, ctx)] };
    }
    return new Frame(result);
  }

  async #replay(group: Group, member: Member, after: number): Promise<void> {
    const { feed, log } = this.#options;
    const { actor } = member.viewer;
    try {
      for await (const events of feed.history(group.filter, after, member.from)) {
        let seen = new Set<EventRow>();
        let askedAt = Number.NEGATIVE_INFINITY;
        for (const [index, event] of events.entries()) {
          if (member.closed) return;
          if (performance.now() - askedAt > RIGHTS_MS) {
            askedAt = performance.now();
            const rest = events.slice(index);
            const indexes = await this.#options.seenBy(actor, rest);
            seen = new Set(rest.filter((_, n) => indexes.has(n)));
          }
          const frame = seen.has(event) ? await this.#execute(group, actor, event) : null;
          if (!frame || member.closed) continue;
          member.sink.send(frame);
          await member.sink.ready();
        }
      }
      member.endReplay();
    } catch (error) {
      if (member.closed) return;
      this.#close(group, member);
      member.sink.send(new Frame({ errors: [maskError(error, { log, requestId: `live-${after}` })] }));
      member.sink.complete();
    }
  }

  #drop(group: Group, member: Member): void {
    this.#close(group, member);
    member.sink.drop();
  }

  #close(group: Group, member: Member): void {
    if (!member.close()) return;
    group.members.delete(member);
    if (--member.viewer.members === 0) this.#viewers.delete(member.viewer.key);
    if (group.members.size > 0) return;
    group.leave();
    this.#groups.delete(group.key);
    if (this.#groups.size > 0) return;
    this.#leaveEndings?.();
    this.#leaveEndings = null;
  }

  #groupOf(
    wanted: Pick<Group, 'prepared' | 'field' | 'filter' | 'args' | 'bound' | 'namesCursor'> & {
      shape: Shape;
      viewer: Viewer;
    },
  ): Group {
    const { shape, viewer, ...rest } = wanted;
    const variables = Object.entries(rest.bound.variableValues.coerced).filter(
      ([name]) => name !== shape.cursorVariable,
    );
    const filter = { ...rest.filter, kinds: rest.filter.kinds && [...rest.filter.kinds] };
    const key = JSON.stringify([shape.id, variables, filter, shape.viewerIndependent ? null : viewer.key]);
    let group = this.#groups.get(key);
    if (!group) {
      // Without the context of the first subscriber, which would keep that request alive.
      const bound = { ...rest.bound, contextValue: undefined };
      group = { ...rest, bound, key, members: new Set(), tail: Promise.resolve(), queued: 0, leave: () => undefined };
      this.#groups.set(key, group);
      const { feed, endings } = this.#options;
      this.#leaveEndings ??= feed.subscribe({ kinds: endings }, (event) => this.#onEnding(event));
      const created = group;
      group.leave = feed.subscribe(rest.filter, (event) => this.#onEvent(created, event));
    }
    return group;
  }

  #viewerOf(actor: Actor): Viewer {
    const { userId, credential, isAdmin, isAuditor = false, isExternal, isSystem, address = null } = actor;
    const scopes = actor.scopes && [...actor.scopes].sort();
    // The address is part of the key, because a group's IP restrictions may admit one address of a user and refuse
    // another.
    const key = JSON.stringify([userId, credential, isAdmin, isAuditor, isExternal, isSystem, scopes, address]);
    let viewer = this.#viewers.get(key);
    if (!viewer) {
      viewer = { key, actor, members: 0 };
      this.#viewers.set(key, viewer);
    }
    return viewer;
  }

  #shapeOf(prepared: Prepared): Shape {
    let shape = this.#shapes.get(prepared);
    if (!shape) {
      shape = shapeOf(this.#options.engine, prepared, ++this.#documents);
      this.#shapes.set(prepared, shape);
    }
    return shape;
  }
}
