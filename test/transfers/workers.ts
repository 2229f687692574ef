import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import type { TestApp } from '../support/app.ts';

const SCRIPT = fileURLToPath(new URL('./hub-process.ts', import.meta.url));

export interface Worker {
  readonly id: string;
  readonly child: ChildProcess;
}

/** Starts worker processes that tests can kill. The app must be a hub that only serves requests. */
export const useWorkers = (app: () => TestApp) => {
  const children: ChildProcess[] = [];
  afterAll(() => {
    for (const child of children) child.kill('SIGKILL');
  });
  return {
    start: async (): Promise<Worker> => {
      const { config } = app().hub.services;
      const child = spawn(process.execPath, [SCRIPT], {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: {
          ...process.env,
          DATABASE_URL: config.databaseUrl ?? '',
          MILLRACE_DATA_DIR: config.dataDir,
          MILLRACE_ROLE: 'worker',
          MILLRACE_PORT: '0',
          MILLRACE_LOG_LEVEL: 'silent',
        },
      });
      children.push(child);
      for await (const id of createInterface({ input: child.stdout })) return { id, child };
      throw new Error('the worker did not start');
    },
    /** Kills the worker, and lets the others know at once instead of after twelve seconds. */
    kill: async ({ id, child }: Worker): Promise<void> => {
      child.kill('SIGKILL');
      await once(child, 'exit');
      await app().hub.services.pool.query(
        `update hub_processes set seen_at = now() - interval '1 hour' where id = $1`,
        [id],
      );
    },
  };
};
