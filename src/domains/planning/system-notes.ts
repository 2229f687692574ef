import type { Tx } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';
import type { Changes } from './changes.ts';
import type { Issuable } from './history.ts';

/** The subject of a system note, as exports name it (`system_note_metadata.action`). */
export type SystemNoteAction =
  | 'approved'
  | 'assignee'
  | 'branch'
  | 'closed'
  | 'commit'
  | 'confidential'
  | 'cross_reference'
  | 'description'
  | 'discussion'
  | 'due_date'
  | 'issue_type'
  | 'label'
  | 'locked'
  | 'merge'
  | 'merged'
  | 'milestone'
  | 'opened'
  | 'outdated'
  | 'reviewer'
  | 'time_tracking'
  | 'title'
  | 'unapproved'
  | 'unlocked'
  | 'visible'
  | 'weight';

export interface SystemNote {
  readonly action: SystemNoteAction;
  /** Markdown, such as `approved this merge request`. */
  readonly body: string;
  /** The thread that it belongs to. By default it stands alone. */
  readonly discussion_id?: string | undefined;
  /** For Reporters and above only, as the thread is. */
  readonly internal?: boolean | undefined;
}

/**
 * Records system notes on an issue or merge request, by the acting user. Implemented in notes/system.ts, because the
 * table belongs to notes.
 */
export const recordSystemNotes = definePort<Tx, [Issuable, readonly SystemNote[]], Promise<void>>('recordSystemNotes');

/** Records a single system note. */
export const recordSystemNote = (tx: Tx, of: Issuable, action: SystemNoteAction, body: string): Promise<void> =>
  recordSystemNotes(tx, of, [{ action, body }]);

/** Records system notes for the changed attributes that have one. State, labels and milestone come from the history. */
export const recordChangeNotes = definePort<Tx, [Issuable, Changes], Promise<void>>('recordChangeNotes');
