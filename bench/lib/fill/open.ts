import { resolve } from 'node:path';
import type pg from 'pg';
import { startEmbeddedPostgres } from '../../../src/platform/db/embedded.ts';
import { migrate } from '../../../src/platform/db/migrate.ts';
import { createPool } from '../../../src/platform/db/pool.ts';
import { createLogger } from '../../../src/platform/log.ts';
import { fillBranches, repositoryIn } from './branches.ts';
import { filledWith, fillLanguages, fillProjects, type Report } from './data.ts';
import { fillScale } from './scale.ts';
import { WATCHED } from './watched.ts';

export interface Filled {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly projects: number;
  /** Keeps the database. Stops an embedded server that nobody else uses. */
  close(): Promise<void>;
}

export interface FillPlace {
  /** Null means the embedded Postgres in `dataDir`. */
  readonly databaseUrl: string | null;
  /** The data directory of the hub that will serve the database. Null creates no repository. */
  readonly dataDir: string | null;
  /** Whether to add issues, merge requests, notes, events, deliveries, jobs and artifacts (scale.ts). */
  readonly scale?: boolean;
}

/**
 * Opens a database filled with this many projects. Migrates it, fills it when it is empty, and adds the data of later
 * migrations.
 * @throws Error when it was filled with another number of projects, or holds other data
 */
export const openFilled = async (place: FillPlace, projects: number, report: Report): Promise<Filled> => {
  const { url, stop } = await server(place);
  const pool = createPool({ connectionString: url, max: 4, applicationName: 'millrace bench' });
  const close = async () => {
    await pool.end();
    await stop();
  };
  try {
    await migrate(url);
    // There are no repositories from which to detect languages.
    await pool.query("select graphile_worker.remove_job('repositories.detect_missing_languages')");
    const there = await filledWith(pool);
    if (there === null) {
      const { rows } = await pool.query<{ used: boolean }>(
        'select exists (select 1 from namespaces where kind = $1) as used',
        ['group'],
      );
      if (rows[0]?.used) throw new Error('The database contains groups. Only an empty database can be filled.');
      await fillProjects(pool, projects, report);
    } else if (there !== projects) {
      throw new Error(`The database was filled with ${there} projects, not ${projects}.`);
    }
    await fillLanguages(pool, report);
    if (place.scale) await fillScale(pool, projects, report);
    if (place.dataDir !== null) {
      const { rows } = await pool.query<{ disk_path: string }>('select disk_path from projects where full_path = $1', [
        WATCHED.branches,
      ]);
      await fillBranches(repositoryIn(place.dataDir, rows[0]?.disk_path ?? ''));
    }
    return { url, pool, projects, close };
  } catch (error) {
    await close();
    throw error;
  }
};

const server = async ({ databaseUrl, dataDir }: FillPlace): Promise<{ url: string; stop(): Promise<void> }> => {
  if (databaseUrl !== null) return { url: databaseUrl, stop: async () => {} };
  if (dataDir === null) throw new Error('Pass --data DIR or set DATABASE_URL.');
  const embedded = await startEmbeddedPostgres({ dataDir: resolve(dataDir), log: createLogger('warn') });
  return { url: embedded.connectionString, stop: embedded.stop };
};
