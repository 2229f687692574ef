import { type Selectable, sql } from 'kysely';
import { noteIsVisible } from '#domains/planning/visibility.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type RowsById, type SortKey } from '#platform/db/list.ts';
import type { Notes } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import { type Commentable, getNoteableById, type Noteable, type NoteableKind } from './noteable.ts';
import { noteIsVisibleIn, projectOfNote } from './policy.ts';

/** A comment, without the diff that it refers to. */
export type NoteRow = Omit<Selectable<Notes>, 'st_diff' | 'imported'>;

/** Threads of merge requests can be resolved, single comments and system notes cannot. */
export const isResolvable = (note: Pick<NoteRow, 'noteable_type' | 'type' | 'system'>): boolean =>
  note.noteable_type === 'MergeRequest' && note.type !== null && !note.system;

export const NOTE_ORDERS = ['created_at', 'updated_at'] as const;

export interface NoteFilter {
  readonly order_by?: (typeof NOTE_ORDERS)[number] | undefined;
  readonly sort?: SortDirection | null | undefined;
  /** Comments by users, or system notes. */
  readonly activity?: 'only_comments' | 'only_activity' | null | undefined;
}

/** Lists the comments that the caller can read, newest first by default. */
export const listNotes = (ctx: Context, noteable: Commentable, filter: NoteFilter = {}): List<NoteRow> =>
  listOf(ctx.db, notesOn(ctx, noteable, filter), sortKeys(filter), filter.sort ?? 'desc', notesById(ctx));

/** Lists the comments of many issues or merge requests that the caller can see at once. */
export const listNotesBelow = (ctx: Context, kind: NoteableKind, filter: NoteFilter = {}): BatchedList<NoteRow> =>
  batchedListOf(
    ctx.db,
    (parentId) =>
      withActivity(allNotes(ctx), filter)
        .where(noteIsVisible(ctx.actor, 'notes', projectOfNote(kind)))
        .where(`notes.${kind}_id`, '=', parentId),
    sortKeys(filter),
    filter.sort ?? 'desc',
    { byId: notesById(ctx) },
  );

/** An issue may have thousands of comments. Their index has what the lists check and sort by. */
const notesById = (ctx: Pick<Context, 'db'>): RowsById<NoteRow> => ({
  id: sql.ref('notes.id'),
  rowOf: (id) => allNotes(ctx).where('notes.id', '=', id),
});

/** @throws DomainError `not_found` (Note), also if it is internal and hidden from the caller */
export const getNote = async (ctx: Context, noteable: Commentable, id: number): Promise<NoteRow> => {
  const note = await notesOn(ctx, noteable).where('notes.id', '=', id).executeTakeFirst();
  if (!note) throw notFound('Note');
  return note;
};

/** Returns the comment and its issue or merge request, by the comment's id. @throws DomainError `not_found` */
export const getNoteById = async (ctx: Context, id: number): Promise<{ noteable: Noteable; note: NoteRow }> => {
  const note = await readableNotes(ctx).where('notes.id', '=', id).executeTakeFirst();
  const noteableId = note?.issue_id ?? note?.merge_request_id;
  if (!note || noteableId == null) throw notFound('Note');
  const noteable = await getNoteableById(ctx, note.issue_id === null ? 'merge_request' : 'issue', noteableId);
  return { noteable, note };
};

/** Returns the numbers of these issues or merge requests by their ids. */
export const noteableIidsByIds = async (
  ctx: Pick<Context, 'db'>,
  kind: NoteableKind,
  ids: readonly number[],
): Promise<Map<number, number>> => {
  const rows = await ctx.db
    .selectFrom(kind === 'issue' ? 'issues' : 'merge_requests')
    .select(['id', 'iid'])
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row.iid]));
};

export const noteColumns = [
  'notes.id',
  'notes.project_id',
  'notes.noteable_type',
  'notes.issue_id',
  'notes.merge_request_id',
  'notes.snippet_id',
  'notes.commit_id',
  'notes.type',
  'notes.note',
  'notes.author_id',
  'notes.system',
  'notes.confidential',
  'notes.discussion_id',
  'notes.position',
  'notes.original_position',
  'notes.change_position',
  'notes.line_code',
  'notes.system_note_action',
  'notes.resolved_at',
  'notes.resolved_by_id',
  'notes.updated_by_id',
  'notes.last_edited_at',
  'notes.created_at',
  'notes.updated_at',
] as const;

/** Selects the comments on an issue, merge request or commit. */
export const notesOn = (ctx: Context, noteable: Commentable, filter: NoteFilter = {}) => {
  const query = withActivity(allNotes(ctx), filter).where(noteIsVisibleIn(noteable.project));
  if (noteable.kind !== 'commit') return query.where(`notes.${noteable.kind}_id`, '=', noteable.id);
  return (
    query
      // A literal, because the index is for comments on commits only.
      .where('notes.noteable_type', '=', sql.lit('Commit'))
      .where('notes.project_id', '=', noteable.project.id)
      .where('notes.commit_id', '=', noteable.commit.id)
  );
};

/** Selects the comments that are not internal, or that the caller may read all the same. */
export const readableNotes = (ctx: Context) => allNotes(ctx).where(noteIsVisible(ctx.actor));

const allNotes = ({ db }: Pick<Context, 'db'>) => db.selectFrom('notes').select(noteColumns);

const withActivity = (query: ReturnType<typeof allNotes>, { activity }: NoteFilter) =>
  activity ? query.where('notes.system', '=', activity === 'only_activity') : query;

const sortKeys = ({ order_by = 'created_at' }: NoteFilter): SortKey<NoteRow>[] => [
  { by: sql.ref(`notes.${order_by}`), of: (row) => row[order_by] },
  { by: sql.ref('notes.id'), of: (row) => row.id },
];
