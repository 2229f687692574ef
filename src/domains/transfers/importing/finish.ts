import { sql } from 'kysely';
import { PUBLIC, visibilityLevel, visibilityName } from '#domains/access/model.ts';
import { lockNamespace } from '#domains/groups/tree.ts';
import { recountOpenIssues } from '#domains/issues/commands.ts';
import { attributesFromArchive } from '#domains/projects/archive.ts';
import { projectAttributes } from '#domains/projects/attributes.ts';
import { raiseIid } from '#domains/projects/commands.ts';
import { removeProject } from '#domains/projects/deletion.ts';
import { nextPolicy } from '#domains/projects/expiration-policy.ts';
import { allowedVisibility, checkFree, columnsOf, forgetRedirect } from '#domains/projects/insert.ts';
import { lockForks, visibilityLimit } from '#domains/projects/lineage.ts';
import { findProject, getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Actor, Context, Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { removeFiles } from '#platform/remove-files.ts';
import { emitImport } from '../emit-progress.ts';
import { importFailed, importFinished } from '../events.ts';
import { type ImportRow, type RelationCounts, Superseded, TransferError } from '../model.ts';
import { SETTING_FILES } from '../relations/all.ts';
import type { Json } from '../relations/columns.ts';
import { updateStartedImport } from '../update-import.ts';
import { overridesOf } from './overrides.ts';
import { readSettingsLine } from './relations.ts';
import type { Unpacked } from './unpack.ts';

const COUNTERS = [
  ['issue', 'issues'],
  ['merge_request', 'merge_requests'],
  ['milestone', 'milestones'],
  ['pipeline', 'pipelines'],
] as const;

const LEVELS = new Set<unknown>([0, 10, 20]);

/**
 * Finishes the import in one transaction: settings, counters and, if it replaces a project, the exchange. Until then
 * the project is private and the one it replaces is unchanged.
 */
export const finishImport = async (
  ctx: Context,
  importer: Actor,
  row: ImportRow,
  project: ProjectRow,
  archive: Unpacked,
): Promise<void> => {
  const settings = await readSettings(archive);
  try {
    await ctx.transaction(async (tx) => {
      if (row.replaces_project_id !== null) await lockForks(tx, 'shared');
      const place = await lockNamespace(tx, project.namespace_id);
      if (!place) throw new Superseded();
      const done = await updateStartedImport(tx, row, {
        status: 'finished',
        percentage: 100,
        relations: sql`relations || ${JSON.stringify(settingsCounts(archive))}::jsonb`,
        finished_at: sql`now()`,
        storage_key: null,
        checkpoint: '{}',
      });
      const asImporter: Tx = { ...tx, actor: importer };
      const replaced = await findReplaced(asImporter, row);
      const ceiling = replaced === null ? PUBLIC : await visibilityLimit(asImporter, replaced);
      await applySettings(asImporter, done, project, { archive: archive.project, settings, ceiling });
      await countUp(tx, project.id);
      if (row.target_path !== null) await takePlace(asImporter, row, project, { replaced, path: place.full_path });
      if (row.storage_key !== null) tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [row.storage_key] });
      await emitImport(tx, await getProject(tx, { id: project.id }), done, importFinished);
    });
  } catch (error) {
    // The name was taken meanwhile, or the importer may no longer replace the existing project.
    if (error instanceof DomainError && ['invalid', 'forbidden', 'conflict'].includes(error.code))
      throw new TransferError(`The project could not be moved to its path: ${error.message}.`);
    throw error;
  }
};

/** Setting files are applied at the end, all at once, so all their lines are done. */
const settingsCounts = ({ relations }: Unpacked): RelationCounts =>
  Object.fromEntries(
    SETTING_FILES.flatMap((name) => {
      const lines = relations.get(name)?.lines;
      return lines === undefined ? [] : [[name, { done: lines, total: lines }]];
    }),
  );

const readSettings = async (archive: Unpacked) => {
  let found = attributesFromArchive(archive.project, 'project');
  for (const file of SETTING_FILES) {
    const line = await readSettingsLine(archive.relations.get(file));
    if (line) found = { ...found, ...attributesFromArchive(line, file) };
  }
  return found;
};

interface Applied {
  /** The line of the archive that describes the project. */
  readonly archive: Json;
  readonly settings: Awaited<ReturnType<typeof readSettings>>;
  /** The highest visibility that the project may have. */
  readonly ceiling: number;
}

const applySettings = async (
  tx: Tx,
  row: ImportRow,
  project: ProjectRow,
  { archive: line, settings, ceiling }: Applied,
): Promise<void> => {
  const overrides = overridesOf(row);
  const container_expiration_policy =
    nextPolicy(
      tx.clock.now(),
      settings.container_expiration_policy ?? null,
      overrides.container_expiration_policy,
      overrides.container_expiration_policy_attributes,
    ) ?? settings.container_expiration_policy;
  const level = overrides.visibility_level ?? line.visibility_level;
  const wanted = LEVELS.has(level) ? visibilityName(Number(level)) : 'private';
  const within = visibilityName(Math.min(visibilityLevel(wanted), ceiling));
  const visibility_level = await allowedVisibility(tx, project.namespace, within, { cap: true });
  await tx.db
    .updateTable('projects')
    .set({
      ...columnsOf({ ...settings, ...projectAttributes.parse(overrides), container_expiration_policy }),
      visibility_level,
      visibility_ceiling: ceiling,
      archived: (overrides.archived ?? line.archived) === true,
      last_activity_at: sql`now()`,
      updated_at: sql`now()`,
    })
    .where('id', '=', project.id)
    .execute();
};

/** Raises the counters above the imported numbers and recounts the open issues. */
const countUp = async (tx: Tx, projectId: number): Promise<void> => {
  for (const [kind, table] of COUNTERS) {
    const { rows } = await sql<{ last: number }>`
      select coalesce(max(iid), 0) as last from ${sql.table(table)} where project_id = ${projectId}`.execute(tx.db);
    await raiseIid(tx, projectId, kind, rows[0]?.last ?? 0);
  }
  await recountOpenIssues(tx, projectId);
};

/** Returns the project to replace, if the importer may see it. */
const findReplaced = async (tx: Tx, { replaces_project_id: id }: ImportRow): Promise<ProjectRow | null> =>
  id === null ? null : findProject(tx, { id });

/** Removes the replaced project and gives its name and path to the imported one. */
const takePlace = async (
  tx: Tx,
  row: ImportRow,
  project: ProjectRow,
  { replaced, path: namespacePath }: { readonly replaced: ProjectRow | null; readonly path: string },
): Promise<void> => {
  const path = row.target_path ?? project.path;
  const name = row.target_name ?? project.name;
  const full_path = `${namespacePath}/${path}`;
  if (replaced) await removeProject(tx, replaced);
  await checkFree(tx, { id: project.id, namespace_id: project.namespace_id, full_path, name });
  await forgetRedirect(tx, full_path);
  await tx.db.updateTable('projects').set({ name, path, full_path }).where('id', '=', project.id).execute();
};

/** Marks an import as failed. If `attempt` is given, only while that attempt is the current one. */
export const failImport = async (ctx: Context, id: number, error: string, attempt?: number): Promise<void> => {
  await ctx.transaction(async (tx) => {
    const before = await tx.db
      .selectFrom('project_imports')
      .selectAll()
      .where('id', '=', id)
      .forUpdate()
      .executeTakeFirst();
    if (!before || (before.status !== 'scheduled' && before.status !== 'started')) return;
    if (attempt !== undefined && before.attempt !== attempt) return;
    const row = await tx.db
      .updateTable('project_imports')
      .set({
        status: 'failed',
        import_error: error,
        finished_at: sql`now()`,
        storage_key: null,
        source_url: null,
        checkpoint: '{}',
      })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow();
    if (before.storage_key !== null) tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [before.storage_key] });
    await emitImport(tx, null, row, importFailed);
  });
};
