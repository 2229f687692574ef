import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { unsetRecords } from '#domains/settings/removed-records.ts';
import type { RemovedProject } from '#domains/users/removal.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, forbidden, notFound, requireUnchanged } from '#platform/errors.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { definePort } from '#platform/port.ts';
import { about, payloadOf } from './commands.ts';
import { projectDeleted, projectMarkedForDeletion, projectRestored } from './events.ts';
import { lockProject } from './locks.ts';
import type { ProjectRow } from './model.ts';
import { describeProjects } from './payload.ts';
import { requireAbility } from './policy.ts';
import { getProject } from './queries.ts';

/**
 * Called before these projects are deleted: with their merge requests, and as the source of others. Merge requests
 * implement it.
 */
export const beforeMergeRequestsAreDeleted = definePort<Tx, [projectIds: readonly number[]], Promise<void>>(
  'projects.before_merge_requests_are_deleted',
);

export interface DeletionOptions {
  /** Removes a project at once that is already marked for deletion. */
  readonly permanentlyRemove?: boolean | undefined;
  /** The project's own path, as confirmation of a permanent removal. A wrong path is always refused. */
  readonly fullPath?: string | undefined;
  /** Keeps a project that has changed after this time. */
  readonly unchangedSince?: Date | null | undefined;
}

/**
 * Deletes a project with everything in it. If the setting `deletion_adjourned_period` gives a delay, the project is
 * marked first: it can be read and restored, keeps its path and name, and is removed when the delay has passed.
 * Otherwise its row is deleted at once. The repository and files are removed in the background. Returns the project if
 * it still exists.
 *
 * @throws DomainError `forbidden`; `bad_request` if it is already marked, or if a permanent removal is requested and
 *   the project is not marked or the path does not match; `modified`
 */
export const deleteProject = async (
  ctx: Context,
  given: ProjectRow,
  options: DeletionOptions = {},
): Promise<ProjectRow | null> => {
  requireAbility(ctx, given, 'remove_project');
  await requireDeletionRight(ctx);
  const { deletion_adjourned_period: days } = await getSettings(ctx);
  return ctx.transaction(async (tx) => {
    const project = await lockProject(tx, given.id);
    requireAbility(tx, project, 'remove_project');
    requireUnchanged(project, options.unchangedSince);
    const isMarked = project.marked_for_deletion_on !== null;
    if (options.permanentlyRemove && !isMarked) throw badRequest('Project must be marked for deletion first.');
    if ((options.permanentlyRemove || options.fullPath !== undefined) && options.fullPath !== project.full_path) {
      throw badRequest('`full_path` is incorrect. You must enter the complete path for the project.');
    }
    if (options.permanentlyRemove || days === 0) {
      await remove(tx, project);
      return null;
    }
    if (isMarked) throw badRequest('Project has been already marked for deletion');
    return setMark(tx, project, true);
  });
};

/** @throws DomainError `forbidden` if only administrators can delete projects */
export const requireDeletionRight = async (ctx: Context): Promise<void> => {
  if (ctx.actor.isAdmin || !(await getSettings(ctx)).default_project_deletion_protection) return;
  throw forbidden('only administrators can delete projects');
};

/** Removes the deletion mark. @throws DomainError `forbidden`, `bad_request` if the project is not marked */
export const restoreProject = async (ctx: Context, given: ProjectRow): Promise<ProjectRow> => {
  requireAbility(ctx, given, 'remove_project');
  return ctx.transaction(async (tx) => {
    const project = await lockProject(tx, given.id);
    requireAbility(tx, project, 'remove_project');
    if (project.marked_for_deletion_on === null) throw badRequest('Project has not been marked for deletion');
    return setMark(tx, project, false);
  });
};

/** Removes a project at once, regardless of the settings. @throws DomainError `forbidden` */
export const removeProject = async (ctx: Context, given: ProjectRow): Promise<void> => {
  requireAbility(ctx, given, 'remove_project');
  await requireDeletionRight(ctx);
  await ctx.transaction(async (tx) => {
    const project = await lockProject(tx, given.id);
    requireAbility(tx, project, 'remove_project');
    await remove(tx, project);
  });
};

/** Removes the projects whose delay has passed, each in its own transaction. For the job. */
export const removeDueProjects = async (ctx: Context): Promise<void> => {
  const { deletion_adjourned_period: days } = await getSettings(ctx);
  const isDue = sql<boolean>`marked_for_deletion_on <= current_date - ${days}::int`;
  const due = await ctx.db.selectFrom('projects').select('id').where(isDue).orderBy('id').execute();
  // One failing project must not block the others.
  const failures: unknown[] = [];
  for (const { id } of due) {
    ctx.signal.throwIfAborted();
    const removal = ctx.transaction(async (tx) => {
      // It may have been restored, or deleted with its group.
      const project = await tx.db
        .selectFrom('projects')
        .select('id')
        .where('id', '=', id)
        .where(isDue)
        .forUpdate()
        .executeTakeFirst();
      if (project) await remove(tx, await getProject(tx, project));
    });
    await removal.catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0)
    throw new AggregateError(failures, `${failures.length} projects could not be removed; they will be retried`);
};

const setMark = async (tx: Tx, project: ProjectRow, marked: boolean): Promise<ProjectRow> => {
  await tx.db
    .updateTable('projects')
    .set({
      marked_for_deletion_on: marked ? sql`current_date` : null,
      marked_for_deletion_by_id: marked ? tx.actor.userId : null,
      updated_at: sql`now()`,
    })
    .where('id', '=', project.id)
    .execute();
  const after = await getProject(tx, { id: project.id });
  const payload = { ...(await payloadOf(tx, after)), marked_for_deletion_on: after.marked_for_deletion_on };
  tx.emit(marked ? projectMarkedForDeletion : projectRestored, { ...about(after), payload });
  return after;
};

/** Deletes the row. The caller holds its lock. */
const remove = async (tx: Tx, project: ProjectRow): Promise<void> => {
  const [found] = await describeProjects(tx, { projectIds: [project.id] });
  if (!found) throw notFound('Project');
  await leaveOthers(tx, [project.id]);
  await tx.db.deleteFrom('projects').where('id', '=', project.id).execute();
  tx.enqueue(removeFiles, { disk_paths: [found.disk_path], storage_keys: [...found.storage_keys] });
  tx.emit(projectDeleted, { ...about(project), payload: found.payload });
};

/** Ends what other projects and the settings have to do with these projects. */
const leaveOthers = async (tx: Tx, projectIds: readonly number[]): Promise<void> => {
  await beforeMergeRequestsAreDeleted(tx, projectIds);
  await unsetRecords(tx, 'project', projectIds);
};

const PROJECTS_PER_JOB = 1_000;

/**
 * Emits an event for each project of these namespaces, and queues the removal of its files (repositories, archives,
 * pictures). The caller then deletes the rows with their namespace.
 */
export const releaseProjects = async (tx: Tx, namespaceIds: readonly number[]): Promise<RemovedProject[]> => {
  const projects = await describeProjects(tx, { namespaceIds });
  await leaveOthers(
    tx,
    projects.map(({ payload }) => payload.id),
  );
  for (let i = 0; i < projects.length; i += PROJECTS_PER_JOB) {
    const chunk = projects.slice(i, i + PROJECTS_PER_JOB);
    tx.enqueue(removeFiles, {
      disk_paths: chunk.map(({ disk_path }) => disk_path),
      storage_keys: chunk.flatMap(({ storage_keys }) => storage_keys),
    });
  }
  for (const { payload, namespace_ids } of projects) {
    const subject = { type: 'Project', id: payload.id };
    const { visibility_level } = payload;
    tx.emit(projectDeleted, { subject, project_id: payload.id, namespace_ids, visibility_level, payload });
  }
  return projects.map(({ payload, disk_path }) => ({
    id: payload.id,
    namespace_id: payload.namespace_id,
    full_path: payload.path_with_namespace,
    disk_path,
  }));
};
