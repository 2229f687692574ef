import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startHub } from '#app/build.ts';
import { requireSecretKey } from '#domains/settings/secret-key.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { StartError } from '#platform/process/start-error.ts';
import { startTestApp, type TestApp } from '../support/app.ts';

// A hub of its own, because these tests change the key of its database.
let app: TestApp;
beforeAll(async () => {
  app = await startTestApp();
});
afterAll(() => app.close());

const newKey = () => randomBytes(32);
const db = () => app.hub.services.db;

/** Checks a key as the start of a process does. */
const check = (secretKey: Buffer, { replaceSecretKey = false } = {}) => {
  const { services } = app.hub;
  return requireSecretKey({ ...services, secretKey, config: { ...services.config, replaceSecretKey } });
};
const stored = () => db().selectFrom('application_settings').select('secret_key_check').executeTakeFirstOrThrow();
/** Removes the check, as in a database from an earlier version. */
const forget = () => db().updateTable('application_settings').set({ secret_key_check: null }).execute();
const keyOfHub = () => app.hub.services.secretKey;

describe('the secret key of a process', () => {
  it('must be the one of its database for the process to start', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'millrace-test-'));
    const start = (env: Readonly<Record<string, string>>) =>
      startHub({
        config: readConfig([], {
          DATABASE_URL: app.hub.services.config.databaseUrl ?? '',
          MILLRACE_DATA_DIR: dataDir,
          MILLRACE_PORT: '0',
          MILLRACE_ROLE: 'web',
          ...env,
        }),
        log: createLogger('silent'),
        connections: 2,
      });
    const before = await stored();
    // Its own data directory has another key.
    const refused = start({});
    await expect(refused).rejects.toThrow(StartError);
    await expect(refused).rejects.toThrow(
      /another secret key.* MILLRACE_SECRET_KEY .*instance-key.*--replace-secret-key/,
    );
    const second = await start({ MILLRACE_SECRET_KEY: keyOfHub().toString('base64') });
    await second.close();
    expect(await stored()).toEqual(before);
    await rm(dataDir, { recursive: true });
  });

  it('is any key if nothing was encrypted yet, and of processes that start together only one', async () => {
    await forget();
    const keys = Array.from({ length: 5 }, newKey);
    const starts = await Promise.allSettled(keys.map((key) => check(key)));
    const accepted = keys.filter((_, index) => starts[index]?.status === 'fulfilled');
    expect(accepted).toHaveLength(1);
    for (const key of keys) {
      if (key === accepted[0]) await check(key);
      else await expect(check(key)).rejects.toThrow(StartError);
    }
    await forget();
    await check(keyOfHub());
  });

  it('must open what is encrypted in a database of an earlier version', async () => {
    const first = await app.make.project();
    await forget();
    await expect(check(newKey())).rejects.toThrow(StartError);
    expect(await stored()).toEqual({ secret_key_check: null });
    await check(keyOfHub());
    await expect(check(newKey())).rejects.toThrow(StartError);

    // A process with another key created the last project, as earlier versions let it.
    await forget();
    const last = await app.make.project();
    await db()
      .updateTable('projects')
      .set({ runners_token: randomBytes(60) })
      .where('id', '=', last.id)
      .execute();
    expect(last.id).toBeGreaterThan(first.id);
    await check(keyOfHub());
  });

  it('can be replaced if it is lost', async () => {
    const fresh = newKey();
    await check(fresh, { replaceSecretKey: true });
    await check(fresh);
    await expect(check(keyOfHub())).rejects.toThrow(StartError);
    // Also in a database of an earlier version.
    await app.make.project();
    await forget();
    await check(fresh, { replaceSecretKey: true });
    await check(fresh);
    await check(keyOfHub(), { replaceSecretKey: true });
  });
});
