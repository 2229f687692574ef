import { sql } from 'kysely';
import { createPipeline } from '#domains/ci/create.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { openValue, sealValue } from '#domains/ci-variables/model.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context, Tx } from '#platform/context.ts';
import { invalid, notFound, requireUnchanged, requireValid, tooManyRequests } from '#platform/errors.ts';
import type { EventDefinition } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';
import { nextRun } from './cron.ts';
import {
  pipelineScheduleCreated,
  pipelineScheduleDeleted,
  pipelineScheduleUpdated,
  type SchedulePayload,
} from './events.ts';
import {
  inputsOf,
  MAX_SCHEDULES,
  mergedInputs,
  type NewSchedule,
  problemsOf,
  type ScheduleAttributes,
  type ScheduleRow,
  type ScheduleVariable,
  type ScheduleVariableRow,
  variableProblems,
} from './model.ts';
import { requireChange, requireDelete, requireRunOn, requireTakeOver, requireVariables } from './policy.ts';
import { getSchedule, lockScheduleRow, variablesBySchedules } from './queries.ts';

/**
 * Creates a schedule, which the caller owns (reference: ci §8).
 *
 * @throws DomainError as `requireAbility(create_pipeline)`, `forbidden` if they may not run jobs on the ref, `invalid`
 *   by attribute, also if the project has too many schedules
 */
export const createSchedule = async (
  ctx: Context,
  seen: ProjectRow,
  { inputs = [], cron_timezone = 'UTC', active = true, ...given }: NewSchedule,
  variables: readonly ScheduleVariable[] = [],
): Promise<ScheduleRow> => {
  requireAbility(ctx, seen, 'create_pipeline');
  requireVariables(ctx, seen, variables);
  requireValid(problemsOf({ ...given, cron_timezone }, ctx.clock.now()));
  const ref = await readRef(ctx, seen, given.ref);
  await requireRunOn(ctx, seen, ref);
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'create_pipeline');
    const { count } = await tx.db
      .selectFrom('pipeline_schedules')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    if (count >= MAX_SCHEDULES)
      throw invalid({ base: [`Maximum number of pipeline schedules (${MAX_SCHEDULES}) exceeded`] });
    const { id } = await tx.db
      .insertInto('pipeline_schedules')
      .values({
        ...{ project_id: project.id, description: given.description, ref, cron: given.cron, cron_timezone, active },
        inputs: JSON.stringify(mergedInputs([], inputs)),
        owner_id: tx.actor.userId,
        next_run_at: active ? nextRunAt(given.cron, cron_timezone, tx.clock.now()) : null,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await writeVariables(tx, id, variables);
    return emitChanged(tx, project, pipelineScheduleCreated, id);
  });
};

/**
 * Changes the given attributes, inputs and variables. Only its owner may.
 *
 * @throws DomainError as `getSchedule`, `forbidden`, `invalid` by attribute
 */
export const updateSchedule = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  given: ScheduleAttributes,
  variables: readonly ScheduleVariable[] = [],
): Promise<ScheduleRow> => {
  requireChange(ctx, project, await getSchedule(ctx, project, id));
  requireVariables(ctx, project, variables);
  const ref = given.ref === undefined ? null : await readRef(ctx, project, given.ref);
  return changeLocked(ctx, project, id, async (tx, before) => {
    requireChange(tx, project, before);
    const after = {
      description: given.description ?? before.description,
      ref: ref ?? before.ref,
      cron: given.cron ?? before.cron,
      cron_timezone: given.cron_timezone ?? before.cron_timezone,
      active: given.active ?? before.active,
    };
    requireValid(problemsOf(after, tx.clock.now()));
    await requireRunOn(tx, project, after.ref);
    const isRescheduled =
      after.cron !== before.cron || after.cron_timezone !== before.cron_timezone || after.active !== before.active;
    const next_run_at = after.active ? nextRunAt(after.cron, after.cron_timezone, tx.clock.now()) : null;
    await tx.db
      .updateTable('pipeline_schedules')
      .set({
        ...after,
        ...(given.inputs ? { inputs: JSON.stringify(mergedInputs(inputsOf(before), given.inputs)) } : {}),
        ...(isRescheduled ? { next_run_at } : {}),
        updated_at: sql`now()`,
      })
      .where('id', '=', id)
      .execute();
    await writeVariables(tx, id, variables);
  });
};

/** The caller becomes the owner, with whose rights it runs. @throws DomainError as `getSchedule`, `forbidden` */
export const takeOwnership = async (ctx: Context, project: ProjectRow, id: number): Promise<ScheduleRow> => {
  await getSchedule(ctx, project, id);
  requireTakeOver(ctx, project);
  return changeLocked(ctx, project, id, async (tx) => {
    await tx.db
      .updateTable('pipeline_schedules')
      .set({ owner_id: tx.actor.userId, updated_at: sql`now()` })
      .where('id', '=', id)
      .execute();
  });
};

/** @throws DomainError as `getSchedule`, `forbidden` for others than its owner and maintainers, `modified` */
export const deleteSchedule = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  unchangedSince: Date | null = null,
): Promise<ScheduleRow> => {
  requireDelete(ctx, project, await getSchedule(ctx, project, id));
  return ctx.transaction(async (tx) => {
    const row = await lockSchedule(tx, project, id);
    requireDelete(tx, project, row);
    requireUnchanged(row, unchangedSince);
    await tx.db.deleteFrom('pipeline_schedules').where('id', '=', id).execute();
    emitAbout(tx, project, pipelineScheduleDeleted, row);
    return row;
  });
};

/** How often one person can start one schedule: once in so many seconds. */
const PLAY_SECONDS = 60;

/**
 * Starts a pipeline of the schedule now, with the rights of the caller.
 *
 * @throws DomainError as `getSchedule`, `forbidden` if the caller may not run jobs on its ref, `too_many_requests`, and
 *   as `createPipeline`
 */
export const playSchedule = async (ctx: Context, project: ProjectRow, id: number): Promise<PipelineRow> => {
  const schedule = await getSchedule(ctx, project, id);
  await requireRunOn(ctx, project, schedule.ref);
  const rule = { limit: 1, seconds: PLAY_SECONDS };
  const { allowed, retryAfterSeconds } = await hit(
    ctx.services,
    `play_pipeline_schedule:${ctx.actor.userId}:${id}`,
    rule,
  );
  if (!allowed) throw tooManyRequests(retryAfterSeconds);
  return startPipeline(ctx, project, schedule);
};

/**
 * Creates the pipeline of a schedule as the actor of `ctx`. Calls with the same `key` create one pipeline.
 *
 * @throws DomainError as `createPipeline`
 */
export const startPipeline = async (
  ctx: Context,
  project: ProjectRow,
  schedule: ScheduleRow,
  key?: string,
): Promise<PipelineRow> => {
  const variables = (await variablesBySchedules(ctx, [schedule.id])).get(schedule.id) ?? [];
  return createPipeline(ctx, project, {
    ref: schedule.ref,
    source: 'schedule',
    schedule_id: schedule.id,
    variables: variables.map((row) => ({
      key: row.key,
      value: openValue(ctx, row),
      variable_type: row.variable_type === 'file' ? 'file' : 'env_var',
    })),
    inputs: Object.fromEntries(inputsOf(schedule).map(({ name, value }) => [name, value])),
    save_errors: true,
    key,
  });
};

/** Creates a variable. @throws DomainError as `updateSchedule`, `invalid` if the schedule has one with this key */
export const createScheduleVariable = (
  ctx: Context,
  project: ProjectRow,
  id: number,
  variable: ScheduleVariable,
): Promise<ScheduleVariableRow> =>
  changeVariable(ctx, project, id, variable, (before) => {
    if (before) throw invalid({ key: ['has already been taken'] });
  });

/** Changes a variable. @throws DomainError as `updateSchedule`, `not_found` (Variable) */
export const updateScheduleVariable = (
  ctx: Context,
  project: ProjectRow,
  id: number,
  variable: ScheduleVariable,
): Promise<ScheduleVariableRow> => changeVariable(ctx, project, id, variable, requireThere);

/** @throws DomainError as `updateSchedule`, `not_found` (Variable) */
export const deleteScheduleVariable = (
  ctx: Context,
  project: ProjectRow,
  id: number,
  key: string,
): Promise<ScheduleVariableRow> => changeVariable(ctx, project, id, { key, destroy: true }, requireThere);

/** Returns the variable after the change, or before it if it was deleted. */
const changeVariable = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  variable: ScheduleVariable,
  judge: (before: ScheduleVariableRow | undefined) => void,
): Promise<ScheduleVariableRow> => {
  requireChange(ctx, project, await getSchedule(ctx, project, id));
  requireVariables(ctx, project, [variable]);
  return ctx.transaction(async (tx) => {
    requireChange(tx, project, await lockSchedule(tx, project, id));
    const before = await variableIn(tx, id, variable.key);
    judge(before);
    await writeVariables(tx, id, [variable]);
    await emitChanged(tx, project, pipelineScheduleUpdated, id);
    const row = (await variableIn(tx, id, variable.key)) ?? before;
    if (!row) throw notFound('Variable');
    return row;
  });
};

const requireThere = (before: ScheduleVariableRow | undefined): void => {
  if (!before) throw notFound('Variable');
};

const variableIn = async (tx: Tx, id: number, key: string): Promise<ScheduleVariableRow | undefined> =>
  (await variablesBySchedules(tx, [id])).get(id)?.find((row) => row.key === key);

/** Writes the variables by their key. An absent value or type stays as it is. @throws DomainError `invalid` */
const writeVariables = async (tx: Tx, id: number, variables: readonly ScheduleVariable[]): Promise<void> => {
  for (const { key, value, variable_type, destroy } of variables) {
    if (destroy) {
      await tx.db
        .deleteFrom('pipeline_schedule_variables')
        .where('schedule_id', '=', id)
        .where('key', '=', key)
        .execute();
      continue;
    }
    requireValid(variableProblems({ key, value: value ?? '' }));
    const changes = {
      ...(value === undefined ? {} : { sealed_value: sealValue(tx, value) }),
      ...(variable_type === undefined ? {} : { variable_type }),
    };
    await tx.db
      .insertInto('pipeline_schedule_variables')
      .values({ schedule_id: id, key, sealed_value: sealValue(tx, value ?? ''), ...changes })
      .onConflict((clash) => clash.columns(['schedule_id', 'key']).doUpdateSet({ key, ...changes }))
      .execute();
  }
};

/** Locks the schedule, changes it, and emits the event. Returns it as it is then. */
const changeLocked = (
  ctx: Context,
  project: ProjectRow,
  id: number,
  change: (tx: Tx, before: ScheduleRow) => Promise<void>,
): Promise<ScheduleRow> =>
  ctx.transaction(async (tx) => {
    await change(tx, await lockSchedule(tx, project, id));
    return emitChanged(tx, project, pipelineScheduleUpdated, id);
  });

/** @throws DomainError as `getSchedule` */
const lockSchedule = async (tx: Tx, project: ProjectRow, id: number): Promise<ScheduleRow> => {
  await lockScheduleRow(tx, id);
  return getSchedule(tx, project, id);
};

const emitChanged = async (
  tx: Tx,
  project: ProjectRow,
  definition: EventDefinition<SchedulePayload>,
  id: number,
): Promise<ScheduleRow> => {
  const row = await getSchedule(tx, project, id);
  emitAbout(tx, project, definition, row);
  return row;
};

/** Emits an event about the schedule. */
export const emitAbout = (
  tx: Tx,
  project: ProjectRow,
  definition: EventDefinition<SchedulePayload>,
  row: ScheduleRow,
): void =>
  tx.emit(definition, {
    ...projectScope(project),
    subject: { type: 'Ci::PipelineSchedule', id: row.id },
    payload: payloadOf(row),
  });

const payloadOf = (row: ScheduleRow): SchedulePayload => ({
  id: row.id,
  project_id: row.project_id,
  description: row.description,
  ref: row.ref,
  cron: row.cron,
  cron_timezone: row.cron_timezone,
  active: row.active,
  owner_id: row.owner_id,
  next_run_at: isoTime(row.next_run_at),
});

const nextRunAt = (cron: string, zone: string, now: Date): string | null =>
  nextRun(cron, zone, now)?.toISOString() ?? null;

/**
 * Returns the branch or tag with `refs/heads/` or `refs/tags/`.
 *
 * @throws DomainError `invalid` if it does not exist, or if a branch and a tag have the name
 */
const readRef = async ({ services }: Context, { disk_path }: ProjectRow, given: string): Promise<string> => {
  const names = /^refs\/(?:heads|tags)\//.test(given) ? [given] : [`refs/heads/${given}`, `refs/tags/${given}`];
  const found: string[] = [];
  for (const name of names) if ((await services.git.resolve(disk_path, name)) !== null) found.push(name);
  const [ref, another] = found;
  if (ref === undefined) throw invalid({ ref: ['does not exist'] });
  if (another !== undefined) throw invalid({ ref: ['is ambiguous: give it with refs/heads/ or refs/tags/'] });
  return ref;
};
