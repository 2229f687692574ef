import { sql } from 'kysely';
import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { JobRun } from '#platform/jobs.ts';
import { takeFile } from '../archive-files.ts';
import { cloneRepository } from '../copying/clone.ts';
import { copyFork } from '../copying/fork.ts';
import { DownloadError } from '../downloading/fetch.ts';
import { archiveKeys } from '../downloading/keys.ts';
import { downloadArchive } from '../downloading/run.ts';
import { FORK_TYPE, GIT_TYPE, IMPORT_TYPE, type ImportRow, Superseded, TransferError } from '../model.ts';
import { FURTHER_FILES, RELATIONS, SETTING_FILES } from '../relations/all.ts';
import { whileCurrent } from '../while-current.ts';
import { Checkpoint } from './checkpoint.ts';
import { failImport, finishImport } from './finish.ts';
import { type Importer, importerOf } from './importer.ts';
import { overridesOf } from './overrides.ts';
import { ImportPeople } from './people.ts';
import { createQuietly, placeOf } from './place.ts';
import { reasonOf } from './reason.ts';
import { importRelations, readPeople } from './relations.ts';
import { importRepository } from './repository.ts';
import { unpack } from './unpack.ts';

const KNOWN: ReadonlySet<string> = new Set<string>([
  ...RELATIONS.map(({ name }) => name),
  ...SETTING_FILES,
  ...FURTHER_FILES,
]);

/**
 * Runs an import, or continues one whose worker died. Only the attempt recorded in the row can write.
 *
 * Returns `downloaded` after it has downloaded a remote archive. The next run imports that.
 */
export const runImport = async (ctx: Context, importId: number, run: JobRun): Promise<'downloaded' | 'ended'> => {
  const row = await claim(ctx, importId);
  const project = row && (await findProject(ctx, { id: row.project_id }));
  if (!row || !project) return 'ended';
  try {
    if (row.import_type === IMPORT_TYPE && row.source_url !== null) {
      await importerOf(ctx, row);
      await whileCurrent(ctx, 'project_imports', row, (current) => downloadArchive(current, row, project));
      return 'downloaded';
    }
    await whileCurrent(ctx, 'project_imports', row, (current) => carryOut(current, row, project));
  } catch (error) {
    // The project was deleted meanwhile, perhaps before the repository was in place.
    if (!(await findProject(ctx, { id: project.id }))) await ctx.services.git.remove(project.disk_path);
    if (error instanceof Superseded) {
      ctx.log.warn({ import_id: importId }, 'another attempt took over the import');
      return 'ended';
    }
    if (ctx.signal.aborted) throw error;
    const reason = reasonOf(error);
    if (reason === null && !run.lastAttempt) throw error;
    if (reason === null) ctx.log.error({ err: error, import_id: importId }, 'an import failed');
    else ctx.log.info({ reason, import_id: importId }, 'an import failed');
    await failImport(ctx, importId, reason ?? 'The import could not be completed.', {
      attempt: row.attempt,
      // Another attempt would end the same way if the archive is at fault.
      keepsArchive: reason === null || error instanceof DownloadError,
    });
  }
  return 'ended';
};

const claim = async (ctx: Context, id: number): Promise<ImportRow | null> =>
  (await ctx.db
    .updateTable('project_imports')
    .set({ status: 'started', attempt: sql`attempt + 1`, started_at: sql`coalesce(started_at, now())` })
    .where('id', '=', id)
    .where('status', 'in', RUNNING_IMPORT)
    .returningAll()
    .executeTakeFirst()) ?? null;

/** Runs the steps of the import's type. */
const carryOut = async (ctx: Context, row: ImportRow, project: ProjectRow): Promise<void> => {
  const importer = await importerOf(ctx, row);
  if (row.import_type === FORK_TYPE) await copyFork(ctx, importer, row, project);
  else if (row.import_type === GIT_TYPE) await cloneRepository(ctx, row, project);
  else await importArchive(ctx, importer, row, project);
};

const importArchive = async (ctx: Context, importer: Importer, row: ImportRow, project: ProjectRow): Promise<void> => {
  const { isAdmin, userId } = importer;
  const keys = archiveKeys(row);
  if (keys.length === 0) throw new TransferError('The archive is gone.');
  const archive = await unpack(ctx, keys, await getSettings(ctx), KNOWN, {
    bundle: true,
    onFile: (entry) => takeFile(ctx, project, userId, entry),
  });
  try {
    const checkpoint = new Checkpoint(ctx, row, project, archive);
    await checkpoint.begin();
    const known: ReadonlyMap<number, number> = isAdmin ? await readPeople(ctx, archive) : new Map();
    const people = new ImportPeople({ id: userId, name: importer.name }, isAdmin, known);
    await importRepository(ctx, project, archive, checkpoint, overridesOf(row).default_branch ?? null);
    await importRelations(ctx, archive, await placeOf(ctx, project, createQuietly(ctx, project)), people, checkpoint);
    await finishImport(ctx, importer, row, project, archive);
  } finally {
    await archive.close();
  }
};
