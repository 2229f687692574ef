import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { Commentable } from './noteable.ts';
import { getNote, type NoteRow, notesOn } from './queries.ts';

/** A discussion: a comment and its replies, oldest first. */
export interface Discussion {
  readonly id: string;
  readonly notes: readonly NoteRow[];
}

/**
 * Lists the discussions that the caller can read by their first comments, oldest first. See `completeDiscussions` for a
 * page.
 */
export const listDiscussions = (ctx: Context, noteable: Commentable): List<NoteRow> => {
  const ids = notesOn(ctx, noteable, { activity: 'only_comments' })
    .clearSelect()
    .select(({ fn }) => fn.min('notes.id').as('id'))
    .groupBy('notes.discussion_id');
  const starts = notesOn(ctx, noteable).where('notes.id', 'in', ids);
  return listOf(ctx.db, starts, [{ by: sql.ref('notes.id'), of: (row: NoteRow) => row.id }], 'asc');
};

/** Adds all comments to these discussions, in one statement. */
export const completeDiscussions = async (
  ctx: Context,
  noteable: Commentable,
  starts: readonly NoteRow[],
): Promise<Discussion[]> => {
  if (starts.length === 0) return [];
  const ids = starts.map(({ discussion_id }) => discussion_id);
  const notes = await notesOn(ctx, noteable).where('notes.discussion_id', 'in', ids).orderBy('notes.id').execute();
  const byDiscussion = Map.groupBy(notes, ({ discussion_id }) => discussion_id);
  return ids.map((id) => ({ id, notes: byDiscussion.get(id) ?? [] }));
};

/** @throws DomainError `not_found` (Discussion), also if it belongs to another issue, merge request or commit */
export const getDiscussion = async (ctx: Context, noteable: Commentable, id: string): Promise<Discussion> => {
  const start = await findDiscussionStart(ctx, noteable, id);
  if (!start) throw notFound('Discussion');
  const [discussion] = await completeDiscussions(ctx, noteable, [start]);
  return discussion ?? { id, notes: [start] };
};

/** Returns a comment of the discussion. @throws DomainError `not_found` (Note) */
export const getNoteIn = async (
  ctx: Context,
  noteable: Commentable,
  discussionId: string,
  noteId: number,
): Promise<NoteRow> => {
  const note = await getNote(ctx, noteable, noteId);
  if (note.discussion_id !== discussionId) throw notFound('Note');
  return note;
};

/** Returns the first comment of the discussion, or null if the caller cannot see one. */
export const findDiscussionStart = async (
  ctx: Context,
  noteable: Commentable,
  discussionId: string,
): Promise<NoteRow | null> =>
  (await notesOn(ctx, noteable, { activity: 'only_comments' })
    .where('notes.discussion_id', '=', discussionId)
    .orderBy('notes.id')
    .executeTakeFirst()) ?? null;
