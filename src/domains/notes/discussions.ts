import { sql } from 'kysely';
import { noteIsVisible } from '#domains/planning/visibility.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { badRequest, DomainError, notFound } from '#platform/errors.ts';
import { type Commentable, getNoteableById, type Noteable, type NoteableKind } from './noteable.ts';
import { getNote, type NoteRow, notesOn, readableNotes } from './queries.ts';

/** A discussion: a comment and its replies, oldest first. */
export interface Discussion {
  readonly id: string;
  readonly notes: readonly NoteRow[];
}

/**
 * Lists the discussions that the caller can read by their first comments, oldest first. A system note stands alone. See
 * `completeDiscussions` for a page.
 */
export const listDiscussions = (ctx: Context, noteable: Commentable): List<NoteRow> => {
  const starts = notesOn(ctx, noteable).where(startsDiscussion(ctx));
  return {
    ...listOf(ctx.db, starts, [{ by: sql.ref('notes.id'), of: (row: NoteRow) => row.id }], 'asc'),
    count: async (atMost) => {
      const notes = notesOn(ctx, noteable).clearSelect().select('notes.discussion_id');
      const countOf = async (some: typeof notes) => {
        const { rows } = await sql<{ read: number; count: number }>`
          select count(*) as read, least(count(distinct discussion_id), ${atMost + 1}) as count
          from (${some}) found`.execute(ctx.db);
        return rows[0] ?? { read: 0, count: 0 };
      };
      // The first ones of many thousands often show that there are more than the limit.
      const first = await countOf(notes.orderBy('notes.id').limit(atMost + 1));
      return first.read <= atMost || first.count > atMost ? first.count : (await countOf(notes)).count;
    },
  };
};

/** Requires that the caller can read no earlier comment of the discussion. A page checks its own comments only. */
const startsDiscussion = ({ actor }: Context) =>
  sql<boolean>`not exists (select from notes start where ${inSame} and start.id < notes.id and ${noteIsVisible(actor, 'start')})`;

/** Lists the discussions of many issues or merge requests at once, by their first comments. */
export const listDiscussionsBelow = (ctx: Context, kind: NoteableKind): BatchedList<NoteRow> =>
  batchedListOf(
    ctx.db,
    (parentId) => readableNotes(ctx).where(`notes.${kind}_id`, '=', parentId).where(startsDiscussion(ctx)),
    [{ by: sql.ref('notes.id'), of: (row) => row.id }],
    'asc',
  );

/** Lists the comments of many discussions at once, oldest first. A parent is the id of any comment of a discussion. */
export const listNotesOfDiscussions = (ctx: Context): BatchedList<NoteRow> =>
  batchedListOf(
    ctx.db,
    (noteId) =>
      readableNotes(ctx).where(sql<boolean>`exists (select from notes start where start.id = ${noteId} and ${inSame})`),
    [{ by: sql.ref('notes.id'), of: (row) => row.id }],
    'asc',
  );

/** Imports may bring the same discussion id twice, to different places. */
const inSame = sql<boolean>`start.discussion_id = notes.discussion_id and start.noteable_type = notes.noteable_type
  and start.issue_id is not distinct from notes.issue_id
  and start.merge_request_id is not distinct from notes.merge_request_id
  and start.commit_id is not distinct from notes.commit_id`;

/** Returns the first comment of the discussion of each of these comments, by comment. */
export const discussionStartsByNoteIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, NoteRow>> => {
  const rows = await readableNotes(ctx)
    .innerJoin('notes as start', (join) => join.on(inSame).on(sql<boolean>`start.id = any (${ids}::bigint[])`))
    .select('start.id as of_id')
    .orderBy('notes.id')
    .execute();
  const starts = new Map<number, NoteRow>();
  for (const { of_id, ...row } of rows) if (!starts.has(of_id)) starts.set(of_id, row);
  return starts;
};

/** Whether a discussion can be resolved and is, and by whom. */
export interface Resolution {
  readonly resolvable: boolean;
  readonly resolved: boolean;
  readonly resolved_at: string | null;
  readonly resolved_by_id: number | null;
}

/** Returns the state of the discussions of these comments, by comment. */
export const resolutionsByNoteIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Resolution>> => {
  const { rows } = await sql<{
    of_id: number;
    total: number;
    unresolved: number;
    resolved_at: string | null;
    resolved_by_id: number | null;
  }>`
    select start.id as of_id, count(notes.id) as total,
      count(notes.id) filter (where notes.resolved_at is null) as unresolved,
      max(notes.resolved_at) as resolved_at,
      (array_agg(notes.resolved_by_id order by notes.resolved_at desc nulls last))[1] as resolved_by_id
    from notes start
    left join notes on ${inSame} and not notes.system and notes.type is not null and notes.noteable_type = 'MergeRequest'
    where start.id = any (${ids}::bigint[]) group by start.id`.execute(ctx.db);
  return new Map(
    rows.map(({ of_id, total, unresolved, resolved_at, resolved_by_id }) => {
      const resolved = total > 0 && unresolved === 0;
      return [
        of_id,
        {
          resolvable: total > 0,
          resolved,
          resolved_at: resolved ? resolved_at : null,
          resolved_by_id: resolved ? resolved_by_id : null,
        },
      ];
    }),
  );
};

/**
 * Returns the discussion with this id on an issue or merge request, by its first comment.
 *
 * @throws DomainError `not_found` (Discussion), `bad_request` if imports brought the id to several places that the
 *   caller can see
 */
export const getDiscussionById = async (
  ctx: Context,
  id: string,
): Promise<{ readonly noteable: Noteable; readonly discussion: Discussion }> => {
  const notes = await readableNotes(ctx)
    .where('notes.discussion_id', '=', id)
    .where('notes.noteable_type', 'in', ['Issue', 'MergeRequest'])
    .distinctOn(['notes.issue_id', 'notes.merge_request_id'])
    .orderBy('notes.issue_id')
    .orderBy('notes.merge_request_id')
    .orderBy('notes.id')
    .limit(MAX_PLACES)
    .execute();
  const found: Noteable[] = [];
  for (const { issue_id, merge_request_id } of notes) {
    const kind = issue_id === null ? 'merge_request' : 'issue';
    const noteable = await getNoteableById(ctx, kind, issue_id ?? merge_request_id ?? 0).catch(unlessHidden);
    if (noteable) found.push(noteable);
  }
  const [noteable, another] = found;
  if (!noteable) throw notFound('Discussion');
  if (another) throw badRequest('several discussions have this id: use the REST address of one of them');
  return { noteable, discussion: await getDiscussion(ctx, noteable, id) };
};

const MAX_PLACES = 20;

const unlessHidden = (error: unknown): null => {
  if (error instanceof DomainError && ['not_found', 'forbidden', 'unauthenticated'].includes(error.code)) return null;
  throw error;
};

/** Adds all comments to these discussions, in one statement. */
export const completeDiscussions = async (
  ctx: Context,
  noteable: Commentable,
  starts: readonly NoteRow[],
): Promise<Discussion[]> => {
  if (starts.length === 0) return [];
  const ids = starts.map(({ discussion_id }) => discussion_id);
  // One discussion at a time, because Postgres would read all comments of the issue for several.
  const each = notesOn(ctx, noteable).where(sql<boolean>`notes.discussion_id = d.id`);
  const { rows: notes } = await sql<NoteRow>`
    select notes.* from unnest(${ids}::text[]) d (id) cross join lateral (${each} offset 0) notes
    order by notes.id`.execute(ctx.db);
  const byDiscussion = Map.groupBy(notes, ({ discussion_id }) => discussion_id);
  return ids.map((id) => ({ id, notes: byDiscussion.get(id) ?? [] }));
};

/** @throws DomainError `not_found` (Discussion), also if it belongs to another issue, merge request or commit */
export const getDiscussion = async (ctx: Context, noteable: Commentable, id: string): Promise<Discussion> => {
  const notes = await notesOn(ctx, noteable).where('notes.discussion_id', '=', id).orderBy('notes.id').execute();
  if (notes.length === 0) throw notFound('Discussion');
  return { id, notes };
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

/** Returns the comment that started the discussion, or null if the caller cannot see one. System notes start none. */
export const findDiscussionStart = async (
  ctx: Context,
  noteable: Commentable,
  discussionId: string,
): Promise<NoteRow | null> =>
  (await notesOn(ctx, noteable, { activity: 'only_comments' })
    .where('notes.discussion_id', '=', discussionId)
    .orderBy('notes.id')
    .executeTakeFirst()) ?? null;
