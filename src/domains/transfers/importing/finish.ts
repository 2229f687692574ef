import { sql } from 'kysely';
import { PUBLIC, visibilityLevel, visibilityName } from '#domains/access/model.ts';
import { importApprovalSettings } from '#domains/approvals/archive.ts';
import { importErrorTracking } from '#domains/error-tracking/archive.ts';
import { withinGroup } from '#domains/groups/shared-runners.ts';
import { lockNamespace, type TreePosition } from '#domains/groups/tree.ts';
import { recountOpenIssues } from '#domains/issues/commands.ts';
import { attributesFromArchive } from '#domains/projects/archive.ts';
import { type ProjectAttributes, projectAttributes } from '#domains/projects/attributes.ts';
import { removeProject } from '#domains/projects/deletion.ts';
import { nextPolicy } from '#domains/projects/expiration-policy.ts';
import { allowedVisibility, checkFree, columnsOf, forgetRedirect } from '#domains/projects/insert.ts';
import { lockForks, visibilityLimit } from '#domains/projects/lineage.ts';
import { lockProject } from '#domains/projects/locks.ts';
import { findProject, getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { importPushRule } from '#domains/push-rules/archive.ts';
import type { Actor, Context, Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { archiveKeys } from '../downloading/keys.ts';
import { openSource } from '../downloading/source.ts';
import { emitImport } from '../emit-progress.ts';
import { importFailed, importFinished } from '../events.ts';
import { IMPORT_TYPE, type ImportRow, type RelationCounts, Superseded, TransferError } from '../model.ts';
import { FURTHER_FILES, SETTING_FILES } from '../relations/all.ts';
import type { Json } from '../relations/columns.ts';
import { NUMBERED_RELATIONS } from '../relations/numbered.ts';
import { updateStartedImport } from '../update-import.ts';
import { type Failure, ITEM } from './batch.ts';
import { numbersOf } from './checkpoint.ts';
import { countUp, reserveNumbers } from './numbering.ts';
import { overridesOf } from './overrides.ts';
import { readSettingsLine, recordFailures } from './relations.ts';
import type { Unpacked } from './unpack.ts';

const LEVELS = new Set<unknown>([0, 10, 20]);

/**
 * Finishes the import in one transaction: settings, counters and, if it replaces a project, the exchange. Until then
 * the project is private and the one it replaces is unchanged.
 */
export const finishImport = async (
  ctx: Context,
  importer: Actor,
  row: ImportRow,
  { id: projectId }: Pick<ProjectRow, 'id'>,
  archive: Unpacked,
): Promise<void> => {
  const { settings, problems } = await readSettings(archive);
  const further = {
    push_rule: await readSettingsLine(archive.relations.get('push_rule')),
    error_tracking_setting: await readSettingsLine(archive.relations.get('error_tracking_setting')),
  };
  try {
    await ctx.transaction(async (tx) => {
      if (row.replaces_project_id !== null) await lockForks(tx, 'shared');
      const { project, place } = await lockImported(tx, projectId);
      const done = await updateStartedImport(tx, row, {
        status: 'finished',
        percentage: 100,
        relations: sql`relations || ${JSON.stringify(settingsCounts(archive))}::jsonb`,
        finished_at: sql`now()`,
        storage_key: null,
        download_parts: sql`'{}'`,
        checkpoint: '{}',
      });
      const asImporter = tx.as(importer);
      const replaced = await findReplaced(asImporter, row);
      const ceiling = replaced === null ? PUBLIC : await visibilityLimit(asImporter, replaced);
      const invalid = await applySettings(asImporter, done, project, {
        archive: archive.project,
        settings,
        ceiling,
        place,
      });
      for (const [file, failure] of [...problems, ...invalid]) await recordFailures(tx, project.id, file, [failure]);
      await applyFurther(tx, project.id, further);
      await recordLeftOut(tx, project.id, archive);
      await recount(tx, project.id);
      if (row.target_path !== null) await takePlace(asImporter, row, project, { replaced, path: place.full_path });
      const storage_keys = [...archiveKeys(row)];
      if (storage_keys.length > 0) tx.enqueue(removeFiles, { disk_paths: [], storage_keys });
      await emitImport(tx, await getProject(tx, { id: project.id }), done, importFinished);
    });
  } catch (error) {
    // The name was taken meanwhile, or the importer may no longer replace the existing project.
    if (error instanceof DomainError && ['invalid', 'forbidden', 'conflict'].includes(error.code))
      throw new TransferError(`The project could not be moved to its path: ${error.message}.`);
    throw error;
  }
};

/** Makes the counters of the project agree with what has been imported. */
const recount = async (tx: Tx, projectId: number): Promise<void> => {
  for (const relation of NUMBERED_RELATIONS) await countUp(tx, projectId, relation);
  await recountOpenIssues(tx, projectId);
};

/**
 * Locks the project and its namespace, and returns them as they are now: while the import ran, the project may have
 * been moved, and its group may have been closed.
 *
 * @throws Superseded if the project is gone
 */
const lockImported = async (
  tx: Tx,
  id: number,
): Promise<{ readonly project: ProjectRow; readonly place: TreePosition }> => {
  const found = await findProject(tx, { id });
  // The namespace comes first, as in every command that moves a project.
  let place = found && (await lockNamespace(tx, found.namespace_id));
  if (!place) throw new Superseded();
  const project = await lockProject(tx, id);
  if (project.namespace_id !== place.id) place = await lockNamespace(tx, project.namespace_id);
  if (!place) throw new Superseded();
  return { project, place };
};

/** Setting files are applied at the end, all at once, so all their lines are done. */
const settingsCounts = ({ relations }: Unpacked): RelationCounts =>
  Object.fromEntries(
    [...SETTING_FILES, ...FURTHER_FILES].flatMap((name) => {
      const lines = relations.get(name)?.lines;
      return lines === undefined ? [] : [[name, { done: lines, total: lines }]];
    }),
  );

/** A value that was left out, with the file of the archive that has it. */
type Problem = readonly [file: string, failure: Failure];

const problemWith = (file: string, key: string, problem = 'is invalid'): Problem => [
  file,
  {
    exception_class: 'RecordInvalid',
    exception_message: `${key} ${problem}: it was left out`.slice(0, 1_000),
    source: ITEM,
    line_number: 0,
  },
];

const readSettings = async (archive: Unpacked) => {
  const problems: Problem[] = [];
  const read = (line: Json, file: 'project' | (typeof SETTING_FILES)[number]) =>
    attributesFromArchive(line, file, (key, problem) => problems.push(problemWith(file, key, problem)));
  let settings = read(archive.project, 'project');
  for (const file of SETTING_FILES) {
    const line = await readSettingsLine(archive.relations.get(file));
    if (line) settings = { ...settings, ...read(line, file) };
  }
  return { settings, problems };
};

interface Applied {
  /** The line of the archive that describes the project. */
  readonly archive: Json;
  readonly settings: ProjectAttributes;
  /** The highest visibility that the project may have. */
  readonly ceiling: number;
  readonly place: TreePosition;
}

/** Returns the values that were left out. */
const applySettings = async (
  tx: Tx,
  row: ImportRow,
  project: ProjectRow,
  { archive: line, settings, ceiling, place }: Applied,
): Promise<readonly Problem[]> => {
  const overrides = overridesOf(row);
  const attributes = { ...settings, ...projectAttributes.parse(overrides) };
  const container_expiration_policy =
    nextPolicy(
      tx.clock.now(),
      settings.container_expiration_policy ?? null,
      overrides.container_expiration_policy,
      overrides.container_expiration_policy_attributes,
    ) ?? settings.container_expiration_policy;
  const invalid = [...(await importApprovalSettings(tx, project.id, line))];
  if (!LEVELS.has(line.visibility_level ?? 0)) invalid.push('visibility_level');
  if (typeof (line.archived ?? false) !== 'boolean') invalid.push('archived');
  const level = overrides.visibility_level ?? line.visibility_level;
  const wanted = LEVELS.has(level) ? visibilityName(Number(level)) : 'private';
  const within = visibilityName(Math.min(visibilityLevel(wanted), ceiling));
  const visibility_level = await allowedVisibility(tx, project.namespace, within, { cap: true });
  await tx.db
    .updateTable('projects')
    .set({
      ...columnsOf({ ...attributes, container_expiration_policy }),
      // Archives from elsewhere do not know the group, which may also have become stricter since the import began.
      shared_runners_enabled: withinGroup(place, attributes.shared_runners_enabled),
      visibility_level,
      visibility_ceiling: ceiling,
      // The owner may have archived the project while the import ran.
      archived: project.archived || (overrides.archived ?? line.archived) === true,
      last_activity_at: sql`now()`,
      updated_at: sql`now()`,
    })
    .where('id', '=', project.id)
    .execute();
  return invalid.map((key) => problemWith('project', key));
};

const applyFurther = async (
  tx: Tx,
  projectId: number,
  lines: Readonly<Record<(typeof FURTHER_FILES)[number], Json | null>>,
): Promise<void> => {
  const foreign =
    lines.error_tracking_setting === null ? [] : await importErrorTracking(tx, projectId, lines.error_tracking_setting);
  if (foreign.length > 0)
    await recordFailures(tx, projectId, 'error_tracking_setting', [
      {
        exception_class: 'RelationUnknown',
        exception_message: `This hub does not know ${foreign.join(', ')} of error_tracking_setting: ${foreign.length === 1 ? 'it was' : 'they were'} left out`,
        source: ITEM,
        line_number: 0,
      },
    ]);
  const problem = lines.push_rule && (await importPushRule(tx, projectId, lines.push_rule));
  if (problem)
    await recordFailures(tx, projectId, 'push_rule', [
      { exception_class: 'RecordInvalid', exception_message: problem.slice(0, 1_000), source: ITEM, line_number: 0 },
    ]);
};

/** Reports what the archive holds and the import has left out. */
const recordLeftOut = async (tx: Tx, projectId: number, { leftOut }: Unpacked): Promise<void> => {
  for (const { name, exception_class, reason } of leftOut)
    await recordFailures(tx, projectId, name, [
      { exception_class, exception_message: reason, source: ITEM, line_number: 0 },
    ]);
};

/** Returns the project to replace, if the importer may see it. */
const findReplaced = async (tx: Tx, { replaces_project_id: id }: ImportRow): Promise<ProjectRow | null> =>
  id === null ? null : findProject(tx, { id });

/**
 * Removes the replaced project and gives its name and path to the imported one. A project that has left the path while
 * the import ran is not in its way any more, and stays.
 */
const takePlace = async (
  tx: Tx,
  row: ImportRow,
  project: ProjectRow,
  { replaced, path: namespacePath }: { readonly replaced: ProjectRow | null; readonly path: string },
): Promise<void> => {
  const path = row.target_path ?? project.path;
  const name = row.target_name ?? project.name;
  const full_path = `${namespacePath}/${path}`;
  if (replaced) {
    const current = await lockProject(tx, replaced.id);
    if (current.full_path.toLowerCase() === full_path.toLowerCase()) await removeProject(tx, current);
  }
  await checkFree(tx, { id: project.id, namespace_id: project.namespace_id, full_path, name });
  await forgetRedirect(tx, full_path);
  await tx.db.updateTable('projects').set({ name, path, full_path }).where('id', '=', project.id).execute();
};

interface FailOptions {
  /** Fails the import only while this attempt is the current one. */
  readonly attempt?: number;
  /**
   * Keeps the archive and the checkpoint, so that the import can be retried until the archive expires. If it is not
   * downloaded yet, keeps its URL and the parts so far, but not the keys of a bucket.
   */
  readonly keepsArchive?: boolean;
}

/** Credentials must not outlive the import: those of a bucket, and those in the address of a repository. */
const mayKeepSource = (ctx: Context, { import_type, source_url }: ImportRow): boolean =>
  source_url === null || (import_type === IMPORT_TYPE && 'url' in openSource(ctx, source_url));

/**
 * Marks an import as failed. The imported records stay, and the next items get numbers above theirs. If the import can
 * be retried, they get numbers above all of the archive.
 */
export const failImport = async (
  ctx: Context,
  id: number,
  error: string,
  { attempt, keepsArchive = false }: FailOptions = {},
): Promise<void> => {
  await ctx.transaction(async (tx) => {
    const before = await tx.db
      .selectFrom('project_imports')
      .selectAll()
      .where('id', '=', id)
      .forUpdate()
      .executeTakeFirst();
    if (!before || (before.status !== 'scheduled' && before.status !== 'started')) return;
    if (attempt !== undefined && before.attempt !== attempt) return;
    const keeps = keepsArchive && mayKeepSource(ctx, before);
    const row = await tx.db
      .updateTable('project_imports')
      .set({
        status: 'failed',
        import_error: error,
        finished_at: sql`now()`,
        ...(keeps ? {} : { source_url: null, storage_key: null, download_parts: sql`'{}'`, checkpoint: '{}' }),
      })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow();
    if (before.import_type === IMPORT_TYPE) {
      await recount(tx, before.project_id);
      if (keeps) await reserveNumbers(tx, before.project_id, numbersOf(before) ?? {});
    }
    const storage_keys = keeps ? [] : [...archiveKeys(before)];
    if (storage_keys.length > 0) tx.enqueue(removeFiles, { disk_paths: [], storage_keys });
    await emitImport(tx, null, row, importFailed);
  });
};
