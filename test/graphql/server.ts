import type { AddressInfo } from 'node:net';
import fastify from 'fastify';
import { builder } from '#graphql/builder.ts';
import type { ContextOf } from '#graphql/caller.ts';
import { eventCursor, subscriptionField } from '#graphql/subscription.ts';
import { asksForSocket } from '#graphql/websocket.ts';
import { mountGraphql } from '#graphql/yoga.ts';
import { Caches } from '#platform/cache.ts';
import { Answers } from '#platform/caller/answers.ts';
import { readConfig } from '#platform/config/config.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import { DomainError, invalidToken, notFound } from '#platform/errors.ts';
import type { EventFeed } from '#platform/event-log/feed.ts';
import { type LiveFilter, matches } from '#platform/event-log/read.ts';
import type { EventRow } from '#platform/events.ts';
import { kitContext, userActor } from './support.ts';

const PAGE = 8;

/** An in-memory event log with the guarantees of the real one. */
class FakeFeed implements EventFeed {
  readonly events: EventRow[] = [];
  readonly subscriptions = new Set<{ filter: LiveFilter; onEvent: (event: EventRow) => void }>();
  prunedPosition = 0;

  head = (): number => this.events.length;

  /** The number of subscriptions to `thing.changed`. */
  get followed(): number {
    return [...this.subscriptions].filter(({ filter }) => filter.kinds?.has('thing.changed')).length;
  }

  subscribe(filter: LiveFilter, onEvent: (event: EventRow) => void): () => void {
    const subscription = { filter, onEvent };
    this.subscriptions.add(subscription);
    return () => this.subscriptions.delete(subscription);
  }

  async *history(filter: LiveFilter, after: number, until: number): AsyncGenerator<EventRow[]> {
    if (after < this.prunedPosition) throw new DomainError('gone', 'The cursor is older than the oldest event kept');
    const wanted = this.events.filter(
      (event) => event.position > after && event.position <= until && matches(filter, event),
    );
    for (let i = 0; i < wanted.length; i += PAGE) {
      await new Promise((resolve) => setImmediate(resolve));
      yield wanted.slice(i, i + PAGE);
    }
  }

  emit(project_id: number, payload: unknown, kind = 'thing.changed'): EventRow {
    const position = this.events.length + 1;
    const event: EventRow = {
      id: position + 1_000,
      position,
      kind,
      actor_id: 1,
      subject_type: 'Thing',
      subject_id: 1,
      project_id,
      namespace_ids: [],
      visibility_level: 20,
      min_access_level: null,
      user_ids: [],
      payload,
      chain_id: null,
      created_at: '2026-11-21 01:42:33.123456+00',
    };
    this.events.push(event);
    for (const { filter, onEvent } of [...this.subscriptions]) if (matches(filter, event)) onEvent(event);
    return event;
  }
}

interface Change {
  readonly cursor: string;
  readonly text: string;
  readonly viewer: number | null;
}

const changeFields = (name: string, extensions: { viewerIndependent?: boolean }) =>
  builder.objectRef<Change>(name).implement({
    extensions,
    fields: (t) => ({
      cursor: t.exposeString('cursor', { nullable: false }),
      text: t.exposeString('text'),
      viewer: t.exposeInt('viewer'),
    }),
  });
const SharedChange = changeFields('SharedChange', { viewerIndependent: true });
const OwnChange = changeFields('OwnChange', {});

export const live = {
  executions: 0,
  rightsChecks: [] as number[],
  validityChecks: [] as number[],
  pages: [] as number[],
  opened: 0,
  /** Holds back subscriptions until it resolves. */
  gate: Promise.resolve(),
  blind: new Set<number>(),
  expelled: new Set<number>(),
  /** Projects that do not exist any more. */
  gone: new Set<number>(),
  revoked: new Set<number>(),
};

const declare = (name: string, type: typeof SharedChange) =>
  subscriptionField(name, {
    type,
    args: (t) => ({ project: t.int({ required: true }) }),
    open: async (ctx, { project }) => {
      live.opened++;
      await live.gate;
      if (project === 404 || live.gone.has(project) || live.expelled.has(ctx.actor.userId ?? 0))
        throw notFound('Project');
      return { kinds: new Set(['thing.changed']), project_id: project };
    },
    resolve: async (event, _args, ctx) => {
      live.executions++;
      if (event.payload === null) return null;
      return { cursor: eventCursor(event), text: String(event.payload), viewer: ctx.actor.userId };
    },
  });
declare('sharedChanged', SharedChange);
declare('ownChanged', OwnChange);

/** `PRIVATE-TOKEN: user-7`, `reader-7` (scope read_api only), `git-7` (no API scope). */
const actorOf = (token: string | undefined): Actor => {
  if (token === undefined) return anonymous;
  const [, kind, id] = /^(user|reader|git)-(\d+)$/.exec(token) ?? [];
  if (kind === 'user') return userActor(Number(id));
  if (kind === 'reader') return userActor(Number(id), ['read_api']);
  if (kind === 'git') return userActor(Number(id), ['read_repository']);
  throw invalidToken('unknown');
};

const contextOf: ContextOf = async ({ headers, signal }) => {
  const token = headers['private-token'] ?? headers.authorization?.replace('Bearer ', '');
  return kitContext(actorOf(typeof token === 'string' ? token : undefined), signal);
};

export const startServer = async () => {
  const feed = new FakeFeed();
  const settings = { graphiql: true };
  // An idle connection that a client opened in advance would otherwise delay the end of a test.
  const app = fastify({ forceCloseConnections: true, http: { shouldUpgradeCallback: asksForSocket } });
  const answers = new Answers();
  const mount = await mountGraphql(app, {
    answers,
    schema: builder.toSchema(),
    caches: new Caches(),
    contextOf,
    contextFor: async (actor) => kitContext(actor),
    feed,
    mayStillSee: async (viewers) => {
      live.rightsChecks.push(viewers.length);
      return new Set([...viewers.keys()].filter((index) => !live.blind.has(viewers[index]?.userId ?? 0)));
    },
    seenBy: async ({ userId }, events) => {
      live.pages.push(events.length);
      return new Set(live.blind.has(userId ?? 0) ? [] : events.keys());
    },
    stillValid: async (viewers) => {
      live.validityChecks.push(viewers.length);
      return new Set([...viewers.keys()].filter((index) => !live.revoked.has(viewers[index]?.userId ?? 0)));
    },
    endings: new Set(['thing.gone']),
    graphiqlEnabled: async () => settings.graphiql,
    csrfTokenOf: ({ cookie }) => cookie ?? null,
    limits: readConfig([], {}),
    addressOf: ({ socket }) => socket.remoteAddress ?? '',
    log: kitContext(anonymous).log,
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port }: AddressInfo = Object(app.server.address());
  return { app, mount, feed, answers, settings, port, url: `http://127.0.0.1:${port}/api/graphql` };
};
