import { sql } from 'kysely';
import { z } from 'zod';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { noteChangedCounts } from '../digest/announce.ts';
import { lockProjects } from '../digest/projects.ts';
import { recountUsers, thinUsers } from '../digest/users.ts';
import { errorMerged, errorUpdated } from '../events.ts';
import { checkNumber, lockErrors } from './commands.ts';
import { emitForErrors, emitWith } from './emit.ts';
import { type ErrorRow, errorsByIds } from './queries.ts';

const BATCH = 5_000;

/**
 * Merges up to 100 errors of a project into another one, which keeps its title and status. A resolved one is reopened if
 * it gets an unresolved one, because resolving it did not resolve that. It takes over their counts, users, keys, assignee
 * and issue, so later events of the same kind belong to it. Jobs move the events. The merged errors are gone.
 *
 * @throws DomainError `forbidden` below Developer, `not_found`, `invalid`
 */
export const mergeErrors = async (
  ctx: Context,
  seen: ProjectRow,
  id: number,
  given: readonly number[],
): Promise<ErrorRow> => {
  requireAbility(ctx, seen, 'update_error');
  const ids = [...new Set(given)];
  checkNumber(ids);
  if (ids.includes(id)) throw invalid({ ids: ['must not have the error itself'] });
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'update_error');
    // The digest waits, so that it adds to no error that is about to go.
    await lockProjects(tx, [project.id]);
    await lockErrors(tx, project, [id, ...ids]);
    await emitWith(tx, errorMerged, ids, { into_id: id });
    await addCounts(tx, id, ids);
    await addUsers(tx, id, ids);
    await addTotals(tx, id, ids);
    await sql`update error_keys set error_id = ${id} where error_id = any (${ids}::bigint[])`.execute(tx.db);
    await sql`update error_merges set into_id = ${id} where into_id = any (${ids}::bigint[])`.execute(tx.db);
    await sql`insert into error_merges (error_id, into_id) select unnest(${ids}::bigint[]), ${id}`.execute(tx.db);
    await sql`delete from errors where id = any (${ids}::bigint[])`.execute(tx.db);
    await thinUsers(tx, [id]);
    for (const error_id of ids) tx.enqueue(moveEvents, { error_id });
    await emitForErrors(tx, errorUpdated, [id]);
    await noteChangedCounts(tx, [{ id, project_id: project.id }]);
    const merged = (await errorsByIds(tx, [id])).get(id);
    if (!merged) throw notFound('Error');
    return merged;
  });
};

const addCounts = async (tx: Tx, id: number, ids: readonly number[]): Promise<void> => {
  await sql`
    insert into error_hours as h (error_id, hour, event_count)
    select ${id}, hour, sum(event_count) from error_hours where error_id = any (${ids}::bigint[]) group by 2
    on conflict (error_id, hour) do update set event_count = h.event_count + excluded.event_count`.execute(tx.db);
  await sql`
    insert into error_facets as f (error_id, kind, value, event_count, first_seen, last_seen)
    select ${id}, kind, value, sum(event_count), min(first_seen), max(last_seen)
    from error_facets where error_id = any (${ids}::bigint[]) group by 2, 3
    on conflict (error_id, kind, value) do update set event_count = f.event_count + excluded.event_count,
      first_seen = least(f.first_seen, excluded.first_seen),
      last_seen = greatest(f.last_seen, excluded.last_seen)`.execute(tx.db);
};

/** Samples of users can be added up if all are as thin as the thinnest. */
const addUsers = async (tx: Tx, id: number, ids: readonly number[]): Promise<void> => {
  const { rows } = await sql<{ sampling: number }>`
    update errors set user_sampling = (select max(user_sampling) from errors where id = any (${[id, ...ids]}::bigint[]))
    where id = ${id} returning user_sampling as sampling`.execute(tx.db);
  const sampling = rows[0]?.sampling ?? 0;
  await sql`
    insert into error_users (error_id, hash)
    select distinct ${id}::bigint, hash from error_users where error_id = any (${ids}::bigint[])
    on conflict do nothing`.execute(tx.db);
  await recountUsers(tx, id, sampling);
};

/** The newest event gives the level, as it does when events arrive. */
const addTotals = async (tx: Tx, id: number, ids: readonly number[]): Promise<void> => {
  await sql`
    with others as materialized (select * from errors where id = any (${ids}::bigint[])),
    sums as (
      select sum(event_count) as event_count, min(first_seen) as first_seen, max(last_seen) as last_seen,
        min(first_release_id) as first_release_id, max(regressed_at) as regressed_at,
        bool_or(status = 'unresolved') as are_open,
        (array_agg(assignee_id order by id) filter (where assignee_id is not null))[1] as assignee_id,
        (array_agg(issue_id order by id) filter (where issue_id is not null))[1] as issue_id
      from others
    ), newest as (select * from others order by newest_received_at desc, id limit 1),
    latest as (select * from others where last_release_id is not null order by last_seen desc, id limit 1),
    reopened as (
      select id from errors, sums where id = ${id} and are_open and status in ('resolved', 'resolved_in_next_release')
    )
    update errors e set
      status = case when reopened.id is null then e.status else 'unresolved' end,
      resolved_at = case when reopened.id is null then e.resolved_at end,
      resolved_by_id = case when reopened.id is null then e.resolved_by_id end,
      resolved_release_id = case when reopened.id is null then e.resolved_release_id end,
      event_count = e.event_count + sums.event_count,
      ignored_until_count = e.ignored_until_count + sums.event_count,
      first_seen = least(e.first_seen, sums.first_seen), last_seen = greatest(e.last_seen, sums.last_seen),
      level = case when newest.newest_received_at > e.newest_received_at then newest.level else e.level end,
      newest_event_id = case when newest.newest_received_at > e.newest_received_at
        then newest.newest_event_id else e.newest_event_id end,
      newest_received_at = greatest(e.newest_received_at, newest.newest_received_at),
      first_release_id = least(e.first_release_id, sums.first_release_id),
      last_release_id = case when e.last_release_id is null or latest.last_seen > e.last_seen
        then coalesce(latest.last_release_id, e.last_release_id) else e.last_release_id end,
      regressed_at = greatest(e.regressed_at, sums.regressed_at),
      assignee_id = coalesce(e.assignee_id, sums.assignee_id), issue_id = coalesce(e.issue_id, sums.issue_id),
      updated_at = now()
    from sums cross join newest left join latest on true left join reopened on true where e.id = ${id}`.execute(tx.db);
};

/**
 * The job `error_tracking.move_events` moves the events of a merged error. Each batch reads where they belong now, because
 * that error may have been merged or deleted meanwhile.
 */
export const moveEvents = defineJob({
  name: 'error_tracking.move_events',
  input: z.object({ error_id: z.number() }).strict(),
  maxAttempts: 25,
  long: true,
  run: async (ctx, { error_id }) => {
    for (let moved = BATCH; moved === BATCH; ) {
      ctx.signal.throwIfAborted();
      moved = await ctx.transaction((tx) => moveSome(tx, error_id));
    }
  },
});

const moveSome = async (tx: Tx, errorId: number): Promise<number> => {
  const merge = await tx.db
    .selectFrom('error_merges')
    .select('into_id')
    .where('error_id', '=', errorId)
    .forUpdate()
    .executeTakeFirst();
  if (!merge) return 0;
  const { numAffectedRows = 0n } = await sql`
    update error_events set error_id = ${merge.into_id} where (project_id, event_id, received_at) in (
      select project_id, event_id, received_at from error_events where error_id = ${errorId}
      limit ${sql.lit(BATCH)})`.execute(tx.db);
  if (numAffectedRows < BATCH) await tx.db.deleteFrom('error_merges').where('error_id', '=', errorId).execute();
  return Number(numAffectedRows);
};
