import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { type Hub, startHub } from '#app/build.ts';
import type { Clock } from '#platform/clock.ts';
import { readConfig } from '#platform/config/config.ts';
import { type Actor, anonymous, type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { createLogger } from '#platform/log.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { ADMIN_TOKEN, PASSWORD } from './administrator.ts';
import { Client } from './client.ts';
import { createHubDatabase } from './database.ts';
import { Factories } from './factories.ts';
import { ignoreParameters } from './reached-parameters.ts';

export { ADMIN_TOKEN, PASSWORD };

/** The user a test acts as: a created user, or anyone with an id. */
export interface TestUser {
  readonly id: number;
  readonly username: string;
}

export interface TestApp {
  readonly hub: Hub;
  readonly url: string;
  /** The administrator `root`. */
  readonly root: TestUser;
  /** Creates test data, including missing parents. */
  readonly make: Factories;
  /** A client without a credential. */
  readonly anonymous: Client;
  /** A client that acts as the user, with a token of the given scopes (`api` by default). */
  as(user: TestUser, scopes?: readonly string[]): Client;
  /** A token of the user, for tests that need its text. */
  tokenOf(user: TestUser, scopes?: readonly string[]): Promise<string>;
  /** A domain context for setup without HTTP. It acts as the hub itself if no user is given. */
  context(user?: TestUser): Context;
  /** Waits until all events are handled and all due jobs have run. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

export interface TestAppOptions {
  readonly clock?: Clock;
  /** The most connections of each pool, 5 by default. */
  readonly connections?: number;
  /** Further environment variables of the hub. */
  readonly env?: Readonly<Record<string, string>>;
  /** Excludes the requests from the coverage of parameters, since a sweep sets them all (docs/decisions/0029). */
  readonly sweep?: boolean;
}

/** Starts a whole hub on its own database and a free port. Prefer `useApp`, which also closes it. */
export const startTestApp = async ({
  clock,
  connections = 5,
  env = {},
  sweep = false,
}: TestAppOptions = {}): Promise<TestApp> => {
  const database = await createHubDatabase();
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const config = readConfig([], {
    DATABASE_URL: database.url,
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: '0',
    MILLRACE_LOG_LEVEL: process.env.MILLRACE_LOG_LEVEL ?? 'silent',
    MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
    MILLRACE_ADMIN_PASSWORD: PASSWORD,
    ...env,
  });
  const hub = await startHub({
    config,
    log: createLogger(config.logLevel),
    checkResponses: true,
    crons: false,
    durable: false,
    connections,
    ...(clock ? { clock } : {}),
  });
  if (sweep) ignoreParameters(hub.services);
  const createContext = createContextFactory(hub.services);
  const { db } = hub.services;
  const root = await db
    .selectFrom('users')
    .select(['id', 'username'])
    .where('username', '=', 'root')
    .executeTakeFirstOrThrow();
  const tokens = new Map<string, Promise<string>>([[`${root.id}:api`, Promise.resolve(ADMIN_TOKEN)]]);

  const tokenOf = (user: TestUser, scopes: readonly string[] = ['api']): Promise<string> => {
    const key = `${user.id}:${scopes.join(',')}`;
    let token = tokens.get(key);
    if (!token) {
      token = insertToken(user, scopes);
      tokens.set(key, token);
    }
    return token;
  };
  const insertToken = async (user: TestUser, scopes: readonly string[]): Promise<string> => {
    const value = `glpat-${randomToken()}`;
    await db
      .insertInto('personal_access_tokens')
      .values({ user_id: user.id, name: 'test', scopes: [...scopes], digest: digestToken(value) })
      .execute();
    return value;
  };
  const context = (user?: TestUser): Context =>
    createContext({ actor: user ? actorOf(user, user.id === root.id) : systemActor });
  const as = (user: TestUser, scopes?: readonly string[]): Client => new Client(hub.url, () => tokenOf(user, scopes));
  return {
    hub,
    url: hub.url,
    root,
    make: new Factories({ context, db, root, as }),
    anonymous: new Client(hub.url, () => Promise.resolve(null)),
    as,
    tokenOf,
    context,
    settle: () => hub.settle(),
    close: async () => {
      await hub.close();
      await database.drop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
};

/** Provides a hub for all tests of the file: `const app = useApp()`, then `app().as(user)` inside the tests. */
export const useApp = (options?: TestAppOptions): (() => TestApp) => {
  let app: TestApp | undefined;
  beforeAll(async () => {
    app = await startTestApp(options);
  });
  afterAll(async () => {
    await app?.close();
    // The worker keeps the modules of all its files. Each would otherwise keep its hub in memory.
    app = undefined;
  });
  return () => {
    if (!app) throw new Error('the app is started before the first test, not while the file loads');
    return app;
  };
};

const actorOf = (user: TestUser, isAdmin: boolean): Actor => ({
  ...anonymous,
  userId: user.id,
  username: user.username,
  isAdmin,
});
