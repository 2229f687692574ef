import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { EventDefinition } from '#platform/events.ts';
import type { ErrorPayload } from '../events.ts';
import { errorScope } from '../policy.ts';

/** Emits an event for each of the errors, with their state at this point of the transaction. */
export const emitForErrors = (tx: Tx, definition: EventDefinition<ErrorPayload>, ids: readonly number[]) =>
  emitWith(tx, definition, ids, {});

/** The same with further attributes. */
export const emitWith = async <More>(
  tx: Tx,
  definition: EventDefinition<ErrorPayload & More>,
  ids: readonly number[],
  more: More,
): Promise<void> => {
  if (ids.length === 0) return;
  const rows = await tx.db
    .selectFrom('errors as e')
    .innerJoin('projects as p', 'p.id', 'e.project_id')
    .innerJoin('namespaces as n', 'n.id', 'p.namespace_id')
    .leftJoin('error_releases as first', 'first.id', 'e.first_release_id')
    .leftJoin('error_releases as last', 'last.id', 'e.last_release_id')
    .select([
      ...(['e.id', 'e.project_id', 'e.level', 'e.platform', 'e.type', 'e.title', 'e.culprit', 'e.first_seen'] as const),
      ...(['e.last_seen', 'e.event_count', 'e.user_count', 'e.assignee_id', 'e.issue_id', 'e.resolved_by_id'] as const),
      'first.version as first_release',
      'last.version as last_release',
      'n.traversal_ids as namespace_ids',
      'p.visibility_level',
      sql<ErrorPayload['status']>`e.status`.as('status'),
      sql<string>`replace(e.newest_event_id::text, '-', '')`.as('newest_event_id'),
    ])
    .where(sql<boolean>`e.id = any (${ids}::bigint[])`)
    .orderBy('e.id')
    .execute();
  for (const { namespace_ids, visibility_level, ...payload } of rows) {
    tx.emit(definition, {
      ...errorScope({ id: payload.project_id, namespace_ids, visibility_level }),
      subject: { type: 'ErrorTrackingError', id: payload.id },
      payload: { ...payload, ...more },
    });
  }
};
