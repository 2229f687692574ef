import { sql } from 'kysely';
import { mergeRequestIsVisible } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { DomainError, forbidden, invalid, notFound } from '#platform/errors.ts';
import { canUpdateMergeRequest } from '../commands.ts';
import { mergeRequestChecked } from '../events.ts';
import { lockInProject } from '../locking.ts';
import { type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';
import { emitMergeRequest } from '../snapshot.ts';

// A merge request may be blocked by others, also of other projects: it can be merged once all of them are merged.

/** One merge request blocks another. */
export interface Block {
  readonly id: number;
  readonly blocked_id: number;
  readonly blocking_id: number;
}

/** The most blocks of one merge request. */
const MAX_BLOCKS = 100;

/**
 * Lists the blocks of a merge request, oldest first: those by which it is `blocked`, or those by which it is `blocking`
 * others. Leaves out those whose other merge request the caller cannot see.
 */
export const listBlocks = (
  ctx: Pick<Context, 'db' | 'actor'>,
  { id }: Pick<MergeRequestRow, 'id'>,
  side: 'blocked' | 'blocking',
): List<Block> =>
  listOf(
    ctx.db,
    ctx.db
      .selectFrom('merge_request_blocks')
      .innerJoin(
        'merge_requests',
        'merge_requests.id',
        side === 'blocked' ? 'merge_request_blocks.blocking_id' : 'merge_request_blocks.blocked_id',
      )
      .innerJoin('projects', 'projects.id', 'merge_requests.project_id')
      .select(['merge_request_blocks.id', 'merge_request_blocks.blocked_id', 'merge_request_blocks.blocking_id'])
      .where(`merge_request_blocks.${side}_id`, '=', id)
      .where(mergeRequestIsVisible(ctx.actor)),
    [{ by: sql.ref('merge_request_blocks.id'), of: (row: Block) => row.id }],
    'asc',
  );

/**
 * Lets a merge request be merged only after another one.
 *
 * @throws DomainError `forbidden` for callers who may not change the blocked one, and if it is merged; `not_found` if
 *   they cannot see the blocking one; `conflict` if it blocks already, `invalid` for a circle and beyond `MAX_BLOCKS`
 */
export const addBlock = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  blockingId: number,
): Promise<Block> => {
  if (!canUpdateMergeRequest(ctx, seen, given)) throw forbidden();
  return ctx.transaction(async (tx) => {
    await lockCircles(tx);
    const { project, row } = await lockInProject(tx, seen, given);
    requireChange(tx, project, row);
    const blocking = (await mergeRequestsByIds(tx, [blockingId])).get(blockingId);
    if (!blocking) throw notFound('Merge Request');
    if (await isBlockedBy(tx, blocking.id, row.id)) {
      throw invalid({ blocking_merge_request_id: ['would wait for itself'] });
    }
    const known = await tx.db
      .selectFrom('merge_request_blocks')
      .select('blocking_id')
      .where('blocked_id', '=', row.id)
      .execute();
    if (known.some(({ blocking_id }) => blocking_id === blocking.id)) {
      throw new DomainError('conflict', 'Block already exists');
    }
    if (known.length >= MAX_BLOCKS) {
      throw invalid({ blocking_merge_request_id: [`at most ${MAX_BLOCKS} merge requests may block another`] });
    }
    const block = await tx.db
      .insertInto('merge_request_blocks')
      .values({ blocked_id: row.id, blocking_id: blocking.id })
      .returning(['id', 'blocked_id', 'blocking_id'])
      .executeTakeFirstOrThrow();
    await emitMergeRequest(tx, mergeRequestChecked, project, row, {});
    return block;
  });
};

/** Takes a block of a merge request away, by its id or by what blocks. @throws DomainError `forbidden`, `not_found` (Block) */
export const removeBlock = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  block: Partial<Pick<Block, 'id' | 'blocking_id'>>,
): Promise<void> => {
  if (!canUpdateMergeRequest(ctx, seen, given)) throw forbidden();
  await ctx.transaction(async (tx) => {
    const { project, row } = await lockInProject(tx, seen, given);
    requireChange(tx, project, row);
    const { numDeletedRows } = await tx.db
      .deleteFrom('merge_request_blocks')
      .where('blocked_id', '=', row.id)
      .where((is) => is.and(block))
      .executeTakeFirst();
    if (numDeletedRows === 0n) throw notFound('Block');
    await emitMergeRequest(tx, mergeRequestChecked, project, row, {});
  });
};

/**
 * Requires that the caller may change the blocks. A merged merge request has none to wait for. @throws DomainError
 * `forbidden`
 */
const requireChange = (tx: Tx, project: ProjectRow, row: MergeRequestRow): void => {
  if (!canUpdateMergeRequest(tx, project, row)) throw forbidden();
  if (row.state === 'merged' || row.state === 'locked') throw forbidden(`the merge request is ${row.state}`);
};

/**
 * Lets one transaction at a time look for circles, because two new blocks may close one together. It comes before the
 * locks of rows: a new block also waits for the row that blocks.
 */
const lockCircles = async ({ db }: Tx): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('merge_requests.blocks', 0))`.execute(db);
};

/** Returns true if the merge request waits for the other one, directly or through others, or is the same. */
const isBlockedBy = async ({ db }: Pick<Context, 'db'>, id: number, otherId: number): Promise<boolean> => {
  const { rows } = await sql<{ found: boolean }>`
    with recursive waited (id) as (
      select ${id}::bigint
      union select b.blocking_id from merge_request_blocks b join waited on waited.id = b.blocked_id)
    select exists (select from waited where id = ${otherId}) as found`.execute(db);
  return rows[0]?.found ?? false;
};

/** The blocks of a merge request. */
export interface Blocking {
  /** Those that the caller can see. */
  readonly visible_ids: readonly number[];
  readonly total: number;
}

/** Returns what blocks each of these merge requests, by id. */
export const blockingByIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, Blocking>> => {
  const { rows } = await sql<Blocking & { readonly id: number }>`
    select b.blocked_id as id, count(*) as total,
      coalesce(array_agg(b.blocking_id order by b.id) filter (where ${mergeRequestIsVisible(ctx.actor)}), '{}') as visible_ids
    from merge_request_blocks b
    join merge_requests on merge_requests.id = b.blocking_id join projects on projects.id = merge_requests.project_id
    where b.blocked_id = any (${ids}::bigint[]) group by b.blocked_id`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};
