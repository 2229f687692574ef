import { afterAll } from 'vitest';
import type { TestApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { type Process, startProcess } from '../system/process.ts';

export interface Worker {
  /** The id that locks its jobs. */
  readonly id: string;
  readonly process: Process;
}

/** Starts worker processes, one at a time, that tests can kill. The app must be a hub that only serves requests. */
export const useWorkers = (app: () => TestApp) => {
  const processes: Process[] = [];
  const started = new Set<string>();
  afterAll(() => {
    for (const { child } of processes) child.kill('SIGKILL');
  });
  /** The process has registered before it serves. */
  const newId = async (): Promise<string | undefined> => {
    const rows = await app()
      .hub.services.db.selectFrom('hub_processes')
      .select('id')
      .where('role', '=', 'worker')
      .execute();
    return rows.map(({ id }) => id).find((id) => !started.has(id));
  };
  return {
    start: async (): Promise<Worker> => {
      const { config } = app().hub.services;
      const worker = startProcess({
        TMPDIR: process.env.TMPDIR ?? '',
        DATABASE_URL: config.databaseUrl ?? '',
        MILLRACE_DATA_DIR: config.dataDir,
        MILLRACE_ROLE: 'worker',
        MILLRACE_PORT: '0',
        MILLRACE_LOG_LEVEL: 'silent',
      });
      processes.push(worker);
      await worker.url();
      const id = await until('the worker to be registered', newId);
      started.add(id);
      return { id, process: worker };
    },
    /** Kills the worker, and lets the others know at once instead of after twelve seconds. */
    kill: async ({ id, process: { child, ended } }: Worker): Promise<void> => {
      child.kill('SIGKILL');
      await ended;
      await app().hub.services.pool.query(
        `update hub_processes set seen_at = now() - interval '1 hour' where id = $1`,
        [id],
      );
    },
  };
};
