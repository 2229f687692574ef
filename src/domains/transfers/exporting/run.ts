import { join } from 'node:path';
import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { usersWithGroupLevel } from '#domains/access/queries.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Settings } from '#domains/settings/registry.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { findUser } from '#domains/users/queries.ts';
import { createArchiveWriter } from '#platform/archive/write-archive.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import type { JobRun } from '#platform/jobs.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { MIB } from '#platform/values/units.ts';
import { emitExport } from '../emit-progress.ts';
import { exportFailed, exportFinished, exportProgressed } from '../events.ts';
import {
  ARCHIVE_TYPE,
  downloadName,
  type ExportRow,
  type RelationCounts,
  RUNNING_EXPORT,
  Superseded,
  TransferError,
} from '../model.ts';
import { Pace, percentageOf } from '../progress.ts';
import type { ExportReader } from '../relations/relation.ts';
import { whileCurrent } from '../while-current.ts';
import { mailExportEnd } from './mails.ts';
import { upload } from './upload.ts';
import { atOneMoment, countRelations, writeProject } from './write.ts';

/**
 * Runs an export. An attempt whose archive was complete left it for this one, which then only uploads it. Otherwise it
 * starts over, because an archive shows one moment, and removes leftover files. Only the attempt recorded in the row may
 * write to it.
 */
export const runExport = async (ctx: Context, exportId: number, run: JobRun): Promise<void> => {
  const row = await claim(ctx, exportId);
  if (!row) return;
  try {
    const project = await findProject(ctx, { id: row.project_id });
    if (!project) return;
    await removeLeftovers(ctx, row);
    await whileCurrent(ctx, 'project_exports', row, (current) => produce(current, row, project));
  } catch (error) {
    if (error instanceof Superseded) {
      ctx.log.warn({ export_id: exportId }, 'another attempt took over the export');
      return;
    }
    if (ctx.signal.aborted) throw error;
    const reason = reasonOf(error);
    if (reason === null && !run.lastAttempt) throw error;
    if (reason === null) ctx.log.error({ err: error, export_id: exportId }, 'an export failed');
    else ctx.log.info({ reason, export_id: exportId }, 'an export failed');
    await failExport(ctx, exportId, reason ?? 'The export could not be completed.', row.attempt);
  }
};

const claim = async (ctx: Context, id: number): Promise<ExportRow | null> =>
  (await ctx.db
    .updateTable('project_exports')
    .set({
      status: 'started',
      attempt: sql`attempt + 1`,
      started_at: sql`coalesce(started_at, now())`,
      relations: sql`case when storage_key is null then '{}' else relations end`,
      bytes: sql`case when storage_key is null then 0 else bytes end`,
    })
    .where('id', '=', id)
    .where('status', 'in', RUNNING_EXPORT)
    .returningAll()
    .executeTakeFirst()) ?? null;

const folderOf = (projectId: number): string => `exports/${projectId}/`;

/** Removes files of this project that no row refers to. They come from attempts that died after writing the file. */
const removeLeftovers = async (ctx: Context, { project_id }: ExportRow): Promise<void> => {
  const { storage } = ctx.services;
  const known = new Set(
    (
      await ctx.db.selectFrom('project_exports').select('storage_key').where('project_id', '=', project_id).execute()
    ).map(({ storage_key }) => storage_key),
  );
  for await (const { key } of storage.list(folderOf(project_id))) if (!known.has(key)) await storage.remove(key);
};

const produce = async (ctx: Context, row: ExportRow, project: ProjectRow): Promise<void> => {
  const settings = await getSettings(ctx);
  const { key, size } = (await completeArchive(ctx, row)) ?? (await makeArchive(ctx, row, project, settings));
  // It took its time, and the upload leaves the hub.
  if (row.upload_url !== null) await requireExporter(ctx, row, project);
  const error = await upload(ctx, row, key, size);
  await finish(ctx, row, project, { key, size, error, lifetimeHours: settings.export_file_lifetime_hours });
};

interface ArchiveFile {
  readonly key: string;
  readonly size: number;
}

/** Returns the archive that an earlier attempt completed before it died. */
const completeArchive = async (ctx: Context, { storage_key: key }: ExportRow): Promise<ArchiveFile | null> => {
  const found = key === null ? null : await ctx.services.storage.stat(key);
  return key !== null && found ? { key, size: found.size } : null;
};

const makeArchive = async (
  ctx: Context,
  row: ExportRow,
  project: ProjectRow,
  { max_export_size }: Settings,
): Promise<ArchiveFile> => {
  const { storage, config } = ctx.services;
  const key = `${folderOf(project.id)}${row.id}-${row.attempt}.tar.gz`;
  const reader = await readerOf(ctx, row, project);
  const archive = createArchiveWriter({ temporaryDirectory: join(config.dataDir, 'tmp') });
  const stored = storage.write(key, archive.output, {
    contentType: ARCHIVE_TYPE,
    signal: ctx.signal,
    ...(max_export_size > 0 ? { maxBytes: max_export_size * MIB } : {}),
  });
  // The promise is awaited below, or its error is reported in the catch block.
  stored.catch(() => undefined);
  try {
    await atOneMoment(ctx, async (db) => {
      const tracker = new Tracker(ctx, row, project, await countRelations(db, project.id, reader));
      await tracker.begin();
      await writeProject(ctx, db, project, archive, {
        reader,
        description: row.description,
        onLines: (relation, done) => tracker.lines(relation, done),
        onBundle: (bytes) => tracker.bundle(bytes),
      });
      await tracker.end();
    });
    await archive.finish();
    const { size } = await stored;
    await recordArchive(ctx, row, { key, size });
    return { key, size };
  } catch (error) {
    archive.abort(error instanceof Error ? error : new Error(String(error)));
    // If the size limit stops the file, writing the archive fails too. The limit is the true reason.
    const cause = await stored.then(
      () => error,
      (failure: unknown) => (failure instanceof DomainError ? failure : error),
    );
    await storage.remove(key);
    throw cause instanceof DomainError && cause.code === 'too_large'
      ? new TransferError(`The export is larger than the limit of ${max_export_size} MiB (max_export_size).`)
      : cause;
  }
};

/** Records that the archive is complete, so that another attempt need not make it again. */
const recordArchive = async (ctx: Context, { id, attempt }: ExportRow, file: ArchiveFile): Promise<void> => {
  const recorded = await ctx.db
    .updateTable('project_exports')
    .set({ storage_key: file.key, size: file.size })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'started')
    .returning('id')
    .executeTakeFirst();
  if (!recorded) throw new Superseded();
};

/**
 * Returns the user who requested the export, with the rights of now, because the job may have waited.
 *
 * @throws TransferError if they may no longer export the project
 */
const requireExporter = async (
  ctx: Context,
  row: ExportRow,
  project: ProjectRow,
): Promise<{ readonly userId: number; readonly isAdministrator: boolean }> => {
  const acting = await contextFor(ctx, row.user_id, project.id);
  const user = acting?.actor.userId == null ? null : await findUser(ctx, acting.actor.userId);
  if (!acting || !user) throw new TransferError(GONE);
  const isAdministrator = row.by_administrator && user.is_admin;
  const actor = { ...acting.actor, isAdmin: isAdministrator };
  const seen = await findProject({ ...acting, actor }, { id: project.id });
  if (!seen || !can({ actor }, seen, 'export')) throw new TransferError(GONE);
  return { userId: user.id, isAdministrator };
};

const GONE = 'The user who requested the export may no longer export the project.';

/** Returns what the user who requested the export may see. @throws TransferError as `requireExporter` */
const readerOf = async (ctx: Context, row: ExportRow, project: ProjectRow): Promise<ExportReader> => {
  const { userId, isAdministrator } = await requireExporter(ctx, row, project);
  const { kind, traversal_ids } = project.namespace;
  const isMaintainer = (await usersWithGroupLevel(ctx, project.namespace_id, [userId], MAINTAINER)).has(userId);
  return { isAdministrator, groupIds: kind === 'group' && (isAdministrator || isMaintainer) ? traversal_ids : [] };
};

/** Updates the row with the progress and emits events at a limited rate. */
class Tracker {
  readonly #ctx: Context;
  readonly #row: ExportRow;
  readonly #project: ProjectRow;
  readonly #counts: Record<string, { done: number; total: number }>;
  readonly #total: number;
  readonly #pace = new Pace();
  #bundle = 0;

  constructor(ctx: Context, row: ExportRow, project: ProjectRow, counts: RelationCounts) {
    this.#ctx = ctx;
    this.#row = row;
    this.#project = project;
    this.#counts = { ...counts };
    // The repository counts for a tenth of the work, because its size is not known beforehand.
    this.#total = Object.values(counts).reduce((sum, { total }) => sum + total, 0);
  }

  begin(): Promise<void> {
    return this.#write();
  }

  /** Always writes the final progress, regardless of the rate limit. */
  end(): Promise<void> {
    return this.#write();
  }

  async lines(relation: string, done: number): Promise<void> {
    this.#counts[relation] = { done, total: Math.max(done, this.#counts[relation]?.total ?? 0) };
    if (this.#pace.isDue()) await this.#write();
  }

  async bundle(bytes: number): Promise<void> {
    this.#bundle = bytes;
    if (this.#pace.isDue()) await this.#write();
  }

  #percentage(): number {
    const done = Object.values(this.#counts).reduce((sum, each) => sum + each.done, 0);
    const lines = this.#total === 0 ? 0.9 : (done / this.#total) * 0.9;
    const repository = this.#bundle === 0 ? 0 : 0.09 * (1 - 1 / (1 + this.#bundle / (8 * MIB)));
    return percentageOf(lines + repository, 1);
  }

  async #write(): Promise<void> {
    this.#pace.emitted();
    await this.#ctx.transaction(async (tx) => {
      const row = await tx.db
        .updateTable('project_exports')
        .set({
          relations: toJsonb(this.#counts),
          bytes: this.#bundle,
          percentage: sql`greatest(percentage, ${this.#percentage()}::float8)`,
        })
        .where('id', '=', this.#row.id)
        .where('attempt', '=', this.#row.attempt)
        .where('status', '=', 'started')
        .returningAll()
        .executeTakeFirst();
      if (!row) throw new Superseded();
      await emitExport(tx, this.#project, row, exportProgressed);
    });
  }
}

const finish = async (
  ctx: Context,
  { id, attempt }: ExportRow,
  project: ProjectRow,
  file: {
    readonly key: string;
    readonly size: number;
    /** Why the archive could not be uploaded. It can still be downloaded. */
    readonly error: string | null;
    readonly lifetimeHours: number;
  },
): Promise<void> => {
  await ctx.transaction(async (tx) => {
    const row = await tx.db
      .updateTable('project_exports')
      .set({
        status: 'finished',
        percentage: 100,
        storage_key: file.key,
        size: file.size,
        error: file.error,
        bytes: file.size,
        total_bytes: file.size,
        filename: downloadName(tx.clock.now(), project.full_path),
        finished_at: sql`now()`,
        expires_at: sql`now() + make_interval(hours => ${file.lifetimeHours}::int)`,
        upload_url: null,
        relations: sql`(select coalesce(jsonb_object_agg(key, value || jsonb_build_object('total', value -> 'done')), '{}') from jsonb_each(relations))`,
      })
      .where('id', '=', id)
      .where('attempt', '=', attempt)
      .where('status', '=', 'started')
      .returningAll()
      .executeTakeFirst();
    if (!row) throw new Superseded();
    const { rows: older } = await sql<{ storage_key: string }>`
      update project_exports set storage_key = null from (
        select id, storage_key from project_exports
        where project_id = ${project.id} and id <> ${id} and storage_key is not null for update) old
      where project_exports.id = old.id returning old.storage_key`.execute(tx.db);
    if (older.length > 0)
      tx.enqueue(removeFiles, { disk_paths: [], storage_keys: older.map(({ storage_key }) => storage_key) });
    await emitExport(tx, project, row, exportFinished);
    await mailExportEnd(tx, project, row);
  });
};

/** Marks an export as failed. If `attempt` is given, only while that attempt is the current one. */
export const failExport = async (ctx: Context, id: number, error: string, attempt?: number): Promise<void> => {
  await ctx.transaction(async (tx) => {
    const before = await tx.db
      .selectFrom('project_exports')
      .select(['attempt', 'storage_key'])
      .where('id', '=', id)
      .where('status', 'in', RUNNING_EXPORT)
      .forUpdate()
      .executeTakeFirst();
    if (!before || (attempt !== undefined && before.attempt !== attempt)) return;
    const row = await tx.db
      .updateTable('project_exports')
      .set({ status: 'failed', error, finished_at: sql`now()`, upload_url: null, storage_key: null, size: null })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow();
    if (before.storage_key !== null) tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [before.storage_key] });
    await emitExport(tx, null, row, exportFailed);
    const project = await findProject(tx.as(systemActor), { id: row.project_id });
    if (project) await mailExportEnd(tx, project, row);
  });
};

/** Returns the message if a retry would not help, or null if it might. */
const reasonOf = (error: unknown): string | null => (error instanceof TransferError ? error.message : null);
