import { z } from 'zod';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';
import { noteBody } from './webhook.ts';

const number = z.number().nullable();

/** The comment as it was then. */
const note = z.object({
  id: z.number(),
  project_id: z.number(),
  noteable_kind: z.enum(['issue', 'merge_request', 'commit']),
  /** Null for commits, which have no numbers. */
  noteable_id: number,
  noteable_iid: number,
  /** Of a comment on a commit; absent in what was written before those were there. */
  commit_id: z.string().nullable().optional(),
  /** Where in its files such a comment stands. */
  position: z.unknown().optional(),
  /** Internal, or on a confidential issue. */
  is_confidential: z.boolean(),
  internal: z.boolean(),
  note: z.string(),
  type: z.string().nullable(),
  discussion_id: z.string(),
  author_id: number,
  updated_by_id: number,
  resolved_at: z.string().nullable(),
  resolved_by_id: number,
  created_at: z.string(),
  updated_at: z.string(),
});
export type NotePayload = z.output<typeof note>;

const changed = note.extend({ changes: changesSchema });

const trigger = ({ is_confidential }: NotePayload) => (is_confidential ? 'confidential_note_events' : 'note_events');

export const noteCreated = defineEvent('note.created', note, { trigger, body: noteBody('create') });
export const noteUpdated = defineEvent<z.output<typeof changed>>('note.updated', changed, {
  trigger,
  body: noteBody('update'),
});
export const noteDeleted = defineEvent('note.deleted', note);
