import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { z } from 'zod';
import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { retryLater } from '#platform/concurrency/retry-later.ts';
import { anonymous, type Context, type Services, type Tx } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import type { Database } from '#platform/db/pool.ts';
import { conflict, DomainError } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import { defineJob } from '#platform/jobs.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { repositoryUpdated } from './events.ts';
import { isChange, type RefUpdate } from './model.ts';
import { carryOutDue, carryOutLate, commandsSchema, processIsDead } from './options-due.ts';
import { mustBeCarriedOut, type PushOptions, pushOptionsSchema } from './push-options.ts';
import { asHub, describeUpdates, type KnownCommits, recordUpdates } from './ref-updates.ts';

// Keeps refs and events consistent across crashes. The row of a push is committed before git moves a ref, and settled
// in the transaction that emits the events. Pushes of dead processes are settled by comparing the refs. Every change of
// branches or tags must go through here, except in repositories that their own transaction has just created.

/** A push that is about to move refs. */
export interface HeldPush {
  readonly id: number;
  readonly project: ProjectRow;
  /** The updates whose refs still have the expected value. git refuses the others. */
  readonly possible: readonly RefUpdate[];
  readonly options: PushOptions;
}

/** Longer than it takes to detect a dead process. */
const WAIT_MS = 25_000;
const RECORDED_KEPT = '1 day';

/**
 * Reserves the refs of a push in a durable row before git moves them. Waits for other pushes to the same refs that are
 * being recorded, and settles those of dead processes.
 *
 * @throws DomainError `conflict` if other pushes hold a ref for too long
 */
export const holdPush = async (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  options: PushOptions = {},
): Promise<HeldPush> => {
  for (let pauseMs = 5, deadline = performance.now() + WAIT_MS; ; pauseMs = Math.min(pauseMs * 2, 250)) {
    const taken = await tryHold(ctx, project, updates, options);
    if ('possible' in taken) return taken;
    if (performance.now() > deadline)
      throw conflict('Another push to the same branch or tag is in progress; try again');
    const dead = taken.holders.filter((row) => row.dead);
    for (const { id } of dead) await settlePush(ctx.services, id);
    if (dead.length === 0) await sleep(pauseMs, undefined, { signal: ctx.signal });
  }
};

interface Holder {
  readonly id: number;
  readonly dead: boolean;
}

const tryHold = (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  options: PushOptions,
): Promise<HeldPush | { readonly holders: readonly Holder[] }> => {
  const refs = updates.map(({ ref }) => ref);
  return ctx.transaction(async (tx) => {
    const { db } = tx;
    // Concurrent pushes must not both find the refs free.
    await lockPushes(db, project);
    const { rows } = await sql<{ id: number }>`
      insert into pushes (project_id, user_id, process_id, chain_id, commands, refs, push_options)
      select ${project.id}::bigint, ${ctx.actor.userId}::bigint, ${ctx.services.processId}::uuid, ${ctx.chainId}::text,
        ${toJsonb(updates)}::jsonb, ${refs}::text[], ${toJsonb(options)}::jsonb
      where not exists (select from project_imports where project_id = ${project.id} and status = any (${RUNNING_IMPORT}::text[]))
        and not exists (select ${heldBy(project.id, refs)})
      returning id`.execute(db);
    const [row] = rows;
    if (!row) return { holders: await findHolders(db, project, refs) };
    // If the connection is lost at the commit, the row may be there. The caller does not know its id.
    tx.afterRollback(() => settleLater(ctx.services, row.id));
    // A ref may have moved meanwhile. The work of others must not count as the work of this push.
    const current = await readRefs(ctx.services, project, refs);
    const possible = updates.filter(
      (update) => isChange(update) && (current.get(update.ref) ?? null) === update.oldOid,
    );
    if (possible.length < updates.length) {
      await db
        .updateTable('pushes')
        .set({ commands: toJsonb(possible) })
        .where('id', '=', row.id)
        .execute();
    }
    return { id: row.id, project, possible, options };
  });
};

const lockPushes = (db: Database, { id }: Pick<ProjectRow, 'id'>) =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`millrace:push:${id}`}, 0))`.execute(db);

/**
 * Keeps pushes to the project from starting until the transaction ends.
 *
 * @throws DomainError `conflict` if one is moving refs
 */
export const requireNoPush = async ({ db }: Tx, project: Pick<ProjectRow, 'id'>): Promise<void> => {
  await lockPushes(db, project);
  const { rows } = await sql`
    select from pushes where project_id = ${project.id} and state = 'receiving' limit 1`.execute(db);
  if (rows.length > 0) throw conflict('409 Conflict - somebody is pushing to the project; try again');
};

/** Waits until no push that moves the ref is being recorded: its events are there then. */
export const untilRecorded = async (ctx: Context, { id }: Pick<ProjectRow, 'id'>, ref: string): Promise<void> => {
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; ) {
    const { rows } = await sql`select ${heldBy(id, [ref])} and not ${processIsDead}`.execute(ctx.db);
    if (rows.length === 0) return;
    await sleep(5, undefined, { signal: ctx.signal });
  }
};

/** How many events of the project are searched for a push, from the newest on. */
const SEARCHED_EVENTS = 200;

/**
 * Returns the id of the user whose push moved the ref to this commit. Null if the hub did it, the user is gone, or it is
 * long ago. Waits for a push whose refs have moved, but whose event is still to be written.
 */
export const findPusher = async (
  ctx: Context,
  { id }: Pick<ProjectRow, 'id'>,
  { ref, after }: { readonly ref: string; readonly after: string },
): Promise<number | null> => {
  await untilRecorded(ctx, { id }, ref);
  const { rows } = await sql<{ id: number }>`
    select users.id from (
      select id, kind, actor_id, payload from events where position is null and project_id = ${id}
      union all
      (select id, kind, actor_id, payload from events where position is not null and project_id = ${id}
        order by position desc limit ${SEARCHED_EVENTS})
    ) recent join users on users.id = recent.actor_id
    where recent.kind = ${repositoryUpdated.kind}
      and recent.payload -> 'changes' @> ${toJsonb([{ ref, after }])}::jsonb
    order by recent.id desc limit 1`.execute(ctx.db);
  return rows[0]?.id ?? null;
};

const heldBy = (projectId: number, refs: readonly string[]) =>
  sql`from pushes where project_id = ${projectId} and state = 'receiving' and refs && ${refs}::text[]`;

/** Returns the pushes that hold one of the refs. @throws DomainError `conflict` during an import */
const findHolders = async (db: Database, { id }: ProjectRow, refs: readonly string[]): Promise<readonly Holder[]> => {
  const isComing = await db
    .selectFrom('project_imports')
    .select('id')
    .where('project_id', '=', id)
    .where('status', 'in', RUNNING_IMPORT)
    .executeTakeFirst();
  // The import replaces the whole repository.
  if (isComing) throw conflict('The repository is still being imported or forked; try again when it is complete');
  return (await sql<Holder>`select id, ${processIsDead} as dead ${heldBy(id, refs)}`.execute(db)).rows;
};

/**
 * Writes the events of the moved refs and deletes the push's row, unless its options must be carried out. Another
 * process may have settled the push meanwhile.
 */
export const recordPush = async (
  ctx: Context,
  push: HeldPush,
  moved: readonly RefUpdate[],
  known?: KnownCommits,
): Promise<void> => {
  const described = await describeUpdates(ctx, push.project, changedBy(push, moved), known);
  await ctx.transaction(async (tx) => {
    const row = await closeRow(tx, push, described.updates);
    if (!row) return; // the project is gone
    const known = new Set(row.state === 'recorded' ? (row.moved ?? []) : []);
    const updates = described.updates.filter(({ ref }) => !known.has(ref));
    await recordUpdates(tx, push.project.id, { ...described, updates }, push.options);
  });
};

/** Deletes the row of the push, or keeps it until its options are carried out. Returns the row as it was. */
const closeRow = async (tx: Tx, { id, options }: HeldPush, moved: readonly RefUpdate[]) => {
  if (!mustBeCarriedOut(options)) {
    return tx.db.deleteFrom('pushes').where('id', '=', id).returning(['state', 'moved']).executeTakeFirst();
  }
  const row = await tx.db
    .selectFrom('pushes')
    .select(['state', 'moved'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (row?.state !== 'receiving') return row;
  await tx.db
    .updateTable('pushes')
    .set({ state: 'recorded', moved: moved.map(({ ref }) => ref), options_due: true })
    .where('id', '=', id)
    .execute();
  return row;
};

/** Returns the updates that the push carried out. git also reports success for deleting a ref that does not exist. */
const changedBy = (push: HeldPush, moved: readonly RefUpdate[]): RefUpdate[] => {
  const possible = new Set(push.possible.map(({ ref }) => ref));
  return moved.filter((update) => isChange(update) && possible.has(update.ref));
};

/**
 * Moves refs for the API, with the events of a push. Moves all or none.
 *
 * @throws DomainError `conflict` if a ref does not have the expected value
 */
export const moveRefs = async (
  ctx: Context,
  project: ProjectRow,
  updates: readonly RefUpdate[],
  { options = {}, known }: { readonly options?: PushOptions; readonly known?: KnownCommits } = {},
): Promise<void> => {
  const changes = updates.filter(isChange);
  if (changes.length === 0) return;
  const push = await holdPush(ctx, project, changes, options);
  try {
    if (push.possible.length < changes.length) throw new GitError('conflict', 'The reference has just been changed');
    await ctx.services.git.updateRefs(project.disk_path, changes);
    await recordPush(ctx, push, changes, known);
  } catch (error) {
    // Whatever failed, the refs show whether they have moved.
    await settleSurely(ctx.services, push.id);
    if (error instanceof GitError && error.reason === 'conflict') throw new DomainError('conflict', error.message);
    throw error;
  }
};

/**
 * Settles a push of this process that could not be recorded, and tries again until that succeeds, for example after an
 * outage of the database. While this process lives, no other process settles its pushes, and their refs stay reserved.
 */
export const settleLater = (services: Services, pushId: number): void =>
  retryLater(
    () => settlePush(services, pushId),
    (error) => logUnsettled(services, pushId, error),
  );

const settleSurely = async (services: Services, pushId: number): Promise<void> => {
  try {
    await settlePush(services, pushId);
  } catch (error) {
    logUnsettled(services, pushId, error);
    settleLater(services, pushId);
  }
};

const logUnsettled = ({ log }: Services, push_id: number, err: unknown): void =>
  log.error({ err, push_id }, 'a push could not be recorded; trying again');

/** Compares the refs to find out which updates of a push were carried out, and records those. Idempotent. */
export const settlePush = async (services: Services, pushId: number): Promise<void> => {
  const row = await services.db.selectFrom('pushes').selectAll().where('id', '=', pushId).executeTakeFirst();
  if (row?.state !== 'receiving') return;
  const actor = { ...anonymous, userId: row.user_id };
  const ctx = createContextFactory(services)({ actor, chainId: row.chain_id });
  const project = await findProject(asHub(ctx), { id: row.project_id });
  if (!project) return;
  const commands = commandsSchema.parse(row.commands);
  const current = await readRefs(
    services,
    project,
    commands.map(({ ref }) => ref),
  );
  const moved = commands.filter(({ ref, newOid }) => (current.get(ref) ?? null) === newOid);
  const described = await describeUpdates(ctx, project, moved);
  const options = pushOptionsSchema.parse(row.push_options);
  const options_due = mustBeCarriedOut(options);
  await ctx.transaction(async (tx) => {
    const taken = await tx.db
      .updateTable('pushes')
      .set({ state: 'recorded', moved: moved.map(({ ref }) => ref), options_due })
      .where('id', '=', pushId)
      .where('state', '=', 'receiving')
      .returning('id')
      .executeTakeFirst();
    if (taken) await recordUpdates(tx, project.id, described, options);
  });
  if (options_due) await carryOutLate(services, pushId);
  services.log.info(
    { push_id: pushId, project_id: project.id, moved: moved.length },
    'settled a push by comparing its refs',
  );
};

/** Returns the current values of the refs. Refs that do not exist are absent. */
const readRefs = async (
  { git }: Services,
  { disk_path }: ProjectRow,
  refs: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  try {
    return await git.refValues(disk_path, refs);
  } catch (error) {
    if (error instanceof GitError && error.reason === 'missing') return new Map();
    throw error;
  }
};

/** Settles the pushes of dead processes, and carries out their options. Failed ones are retried next time. */
export const settleDeadPushes = async (services: Services): Promise<void> => {
  const rows = await services.db
    .selectFrom('pushes')
    .select('id')
    .where('state', '=', 'receiving')
    .where(processIsDead)
    .orderBy('id')
    .limit(1_000)
    .execute();
  for (const { id } of rows) {
    await settlePush(services, id).catch((error: unknown) =>
      services.log.error({ err: error, push_id: id }, 'an interrupted push could not be settled; trying again'),
    );
  }
  await carryOutDue(services);
};

/** A fallback for the timer of the web processes (git-http.ts). */
export const settlePushes = defineJob({
  name: 'repositories.settle_pushes',
  input: z.object({}),
  maxAttempts: 1,
  cron: '* * * * *',
  run: async ({ services, db }) => {
    await settleDeadPushes(services);
    await db
      .deleteFrom('pushes')
      .where('state', '=', 'recorded')
      .where('created_at', '<', sql<string>`now() - ${sql.lit(RECORDED_KEPT)}::interval`)
      .execute();
  },
});

/** Retired: earlier versions queued it for the first commit of a project. Its push is settled like any other. */
export const settleFirstPush = defineJob({
  name: 'repositories.settle_first_push',
  input: z.object({ project_id: z.number() }),
  maxAttempts: 5,
  run: ({ services }) => settleDeadPushes(services),
});
