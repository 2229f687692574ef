import { type Selectable, sql } from 'kysely';
import type { HistoryEntry } from '#domains/planning/history.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { ResourceEvents } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { Tracked } from './tracked.ts';

export type ResourceEventRow = Selectable<ResourceEvents>;
export type ResourceEventKind = HistoryEntry['kind'];

/** Lists the changes of state, labels or milestone, oldest first. The caller can see the issue or merge request. */
export const listResourceEvents = (
  ctx: Pick<Context, 'db'>,
  tracked: Tracked,
  kind: ResourceEventKind,
): List<ResourceEventRow> => listOf(ctx.db, eventsOf(ctx, tracked, kind), BY_ID, 'asc');

/** @throws DomainError `not_found` */
export const getResourceEvent = async (
  ctx: Pick<Context, 'db'>,
  tracked: Tracked,
  kind: ResourceEventKind,
  id: number,
): Promise<ResourceEventRow> => {
  const row = await eventsOf(ctx, tracked, kind).where('resource_events.id', '=', id).executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

const BY_ID: readonly SortKey<ResourceEventRow>[] = [{ by: sql.ref('resource_events.id'), of: (row) => row.id }];

const eventsOf = ({ db }: Pick<Context, 'db'>, { kind: owner, row }: Tracked, kind: ResourceEventKind) =>
  db
    .selectFrom('resource_events')
    .selectAll()
    .where(`resource_events.${owner}_id`, '=', row.id)
    .where('resource_events.kind', '=', kind);
