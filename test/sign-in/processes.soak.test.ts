import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { signedIn } from '../pages/visitor.ts';
import { useApp } from '../support/app.ts';
import { startProcess } from '../system/process.ts';

const app = useApp();

it('a session ends at once in every process of the hub', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-second-'));
  const { config, secretKey } = app().hub.services;
  const process = startProcess({
    DATABASE_URL: config.databaseUrl ?? '',
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: '0',
    MILLRACE_ROLE: 'web',
    MILLRACE_SECRET_KEY: secretKey.toString('base64'),
  });
  try {
    const url = await process.url();
    const { visitor } = await signedIn(app());
    const cookie = visitor.cookieHeader;
    const there = (path: string) => fetch(url + path, { headers: { cookie }, redirect: 'manual' });
    expect((await there('/')).status).toBe(200);
    expect((await there('/api/v4/user')).status).toBe(200);
    await visitor.get('/');
    await visitor.submit('/users/sign_out');
    expect((await there('/')).status).toBe(303);
    expect((await there('/api/v4/user')).status).toBe(401);
  } finally {
    process.child.kill('SIGKILL');
    await process.ended;
    await rm(dataDir, { recursive: true, force: true });
  }
});
