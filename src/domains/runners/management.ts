import { sql } from 'kysely';
import { findGroup, type GroupRow } from '#domains/groups/queries.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import { badParameters, badRequest, forbidden, notFound, requireUnchanged } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { aboutRunner, checkRunner, emitRunnerEvent, expiryOf, type RunnerAttributes, tidyTags } from './commands.ts';
import { runnerDeleted, runnerTokenReset, runnerUpdated } from './events.ts';
import { type CreatedRunner, RUNNER_TOKEN_PREFIX, type RunnerRow, shortTokenOf } from './model.ts';
import { countsOfRunners, getRunner, ownedByIds, runnerFields } from './queries.ts';

const ATTRIBUTES = [
  'description',
  'maintenance_note',
  'paused',
  'locked',
  'run_untagged',
  'tags',
  'access_level',
  'maximum_timeout',
] as const;

/** Changes attributes of a runner. Absent ones stay as they are. @throws DomainError as `lockOwnRunner`, `invalid` by attribute */
export const updateRunner = async (ctx: Context, id: number, given: RunnerAttributes): Promise<RunnerRow> =>
  ctx.transaction(async (tx) => {
    const before = await lockOwnRunner(tx, id);
    const tags = given.tag_list === undefined ? before.tags : tidyTags(given.tag_list);
    const wanted = {
      description: given.description === undefined ? before.description : (given.description ?? ''),
      maintenance_note: given.maintenance_note === undefined ? before.maintenance_note : given.maintenance_note,
      paused: given.paused ?? before.paused,
      locked: before.runner_type === 'project_type' ? (given.locked ?? before.locked) : before.locked,
      run_untagged: given.run_untagged ?? before.run_untagged,
      tags,
      access_level: given.access_level ?? before.access_level,
      maximum_timeout: given.maximum_timeout === undefined ? before.maximum_timeout : given.maximum_timeout,
    };
    checkRunner(wanted, tags);
    const changes = ATTRIBUTES.filter((name) => JSON.stringify(wanted[name]) !== JSON.stringify(before[name]));
    if (changes.length === 0) return before;
    const after = await tx.db
      .updateTable('runners')
      .set({ ...wanted, updated_at: sql`now()` })
      .where('id', '=', id)
      .returning(runnerFields)
      .executeTakeFirstOrThrow();
    await emitChanges(tx, after, changes);
    return after;
  });

/**
 * Deletes a runner and ends its token. Only administrators delete a runner that serves several projects.
 *
 * @throws DomainError as `lockOwnRunner`, `modified`
 */
export const deleteRunner = async (ctx: Context, id: number, unchangedSince: Date | null = null): Promise<void> =>
  ctx.transaction(async (tx) => {
    const runner = await lockOwnRunner(tx, id);
    const { projects = 0 } = (await countsOfRunners(tx, [id])).get(id) ?? {};
    if (projects > 1 && !tx.actor.isAdmin) throw forbidden('Runner associated with more than one project');
    requireUnchanged(runner, unchangedSince);
    const place = await placeOfRunner(tx, runner);
    await tx.db.deleteFrom('runners').where('id', '=', id).execute();
    emitRunnerEvent(tx, runnerDeleted, runner, place);
  });

const MAX_AT_ONCE = 50;

/** Deletes all of these runners or none, and returns their ids. @throws DomainError as `deleteRunner`, `parameters` */
export const deleteRunners = async (ctx: Context, ids: readonly number[]): Promise<number[]> => {
  if (ids.length > MAX_AT_ONCE) throw badParameters(`ids has too many runners (maximum is ${MAX_AT_ONCE})`);
  // In a fixed order, so that two requests do not wait for each other.
  const wanted = [...new Set(ids)].sort((left, right) => left - right);
  await ctx.transaction(async (tx) => {
    for (const id of wanted) await deleteRunner(tx, id);
  });
  return wanted;
};

/** Gives the runner a new authentication token. The old one ends at once. @throws DomainError as `lockOwnRunner` */
export const resetRunnerToken = async (ctx: Context, id: number): Promise<CreatedRunner> => {
  const settings = await getSettings(ctx);
  return ctx.transaction(async (tx) => {
    const runner = await lockOwnRunner(tx, id);
    const place = await placeOfRunner(tx, runner);
    const token = RUNNER_TOKEN_PREFIX + randomToken();
    const after = await tx.db
      .updateTable('runners')
      .set({
        digest: digestToken(token),
        short_token: shortTokenOf(token),
        token_expires_at: expiryOf(settings, runner.runner_type, place),
        updated_at: sql`now()`,
      })
      .where('id', '=', id)
      .returning(runnerFields)
      .executeTakeFirstOrThrow();
    emitRunnerEvent(tx, runnerTokenReset, after, place);
    return { ...after, token };
  });
};

/**
 * Lets a project runner that the caller manages take jobs of another project.
 *
 * @throws DomainError as `requireAbility(admin_runner)` and `lockOwnRunner`, `forbidden` for a locked runner and for runners
 *   of groups and the instance, `bad_request` if it is assigned already
 */
export const assignRunner = async (ctx: Context, given: ProjectRow, runnerId: number): Promise<RunnerRow> => {
  requireAbility(ctx, given, 'admin_runner');
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_runner', 'shared');
    const runner = await lockOwnRunner(tx, runnerId);
    if (runner.runner_type !== 'project_type') {
      throw forbidden(`Runner is ${runner.runner_type === 'group_type' ? 'a group' : 'an instance'} runner`);
    }
    if (runner.locked) throw forbidden('Runner is locked');
    const added =
      runner.project_id !== project.id &&
      (await tx.db
        .insertInto('runner_projects')
        .values({ runner_id: runnerId, project_id: project.id })
        .onConflict((conflict) => conflict.doNothing())
        .returning('runner_id')
        .executeTakeFirst());
    if (!added) throw badRequest('Runner has already been assigned to the project');
    await emitChanges(tx, runner, ['projects']);
    return runner;
  });
};

/**
 * Ends the assignment of a runner to a project.
 *
 * @throws DomainError as `requireAbility(admin_runner)`, `not_found` (Runner) if it is not assigned, `forbidden` for the
 *   project that owns the runner
 */
export const unassignRunner = async (ctx: Context, given: ProjectRow, runnerId: number): Promise<void> => {
  requireAbility(ctx, given, 'admin_runner');
  await ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, given, 'admin_runner', 'shared');
    const runner = await lockRunner(tx, runnerId);
    if (runner.project_id === project.id) {
      throw forbidden('You cannot unassign a runner from the owner project. Delete the runner instead');
    }
    const { numDeletedRows } = await tx.db
      .deleteFrom('runner_projects')
      .where('runner_id', '=', runnerId)
      .where('project_id', '=', project.id)
      .executeTakeFirst();
    if (numDeletedRows === 0n) throw notFound('Runner');
    await emitChanges(tx, runner, ['projects']);
  });
};

/**
 * Locks the runner, and returns it if the caller manages its owner. Maintainers of the other projects that it serves only
 * see it.
 *
 * @throws DomainError as `getRunner`, `forbidden`
 */
const lockOwnRunner = async (tx: Tx, id: number): Promise<RunnerRow> => {
  const runner = await lockRunner(tx, id);
  if (!(await ownedByIds(tx, [id])).has(id)) throw forbidden();
  return runner;
};

/** @throws DomainError as `getRunner` */
const lockRunner = async (tx: Tx, id: number): Promise<RunnerRow> => {
  await tx.db.selectFrom('runners').select('id').where('id', '=', id).forUpdate().executeTakeFirst();
  return getRunner(tx, id);
};

const emitChanges = async (tx: Tx, runner: RunnerRow, changes: readonly string[]): Promise<void> => {
  const about = aboutRunner(runner, await placeOfRunner(tx, runner));
  tx.emit(runnerUpdated, { ...about, payload: { ...about.payload, changes: [...changes] } });
};

/** Returns the group or project that owns the runner, without checking access. Null for runners of the instance. */
export const placeOfRunner = async (given: Context, runner: RunnerRow): Promise<GroupRow | ProjectRow | null> => {
  const ctx = { ...given, actor: systemActor };
  if (runner.namespace_id !== null) return findGroup(ctx, { id: runner.namespace_id });
  return runner.project_id === null ? null : findProject(ctx, { id: runner.project_id });
};
