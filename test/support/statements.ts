import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import type { TestApp } from './app.ts';

// The hub in this process shares its pool with followers, jobs and heartbeats, which run at any time. Each statement
// outside a transaction takes a connection, and only those count that a request takes.

/** The count of the call that waits for the request. */
interface Count {
  statements: number;
}

const counts = new AsyncLocalStorage<Count | undefined>();
let current: Count | undefined;
subscribe('http.server.request.start', () => counts.enterWith(current));

/** Returns the number of statements that the hub runs for the requests in `run`, and the result. */
export const statementsOf = async <T>(app: TestApp, run: () => Promise<T>): Promise<{ count: number; result: T }> => {
  const { pool } = app.hub.services;
  const { connect } = pool;
  const counting = function (this: unknown, ...args: unknown[]): unknown {
    const count = counts.getStore();
    if (count) count.statements++;
    return Reflect.apply(connect, this, args);
  };
  const mine: Count = { statements: 0 };
  current = mine;
  Object.defineProperty(pool, 'connect', { value: counting, configurable: true });
  try {
    return { result: await run(), count: mine.statements };
  } finally {
    Reflect.deleteProperty(pool, 'connect');
    current = undefined;
  }
};

/** Returns the least number of three runs, since a request may also renew what has expired. */
export const countStatements = async (app: TestApp, run: () => Promise<unknown>): Promise<number> => {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 3; i++) {
    await app.settle();
    least = Math.min(least, (await statementsOf(app, run)).count);
  }
  return least;
};
