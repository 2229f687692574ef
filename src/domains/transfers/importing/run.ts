import { sql } from 'kysely';
import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { findUser } from '#domains/users/queries.ts';
import { ArchiveError } from '#platform/archive/archive-error.ts';
import { type Actor, anonymous, type Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { JobRun } from '#platform/jobs.ts';
import { cloneRepository } from '../copying/clone.ts';
import { copyFork } from '../copying/fork.ts';
import { FORK_TYPE, GIT_TYPE, type ImportRow, Superseded, TransferError } from '../model.ts';
import { RELATIONS, SETTING_FILES } from '../relations/all.ts';
import { Checkpoint } from './checkpoint.ts';
import { failImport, finishImport } from './finish.ts';
import { overridesOf } from './overrides.ts';
import { ImportPeople } from './people.ts';
import { importRelations, readPeople } from './relations.ts';
import { importRepository } from './repository.ts';
import { unpack } from './unpack.ts';

const KNOWN: ReadonlySet<string> = new Set<string>([...RELATIONS.map(({ name }) => name), ...SETTING_FILES]);

/** Runs an import, or continues one whose worker died. Only the attempt recorded in the row can write. */
export const runImport = async (ctx: Context, importId: number, run: JobRun): Promise<void> => {
  const row = await claim(ctx, importId);
  if (!row) return;
  const project = await findProject(ctx, { id: row.project_id });
  if (!project) return;
  try {
    await carryOut(ctx, row, project);
  } catch (error) {
    // The project was deleted meanwhile, perhaps before the repository was in place.
    if (!(await findProject(ctx, { id: project.id }))) await ctx.services.git.remove(project.disk_path);
    if (error instanceof Superseded) {
      ctx.log.warn({ import_id: importId }, 'another attempt took over the import');
      return;
    }
    if (ctx.signal.aborted) throw error;
    const reason = reasonOf(error);
    if (reason === null && !run.lastAttempt) throw error;
    if (reason === null) ctx.log.error({ err: error, import_id: importId }, 'an import failed');
    else ctx.log.info({ reason, import_id: importId }, 'an import failed');
    await failImport(ctx, importId, reason ?? 'The import could not be completed.', row.attempt);
  }
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
  const user = row.user_id === null ? null : await findUser(ctx, row.user_id);
  if (user?.state !== 'active')
    throw new TransferError('The account of the user who started the import is no longer active.');
  // The job may have waited. A user who has lost administrator rights must not use them here.
  const isAdmin = row.by_administrator && user.is_admin;
  const isExternal = user.external;
  const importer: Actor = { ...anonymous, userId: user.id, username: user.username, isAdmin, isExternal };
  if (row.import_type === FORK_TYPE) await copyFork(ctx, importer, row, project);
  else if (row.import_type === GIT_TYPE) await cloneRepository(ctx, row, project);
  else await importArchive(ctx, { ...importer, name: user.name, userId: user.id }, row, project);
};

const importArchive = async (
  ctx: Context,
  importer: Actor & { readonly name: string; readonly userId: number },
  row: ImportRow,
  project: ProjectRow,
): Promise<void> => {
  const { isAdmin, userId } = importer;
  if (row.storage_key === null) throw new TransferError('The archive is gone.');
  const archive = await unpack(ctx, row.storage_key, await getSettings(ctx), KNOWN);
  try {
    if (archive.unknown.length > 0) ctx.log.info({ relations: archive.unknown }, 'the archive holds unknown relations');
    const checkpoint = new Checkpoint(ctx, row, project, archive);
    await checkpoint.begin();
    const known: ReadonlyMap<number, number> = isAdmin ? await readPeople(ctx, archive) : new Map();
    const people = new ImportPeople({ id: userId, name: importer.name }, isAdmin, known);
    await importRepository(ctx, project, archive, checkpoint, overridesOf(row).default_branch ?? null);
    const place = {
      project_id: project.id,
      creator_id: project.creator_id,
      namespace_ids: project.namespace.traversal_ids,
    };
    await importRelations(ctx, archive, place, people, checkpoint);
    await finishImport(ctx, importer, row, project, archive);
  } finally {
    await archive.close();
  }
};

/** Returns the message if a retry would not help, or null if it might. */
const reasonOf = (error: unknown): string | null => {
  if (error instanceof ArchiveError || error instanceof TransferError) return error.message;
  if (error instanceof DomainError && error.code === 'not_found') return 'The archive is gone.';
  return null;
};
