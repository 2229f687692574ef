import type { Tx } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';

/** An issue or a merge request. */
export type Issuable = { readonly issue_id: number } | { readonly merge_request_id: number };

export interface HistoryEntry {
  readonly kind: 'state' | 'label' | 'milestone';
  /** For labels and milestones. */
  readonly action?: 'add' | 'remove';
  readonly state?: 'closed' | 'reopened' | 'merged';
  readonly label_id?: number;
  readonly milestone_id?: number;
}

/** Records system notes for entries of the history. Implemented in notes/system.ts, because the table belongs to notes. */
export const recordHistoryNotes = definePort<Tx, [Issuable, readonly HistoryEntry[]], Promise<void>>(
  'recordHistoryNotes',
);

/** Records the visible history of state, labels and milestone: the resource events, and system notes for them. */
export const recordHistory = async (tx: Tx, of: Issuable, entries: readonly HistoryEntry[]): Promise<void> => {
  if (entries.length === 0) return;
  await tx.db
    .insertInto('resource_events')
    .values(
      entries.map(({ kind, action = null, state = null, label_id = null, milestone_id = null }) => ({
        ...of,
        user_id: tx.actor.userId,
        kind,
        action,
        state,
        label_id,
        milestone_id,
      })),
    )
    .execute();
  await recordHistoryNotes(tx, of, entries);
};

interface Recorded {
  readonly state: string;
  readonly milestone_id: number | null;
}

/** Returns the entries for an issue or merge request that was closed or reopened, or got another milestone. */
export const updateHistory = (before: Recorded, after: Recorded): HistoryEntry[] => [
  ...(before.state === after.state
    ? []
    : [{ kind: 'state', state: after.state === 'closed' ? 'closed' : 'reopened' } as const]),
  ...milestoneHistory(before.milestone_id, after.milestone_id),
];

/** Returns the entries for a milestone that was replaced, added or removed. */
export const milestoneHistory = (before: number | null, after: number | null): HistoryEntry[] => {
  if (before === after) return [];
  return [
    ...(before === null ? [] : [{ kind: 'milestone', action: 'remove', milestone_id: before } as const]),
    ...(after === null ? [] : [{ kind: 'milestone', action: 'add', milestone_id: after } as const]),
  ];
};
