import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { builder } from '#graphql/builder.ts';
import { encodeCursor } from '#platform/cursor.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { live, startServer } from './server.ts';

builder.queryField('ping', (t) => t.string({ resolve: () => 'pong' }));

let server: Awaited<ReturnType<typeof startServer>>;
const cleanups: (() => unknown)[] = [];
beforeEach(async () => {
  server = await startServer();
  live.executions = 0;
  live.rightsChecks.length = 0;
  live.blind.clear();
  live.expelled.clear();
  live.gone.clear();
  live.revoked.clear();
  live.gate = Promise.resolve();
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
  await server.app.close();
});

const until = async (condition: () => boolean, what: string) => {
  const deadline = performance.now() + PATIENCE_MS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
};

const SHARED =
  'subscription($p: Int!, $after: String) { sharedChanged(project: $p, after: $after) { cursor text viewer } }';
const OWN = 'subscription($p: Int!, $after: String) { ownChanged(project: $p, after: $after) { cursor text viewer } }';

interface Follower {
  readonly results: unknown[];
  readonly texts: () => string[];
  readonly cursor: () => string;
  ended: 'complete' | Error | null;
  stop(): void;
}

const followBy =
  (transport: 'sse' | 'ws') =>
  (query: string, variables: Record<string, unknown>, token: string | null = 'user-1'): Follower => {
    const client =
      transport === 'sse'
        ? createSseClient({
            url: server.url,
            retryAttempts: 0,
            headers: token === null ? {} : { 'private-token': token },
          })
        : createWsClient({
            url: server.url.replace('http', 'ws'),
            webSocketImpl: WebSocket,
            retryAttempts: 0,
            connectionParams: token === null ? {} : { Authorization: `Bearer ${token}` },
          });
    cleanups.push(() => client.dispose());
    const results: { data?: Record<string, { text: string; cursor: string }> }[] = [];
    const payloads = () => results.flatMap(({ data }) => Object.values(data ?? {}));
    const follower: Follower = {
      results,
      texts: () => payloads().map(({ text }) => text),
      cursor: () => payloads().at(-1)?.cursor ?? '',
      ended: null,
      stop: client.subscribe(
        { query, variables },
        {
          next: (result) => results.push(JSON.parse(JSON.stringify(result))),
          error: (error) => {
            follower.ended = error instanceof Error ? error : new Error(JSON.stringify(error));
          },
          complete: () => {
            follower.ended ??= 'complete';
          },
        },
      ),
    };
    return follower;
  };

const subscribed = (count: number) => until(() => server.feed.followed === count, `${count} groups`);
const joined = (count: number) => until(() => server.mount.subscribers() === count, `${count} subscribers`);

describe.each(['sse', 'ws'] as const)('over %s', (transport) => {
  const follow = followBy(transport);

  it('sends the events of the topic in order, and stops on request', async () => {
    const follower = follow(SHARED, { p: 1 });
    await subscribed(1);
    server.feed.emit(1, 'a');
    server.feed.emit(2, 'elsewhere');
    server.feed.emit(1, null);
    server.feed.emit(1, 'b');
    await until(() => follower.texts().length === 2, 'two payloads');
    expect(follower.results).toEqual([
      { data: { sharedChanged: { cursor: encodeCursor([1]), text: 'a', viewer: 1 } } },
      { data: { sharedChanged: { cursor: encodeCursor([4]), text: 'b', viewer: 1 } } },
    ]);
    follower.stop();
    await subscribed(0);
  });

  it('resumes from a cursor with history and then live events, without gaps or duplicates', async () => {
    for (let i = 0; i < 20; i++) server.feed.emit(1, `old ${i}`);
    const follower = follow(SHARED, { p: 1, after: encodeCursor([15]) });
    await subscribed(1);
    // These events arrive while the history is still being sent.
    for (let i = 0; i < 20; i++) {
      server.feed.emit(1, `new ${i}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    server.feed.emit(1, 'end');
    await until(() => follower.texts().includes('end'), 'all payloads');
    expect(follower.texts()).toEqual([
      ...[15, 16, 17, 18, 19].map((i) => `old ${i}`),
      ...Array.from({ length: 20 }, (_, i) => `new ${i}`),
      'end',
    ]);
    follower.stop();
    const again = follow(SHARED, { p: 1, after: follower.cursor() });
    await until(() => server.feed.followed === 1, 'the second');
    server.feed.emit(1, 'last');
    await until(() => again.texts().length > 0, 'a payload');
    expect(again.texts()).toEqual(['last']);
  });

  it('reports an expired cursor, an invalid cursor, and a topic that the caller must not know about', async () => {
    for (let i = 0; i < 5; i++) server.feed.emit(1, i);
    server.feed.prunedPosition = 3;
    const expired = follow(SHARED, { p: 1, after: encodeCursor([1]) });
    const bad = follow(SHARED, { p: 1, after: 'nonsense' });
    const unknown = follow(SHARED, { p: 404 });
    for (const follower of [expired, bad, unknown]) await until(() => follower.ended !== null, 'an end');
    const said = (follower: Follower) =>
      JSON.stringify([follower.results, follower.ended instanceof Error && follower.ended.message]);
    expect(said(expired)).toContain('The cursor is older than the oldest event kept');
    expect(said(bad)).toContain('The cursor is invalid');
    expect(said(unknown)).toContain('The resource that you are attempting to access does not exist');
    await subscribed(0);
  });

  it('checks permissions for each event, and ends for viewers who lost the topic', async () => {
    const [one, two] = [follow(SHARED, { p: 1 }, 'user-1'), follow(SHARED, { p: 1 }, 'user-2')];
    await joined(2);
    live.blind.add(2);
    server.feed.emit(1, 'hidden from two');
    await until(() => one.texts().length === 1, 'a payload');
    live.blind.clear();
    server.feed.emit(1, 'for both');
    await until(() => two.texts().length === 1, 'a payload');
    live.blind.add(2);
    live.expelled.add(2);
    server.feed.emit(1, 'gone');
    await until(() => two.ended !== null, 'the end');
    expect([two.ended, two.texts()]).toEqual(['complete', ['for both']]);
    expect(one.texts()).toEqual(['hidden from two', 'for both', 'gone']);
  });

  it('ends for everyone when its project is gone, after the events before', async () => {
    const [one, two] = [follow(SHARED, { p: 1 }, 'user-1'), follow(SHARED, { p: 2 }, 'user-1')];
    await joined(2);
    server.feed.emit(1, 'the last');
    // Nothing is hidden, and the project cannot be opened any more.
    live.gone.add(1);
    server.feed.emit(1, null, 'thing.gone');
    await until(() => one.ended !== null, 'the end');
    expect([one.ended, one.texts()]).toEqual(['complete', ['the last']]);
    server.feed.emit(2, 'still there');
    await until(() => two.texts().length === 1, 'a payload');
    expect(two.ended).toBeNull();
  });

  it('ends for viewers who could no longer authenticate, even if the topic is open to anyone', async () => {
    const [one, two] = [follow(SHARED, { p: 1 }, 'user-1'), follow(SHARED, { p: 1 }, 'user-2')];
    await joined(2);
    live.blind.add(2);
    live.revoked.add(2);
    server.feed.emit(1, 'after the token was revoked');
    await until(() => two.ended !== null && one.texts().length === 1, 'the end');
    expect([two.ended, two.texts()]).toEqual(['complete', []]);
  });

  it('answers queries too, and enforces credentials, scopes and limits', async () => {
    const query = follow('{ ping }', {});
    await until(() => query.ended !== null, 'the end');
    expect([query.results, query.ended]).toEqual([[{ data: { ping: 'pong' } }], 'complete']);
    const wrong = follow(SHARED, { p: 1 }, 'nonsense');
    await until(() => wrong.ended !== null, 'the end');
    expect(wrong.ended).toBeInstanceOf(Error);
    for (const follower of [follow(SHARED, { p: 1 }, 'git-1'), follow(`{ ${'ping '.repeat(200)} }`, {})]) {
      await until(() => follower.ended !== null, 'the end');
      expect(JSON.stringify([follower.results, follower.ended instanceof Error && follower.ended.message])).toMatch(
        /scope|repeats/,
      );
    }
    const anonymous = follow(SHARED, { p: 1 }, null);
    await subscribed(1);
    server.feed.emit(1, 'public');
    await until(() => anonymous.texts().length === 1, 'a payload');
  });
});

describe('sharing', () => {
  const follow = followBy('sse');

  it('executes once for all viewers who get the same payload', async () => {
    const followers = Array.from({ length: 12 }, (_, i) =>
      follow(SHARED, { p: 1, after: i % 2 ? encodeCursor([0]) : null }, `user-${(i % 3) + 1}`),
    );
    await joined(12);
    live.executions = 0;
    live.rightsChecks.length = 0;
    server.feed.emit(1, 'x');
    for (const follower of followers) await until(() => follower.texts().length === 1, 'a payload');
    expect(live.executions).toBe(1);
    // The permissions of the three users are checked together in one call.
    expect(live.rightsChecks).toEqual([3]);
    expect(new Set(followers.map((follower) => JSON.stringify(follower.results))).size).toBe(1);
  });

  it('does not wait for viewers who may not see an event, and re-checks them together', async () => {
    const [one] = [follow(SHARED, { p: 1 }, 'user-1')];
    const denied = Array.from({ length: 30 }, (_, i) => follow(SHARED, { p: 1 }, `user-${i + 2}`));
    await joined(31);
    for (let i = 0; i < 30; i++) live.blind.add(i + 2);
    live.opened = 0;
    live.validityChecks.length = 0;
    const begun = performance.now();
    for (let i = 0; i < 50; i++) {
      server.feed.emit(1, i);
      await until(() => one.texts().length === i + 1, 'a payload');
    }
    live.expelled.add(31);
    server.feed.emit(1, 'last');
    await until(() => denied[29]?.ended === 'complete', 'the end');
    expect(denied.filter(({ ended }) => ended !== null)).toHaveLength(1);
    // There are two rounds of re-checks per second, however many events there are.
    const rounds = Math.ceil((performance.now() - begun) / 500) + 1;
    expect(live.validityChecks.length).toBeLessThanOrEqual(rounds);
    expect(live.opened).toBeLessThanOrEqual(30 * rounds);
    expect(denied.flatMap((each) => each.texts())).toEqual([]);
  });

  it('checks permissions once per page of history', async () => {
    for (let i = 0; i < 40; i++) server.feed.emit(1, i);
    live.rightsChecks.length = 0;
    live.pages.length = 0;
    const begun = performance.now();
    const follower = follow(SHARED, { p: 1, after: encodeCursor([0]) });
    await until(() => follower.texts().length === 40, 'the history');
    expect(live.rightsChecks).toEqual([]);
    // A page is checked again only after a quarter of a second.
    expect(live.pages.length).toBeLessThan(10 + (performance.now() - begun) / 250);
    live.blind.add(1);
    live.pages.length = 0;
    const blind = follow(SHARED, { p: 1, after: encodeCursor([0]) }, 'user-1');
    await until(() => live.pages.reduce((sum, events) => sum + events, 0) >= 40, 'the checks of the history');
    await joined(2);
    live.blind.clear();
    server.feed.emit(1, 'seen');
    await until(() => blind.texts().length > 0, 'a payload');
    expect(blind.texts()).toEqual(['seen']);
  });

  it('executes once per viewer if the payload can depend on the viewer', async () => {
    const followers = Array.from({ length: 6 }, (_, i) => follow(OWN, { p: 1 }, `user-${(i % 3) + 1}`));
    await joined(6);
    server.feed.emit(1, 'x');
    for (const follower of followers) await until(() => follower.texts().length === 1, 'a payload');
    expect(live.executions).toBe(3);
    expect(live.rightsChecks).toEqual([3]);
    expect(followers.map(({ results }) => JSON.stringify(results).match(/"viewer":(\d)/)?.[1])).toEqual([
      '1',
      '2',
      '3',
      '1',
      '2',
      '3',
    ]);
  });

  it('keeps subscriptions with different variables apart', async () => {
    const followers = [follow(SHARED, { p: 1 }), follow(SHARED, { p: 2 })];
    await subscribed(2);
    server.feed.emit(2, 'x');
    await until(() => followers[1]?.texts().length === 1, 'a payload');
    expect(followers[0]?.texts()).toEqual([]);
  });
});

describe('connections', () => {
  it('answer with headers only once the subscription gets every later event', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    live.gate = promise;
    live.opened = 0;
    const controller = new AbortController();
    cleanups.push(() => controller.abort());
    const ask = (accept: string, query: string) =>
      fetch(server.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept },
        body: JSON.stringify({ query, variables: { p: 1 } }),
        signal: controller.signal,
      });
    const accepted = ask('text/event-stream', SHARED).then((response) => {
      server.feed.emit(1, 'at once');
      return response;
    });
    await until(() => live.opened === 1, 'the subscription');
    await (await ask('application/json', '{ ping }')).text();
    expect(server.feed.events).toEqual([]);
    resolve();
    const { body } = await accepted;
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      if (text.includes('at once')) break;
    }
    expect(text).toContain('event: next');
  });

  it('go to clients that name JSON first', async () => {
    const controller = new AbortController();
    cleanups.push(() => controller.abort());
    const { headers } = await fetch(server.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ query: SHARED, variables: { p: 1 } }),
      signal: controller.signal,
    });
    expect(headers.get('content-type')).toContain('text/event-stream');
  });

  it('answer with an error if the subscription fails before it has begun', async () => {
    server.feed.head = () => {
      throw new Error('lost');
    };
    const follower = followBy('sse')(SHARED, { p: 1 });
    await until(() => follower.ended !== null, 'the end');
    expect(follower.results).toEqual([{ errors: [expect.objectContaining({ message: 'Internal server error' })] }]);
    expect(follower.ended).toBe('complete');
  });

  it('are cut if they do not read, while others continue', async () => {
    const follow = followBy('sse');
    const controller = new AbortController();
    cleanups.push(() => controller.abort());
    const response = await fetch(server.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ query: SHARED, variables: { p: 1 } }),
      signal: controller.signal,
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const other = follow(SHARED, { p: 1 });
    await joined(2);
    const text = 'x'.repeat(300_000);
    let sent = 0;
    for (; sent < 200 && server.mount.subscribers() === 2; sent++) {
      server.feed.emit(1, text);
      await until(() => other.texts().length === sent + 1, 'the other goes on');
    }
    expect(sent).toBeLessThan(200);
    server.feed.emit(1, 'after');
    await until(() => other.texts().at(-1) === 'after', 'the other goes on');
  });

  it('are refused with cookies from a page of another origin', async () => {
    const open = (headers: Record<string, string>) => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const socket = new WebSocket(server.url.replace('http', 'ws'), 'graphql-transport-ws', { headers });
      socket.once('open', () => resolve('open')).once('error', (error) => resolve(error.message));
      cleanups.push(() => socket.terminate());
      return promise;
    };
    expect(await open({ origin: 'https://evil.example', cookie: 'session=1' })).toContain('403');
    expect(await open({ origin: `http://127.0.0.1:${server.port}`, cookie: 'session=1' })).toBe('open');
    expect(await open({ origin: 'https://other.example' })).toBe('open');
  });

  it('end when the server stops', async () => {
    const followers = [followBy('sse')(SHARED, { p: 1 }), followBy('ws')(SHARED, { p: 1 })];
    await joined(2);
    await server.app.close();
    for (const follower of followers) await until(() => follower.ended !== null, 'the end');
  });
});
