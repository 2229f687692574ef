import { z } from 'zod';
import { IMPORT_STATUSES } from '#domains/projects/model.ts';
import { defineEvent } from '#platform/events.ts';
import { EXPORT_STATUSES } from './model.ts';
import { IMPORTABLE_RELATIONS, RELATION_IMPORT_STATUSES } from './relation-imports/model.ts';

const counts = z.record(z.string(), z.object({ done: z.number(), total: z.number() }));

/** The complete progress is in each event, so that late readers see the state of that time. */
const progress = {
  percentage: z.number(),
  relations: counts,
  bytes: z.number(),
  total_bytes: z.number().nullable(),
  user_id: z.number().nullable(),
};

export const exportProgress = z.object({
  id: z.number(),
  status: z.enum(EXPORT_STATUSES),
  ...progress,
  size: z.number().nullable(),
  error: z.string().nullable(),
});
export type ExportProgress = z.output<typeof exportProgress>;

export const exportQueued = defineEvent('export.queued', exportProgress);
export const exportProgressed = defineEvent('export.progressed', exportProgress);
export const exportFinished = defineEvent('export.finished', exportProgress);
export const exportFailed = defineEvent('export.failed', exportProgress);

export const importProgress = z.object({
  id: z.number(),
  status: z.enum(IMPORT_STATUSES).exclude(['none']),
  ...progress,
  failed_relations: z.number(),
  // Events from before remote imports lack these.
  download_bytes: z.number().default(0),
  download_size: z.number().nullable().default(null),
  error: z.string().nullable(),
});
export type ImportProgress = z.output<typeof importProgress>;

export const importScheduled = defineEvent('import.scheduled', importProgress);
export const importProgressed = defineEvent('import.progressed', importProgress);
export const importFinished = defineEvent('import.finished', importProgress);
export const importFailed = defineEvent('import.failed', importProgress);

export const relationImportState = z.object({
  id: z.number(),
  relation: z.enum(IMPORTABLE_RELATIONS),
  status: z.enum(RELATION_IMPORT_STATUSES),
  done: z.number(),
  total: z.number().nullable(),
  skipped: z.number(),
  error: z.string().nullable(),
  user_id: z.number().nullable(),
});
export type RelationImportState = z.output<typeof relationImportState>;

export const relationImportCreated = defineEvent('relation_import.created', relationImportState);
export const relationImportProgressed = defineEvent('relation_import.progressed', relationImportState);
export const relationImportFinished = defineEvent('relation_import.finished', relationImportState);
export const relationImportFailed = defineEvent('relation_import.failed', relationImportState);

/** A branch of a fork could not be updated. `error` is a sentence for people. */
export const forkSyncFailed = defineEvent(
  'fork.sync_failed',
  z.object({ branch: z.string(), error: z.string(), user_id: z.number().nullable() }),
);

const kinds = (...definitions: readonly { readonly kind: string }[]): ReadonlySet<string> =>
  new Set(definitions.map(({ kind }) => kind));
export const EXPORT_KINDS = kinds(exportQueued, exportProgressed, exportFinished, exportFailed);
export const IMPORT_KINDS = kinds(importScheduled, importProgressed, importFinished, importFailed);
export const RELATION_IMPORT_KINDS = kinds(
  relationImportCreated,
  relationImportProgressed,
  relationImportFinished,
  relationImportFailed,
);
