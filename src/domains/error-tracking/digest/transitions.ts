import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { emitForErrors } from '../errors/emit.ts';
import { notifyOfErrors } from '../errors/notifications.ts';
import { errorCreated, errorRegressed, errorUpdated } from '../events.ts';
import type { PreparedEvent } from '../prepared-event.ts';
import type { GroupRow } from './groups.ts';
import type { Tally } from './tally.ts';

/** A change of an error by a batch, besides its counts. */
export interface Transition {
  readonly error_id: number;
  readonly kind: 'created' | 'regressed' | 'no_longer_ignored';
}

/**
 * Returns what the events do to the error: create it, reopen it, or end its ignoring.
 *
 * @param releaseIdOf returns the id of an event's release. Ids grow with the first sight of a release
 */
export const transitionOf = (
  row: GroupRow,
  { count }: Tally,
  events: readonly PreparedEvent[],
  releaseIdOf: (event: PreparedEvent) => number | null,
): readonly Transition[] => {
  const became = (kind: Transition['kind']) => [{ error_id: row.id, kind }];
  if (row.isNew) return became('created');
  if (row.status === 'ignored') {
    const { ignored_until, ignored_until_count } = row;
    const isOver = ignored_until !== null && events.some(({ received_at }) => isAfter(received_at, ignored_until));
    const isReached = ignored_until_count !== null && row.event_count + count >= ignored_until_count;
    return isOver || isReached ? became('no_longer_ignored') : [];
  }
  return events.some((event) => isRegression(row, event, releaseIdOf(event))) ? became('regressed') : [];
};

/** An event may be from before the fix if it happened earlier, in an earlier release, or in an unknown one. */
const isRegression = (row: GroupRow, { timestamp }: PreparedEvent, releaseId: number | null): boolean => {
  if (row.status === 'unresolved' || row.resolved_at === null || !isAfter(timestamp, row.resolved_at)) return false;
  if (row.resolved_release_id === null) return true;
  if (releaseId === null) return false;
  return row.status === 'resolved_in_next_release'
    ? releaseId > row.resolved_release_id
    : releaseId >= row.resolved_release_id;
};

const isAfter = (time: string, other: string): boolean => new Date(time) > new Date(other);

/** Reopens errors and emits the events of all transitions. */
export const emitTransitions = async (tx: Tx, transitions: readonly Transition[]): Promise<void> => {
  if (transitions.length === 0) return;
  const ofKind = (wanted: Transition['kind']) =>
    transitions.filter(({ kind }) => kind === wanted).map(({ error_id }) => error_id);
  const [regressed, shown] = [ofKind('regressed'), ofKind('no_longer_ignored')];
  const reopened = [...regressed, ...shown];
  if (reopened.length > 0) {
    await sql`
      update errors set status = 'unresolved', resolved_at = null, resolved_by_id = null, resolved_release_id = null,
        ignored_until = null, ignored_until_count = null, updated_at = now(),
        regressed_at = case when id = any (${regressed}::bigint[]) then now() else regressed_at end
      where id = any (${reopened}::bigint[])`.execute(tx.db);
  }
  await emitForErrors(tx, errorCreated, ofKind('created'));
  await emitForErrors(tx, errorRegressed, regressed);
  await emitForErrors(tx, errorUpdated, shown);
  await notifyOfErrors(tx, 'created', ofKind('created'));
  await notifyOfErrors(tx, 'regressed', regressed);
};
