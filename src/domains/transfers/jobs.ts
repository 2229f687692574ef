import { sql } from 'kysely';
import { z } from 'zod';
import { getSettings } from '#domains/settings/queries.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { defineJob } from '#platform/jobs.ts';
import { archiveKeys } from './downloading/keys.ts';
import { failExport, runExport } from './exporting/run.ts';
import { failImport } from './importing/finish.ts';
import { removeFailedProjects } from './importing/leftovers.ts';
import { runImport } from './importing/run.ts';
import { runRelationImport } from './relation-imports/run.ts';
import { failRelationImport } from './relation-imports/store.ts';

const MAX_ATTEMPTS = 6;

export const exportProject = defineJob({
  name: 'transfers.export',
  input: z.object({ export_id: z.number() }),
  maxAttempts: MAX_ATTEMPTS,
  long: true,
  run: (ctx, { export_id }, run) => runExport(ctx, export_id, run),
});

export const importProject = defineJob({
  name: 'transfers.import',
  input: z.object({ import_id: z.number() }),
  maxAttempts: MAX_ATTEMPTS,
  long: true,
  run: async (ctx, { import_id }, run) => {
    await runImport(ctx, import_id, run);
  },
});

/**
 * Does the same for clones by URL, and downloads remote archives. These jobs run apart, so that slow or hanging servers
 * do not delay other work.
 */
export const importByUrl = defineJob({
  name: 'transfers.import_by_url',
  input: z.object({ import_id: z.number() }),
  maxAttempts: MAX_ATTEMPTS,
  remote: true,
  run: async (ctx, { import_id }, run) => {
    if ((await runImport(ctx, import_id, run)) === 'downloaded')
      await ctx.transaction(async (tx) => tx.enqueue(importProject, { import_id }, { key: importKey(import_id) }));
  },
});

/** Imports a single relation. */
export const importSingleRelation = defineJob({
  name: 'transfers.import_relation',
  input: z.object({ relation_import_id: z.number() }),
  maxAttempts: MAX_ATTEMPTS,
  long: true,
  run: (ctx, { relation_import_id }, run) => runRelationImport(ctx, relation_import_id, run),
});

/** The keys that identify the jobs. */
export const exportKey = (id: number): string => `transfers.export:${id}`;
export const importKey = (id: number): string => `transfers.import:${id}`;
export const relationImportKey = (id: number): string => `transfers.import_relation:${id}`;

const GIVEN_UP = 'The job failed after several attempts.';
const MIN_AGE_SECONDS = 30;

/** Fails exports and imports whose job is gone or has used up its attempts because its workers died. */
export const endAbandoned = defineJob({
  name: 'transfers.end_abandoned',
  input: z.object({}),
  maxAttempts: 1,
  cron: '* * * * *',
  run: async (ctx) => {
    const abandoned = async (table: string, key: string): Promise<number[]> => {
      const { rows } = await sql<{ id: number }>`
        select t.id from ${sql.table(table)} t
        where t.status in ('queued', 'scheduled', 'created', 'started')
          and t.created_at < now() - make_interval(secs => ${MIN_AGE_SECONDS})
          and not exists (select from graphile_worker.jobs j where j.key = ${key} || t.id
            and (j.locked_at is not null or j.attempts < j.max_attempts))`.execute(ctx.db);
      return rows.map(({ id }) => id);
    };
    for (const id of await abandoned('project_exports', 'transfers.export:')) await failExport(ctx, id, GIVEN_UP);
    for (const id of await abandoned('project_imports', 'transfers.import:'))
      await failImport(ctx, id, GIVEN_UP, { keepsArchive: true });
    for (const id of await abandoned('relation_imports', 'transfers.import_relation:'))
      await failRelationImport(ctx, id, GIVEN_UP, { keepsArchive: true });
  },
});

const EXPIRED_AT_ONCE = 500;

/** Removes exported files that have expired, and the archives of failed imports after the same time. */
export const removeExpired = defineJob({
  name: 'transfers.remove_expired',
  input: z.object({}),
  maxAttempts: 3,
  cron: '*/10 * * * *',
  run: async (ctx) => {
    const { export_file_lifetime_hours: hours } = await getSettings(ctx);
    await ctx.transaction(async (tx) => {
      const { rows: exported } = await sql<{ storage_key: string }>`
        update project_exports set storage_key = null from (
          select id, storage_key from project_exports where expires_at < now() and storage_key is not null
          order by id limit ${EXPIRED_AT_ONCE} for update skip locked) old
        where project_exports.id = old.id returning old.storage_key`.execute(tx.db);
      const { rows: imported } = await sql<{ storage_key: string | null; download_parts: string[] }>`
        update project_imports
        set storage_key = null, source_url = null, download_parts = '{}', download_part_bytes = 0, checkpoint = '{}'
        from (
          select id, storage_key, download_parts from project_imports
          where status = 'failed' and (storage_key is not null or source_url is not null or download_parts <> '{}')
            and finished_at < now() - make_interval(hours => ${hours}::int)
          order by finished_at limit ${EXPIRED_AT_ONCE} for update skip locked) old
        where project_imports.id = old.id returning old.storage_key, old.download_parts`.execute(tx.db);
      const { rows: relations } = await sql<{ storage_key: string }>`
        update relation_imports set storage_key = null from (
          select id, storage_key from relation_imports
          where status = 'failed' and storage_key is not null
            and finished_at < now() - make_interval(hours => ${hours}::int)
          order by finished_at limit ${EXPIRED_AT_ONCE} for update skip locked) old
        where relation_imports.id = old.id returning old.storage_key`.execute(tx.db);
      const storage_keys = [
        ...[...exported, ...relations].map(({ storage_key }) => storage_key),
        ...imported.flatMap(archiveKeys),
      ];
      if (storage_keys.length > 0) tx.enqueue(removeFiles, { disk_paths: [], storage_keys });
    });
  },
});

/** Removes projects of failed imports that were to replace another project. */
export const removeFailedReplacements = defineJob({
  name: 'transfers.remove_failed_replacements',
  input: z.object({}),
  maxAttempts: 3,
  cron: '53 * * * *',
  run: removeFailedProjects,
});
