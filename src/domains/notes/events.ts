import { z } from 'zod';
import { REPORTER } from '#domains/access/model.ts';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent, type EventPart } from '#platform/events.ts';
import { COMMENTABLE_KINDS } from './noteable.ts';
import { noteBody } from './webhook.ts';

const number = z.number().nullable();

const ABILITIES = { issue: 'read_issue', merge_request: 'read_merge_request', commit: 'read_code' } as const;

/** The part that events about comments on it, or about its emoji, belong to. */
export const noteablePart = (kind: keyof typeof ABILITIES, id: number | null): EventPart => ({
  ability: ABILITIES[kind],
  subject: kind === 'issue' && id !== null ? { type: 'Issue', id } : undefined,
});

/** The comment at the time of the event. */
const note = z.object({
  id: z.number(),
  project_id: z.number(),
  noteable_kind: z.enum(COMMENTABLE_KINDS),
  /** Null for commits, which have no numbers. */
  noteable_id: number,
  noteable_iid: number,
  /** The commit of a comment on a commit. Absent in older events. */
  commit_id: z.string().nullable().optional(),
  /** The position of a comment on a line, as it is now and as it was at first. Absent for other comments. */
  position: z.unknown().optional(),
  original_position: z.unknown().optional(),
  line_code: z.string().nullable().optional(),
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

/** The part of the issue, merge request or commit. An internal comment always stays internal. */
const part = ({ noteable_kind, noteable_id, internal }: NotePayload) => ({
  ...noteablePart(noteable_kind, noteable_id),
  least: internal ? REPORTER : undefined,
});

export const noteCreated = defineEvent('note.created', note, { trigger, body: noteBody('create'), part });
export const noteUpdated = defineEvent<z.output<typeof changed>>('note.updated', changed, {
  trigger,
  body: noteBody('update'),
  part,
});
const resolution = z.object({
  project_id: z.number(),
  merge_request_id: z.number(),
  merge_request_iid: z.number(),
  discussion_id: z.string(),
  /** The comments that were resolved, or are unresolved again. */
  note_ids: z.array(z.number()),
  internal: z.boolean(),
  resolved_by_id: number,
  /** How many threads of the merge request are unresolved now. */
  unresolved_discussions: z.number(),
});

const partOfThread = ({ merge_request_id, internal }: z.output<typeof resolution>) => ({
  ...noteablePart('merge_request', merge_request_id),
  least: internal ? REPORTER : undefined,
});

export const discussionResolved = defineEvent('discussion.resolved', resolution, { part: partOfThread });
export const discussionUnresolved = defineEvent('discussion.unresolved', resolution, { part: partOfThread });

export const noteDeleted = defineEvent('note.deleted', note, { part });
