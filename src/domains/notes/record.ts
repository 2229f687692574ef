import { z } from 'zod';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { commentedLine } from './commits.ts';
import type { Discussion } from './discussions.ts';
import type { Commentable } from './noteable.ts';
import { isResolvable, type NoteRow } from './queries.ts';
import { suggestionRecord, suggestionRecords } from './suggestions/record.ts';

export const noteRecord = z
  .object({
    id: z.int(),
    type: z.string().nullable(),
    body: z.string(),
    attachment: z.null(),
    author: userBasicRecord.nullable(),
    created_at: z.string(),
    updated_at: z.string(),
    system: z.boolean(),
    noteable_id: z.int().nullable(),
    noteable_type: z.string(),
    noteable_iid: z.int().nullable(),
    project_id: z.int(),
    discussion_id: z.string(),
    resolvable: z.boolean(),
    resolved: z.boolean(),
    resolved_by: userBasicRecord.nullable(),
    resolved_at: z.string().nullable(),
    confidential: z.boolean(),
    internal: z.boolean(),
    commit_id: z.string().nullable(),
    /** Only of comments on a diff, because strict clients refuse null. */
    position: z.unknown().optional(),
    suggestions: z.array(suggestionRecord),
    /** The changes by the quick actions of a new comment. Empty later. */
    commands_changes: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'Note' });

/** The answer to a comment that was nothing but quick actions. */
export const quickActionsRecord = z
  .object({ commands_changes: z.record(z.string(), z.unknown()), summary: z.array(z.string()) })
  .meta({ id: 'QuickActions' });

export const toQuickActions = (changes: object): z.output<typeof quickActionsRecord> => ({
  commands_changes: { ...changes },
  summary: ['Commands applied'],
});

/** Returns the records of comments on one issue, merge request or commit. Commits have no number. */
export const toNotes = async (
  ctx: Context,
  noteable: Commentable,
  notes: readonly NoteRow[],
): Promise<z.output<typeof noteRecord>[]> => {
  const people = await userBasicsByIds(
    ctx,
    notes.flatMap((note) => [note.author_id, note.resolved_by_id]),
  );
  const suggestions = await suggestionRecords(ctx, noteable, notes);
  return notes.map((note) => ({
    id: note.id,
    type: note.type,
    body: note.note,
    attachment: null,
    author: people.get(note.author_id) ?? null,
    created_at: isoTime(note.created_at),
    updated_at: isoTime(note.updated_at),
    system: note.system,
    noteable_id: noteable.id,
    noteable_type: note.noteable_type,
    noteable_iid: noteable.iid,
    project_id: note.project_id,
    discussion_id: note.discussion_id,
    resolvable: isResolvable(note),
    resolved: note.resolved_at !== null,
    resolved_by: people.get(note.resolved_by_id) ?? null,
    resolved_at: isoTime(note.resolved_at),
    confidential: note.confidential,
    internal: note.confidential,
    commit_id: note.commit_id,
    ...(note.position === null ? {} : { position: note.position }),
    suggestions: suggestions.get(note.id) ?? [],
    commands_changes: {},
  }));
};

export const toNote = async (
  ctx: Context,
  noteable: Commentable,
  note: NoteRow,
  changes: object = {},
): Promise<z.output<typeof noteRecord>> => {
  const [record] = await toNotes(ctx, noteable, [note]);
  if (!record) throw notFound('Note');
  return { ...record, commands_changes: { ...changes } };
};

export const discussionRecord = z
  .object({ id: z.string(), individual_note: z.boolean(), notes: z.array(noteRecord) })
  .meta({ id: 'Discussion' });

/** Returns the records of discussions on the same subject. Reads all users at once. */
export const toDiscussions = async (
  ctx: Context,
  noteable: Commentable,
  discussions: readonly Discussion[],
): Promise<z.output<typeof discussionRecord>[]> => {
  const notes = await toNotes(
    ctx,
    noteable,
    discussions.flatMap((each) => each.notes),
  );
  const byDiscussion = Map.groupBy(notes, ({ discussion_id }) => discussion_id);
  return discussions.map(({ id, notes: [start] }) => ({
    id,
    individual_note: start?.type === null,
    notes: byDiscussion.get(id) ?? [],
  }));
};

export const toDiscussion = async (
  ctx: Context,
  noteable: Commentable,
  discussion: Discussion,
): Promise<z.output<typeof discussionRecord>> => {
  const [record] = await toDiscussions(ctx, noteable, [discussion]);
  if (!record) throw notFound('Discussion');
  return record;
};

export const commitCommentRecord = z
  .object({
    note: z.string(),
    path: z.string().nullable(),
    line: z.int().nullable(),
    line_type: z.enum(['new', 'old']).nullable(),
    author: userBasicRecord.nullable(),
    created_at: z.string(),
  })
  .meta({ id: 'CommitComment' });

/** Returns the records of comments on a commit. */
export const toCommitComments = async (
  ctx: Context,
  notes: readonly NoteRow[],
): Promise<z.output<typeof commitCommentRecord>[]> => {
  const authors = await userBasicsByIds(
    ctx,
    notes.map(({ author_id }) => author_id),
  );
  return notes.map((note) => {
    const on = commentedLine(note);
    return {
      note: note.note,
      path: on?.path ?? null,
      line: on?.line ?? null,
      line_type: on?.line_type ?? null,
      author: authors.get(note.author_id) ?? null,
      created_at: isoTime(note.created_at),
    };
  });
};
