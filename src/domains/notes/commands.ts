import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { OWNER } from '#domains/access/model.ts';
import type { MergeRequestRow } from '#domains/merge-requests/queries.ts';
import { type Changes, differences } from '#domains/planning/changes.ts';
import type { Context, Tx } from '#platform/context.ts';
import { forbidden, invalid, notFound, requireUnchanged, tooLong } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { findDiscussionStart } from './discussions.ts';
import { type NotePayload, noteCreated, noteDeleted, noteUpdated } from './events.ts';
import { followVersion } from './following.ts';
import { type Commentable, noteAudience, noteableType } from './noteable.ts';
import { canDeleteNote, canUpdateNote, requireCreateNote } from './policy.ts';
import { readPosition } from './positions/model.ts';
import type { PlacedPosition } from './positions/place.ts';
import { getNote, type NoteRow, noteColumns } from './queries.ts';
import { isResolved, withStatus } from './resolving.ts';
import { type NewSuggestion, setSuggestions, suggestionsIn } from './suggestions/queries.ts';

export interface NewNote {
  readonly body: string;
  /** For Reporters and above only. A reply inherits the value from its discussion. */
  readonly internal?: boolean | undefined;
  /** The discussion to reply to. */
  readonly discussion_id?: string | undefined;
  /** Starts a discussion. A single comment becomes a discussion with its first reply. */
  readonly begins_discussion?: boolean | undefined;
  /** The place in the files (`placePosition`). A reply has the place of its discussion. */
  readonly place?: PlacedPosition | null | undefined;
  /** The commit of a merge request that the comment is on. */
  readonly commit_id?: string | undefined;
  /** For owners only. */
  readonly created_at?: string | undefined;
}

/** A comment that has been checked, with the suggestions in it. */
export interface PreparedNote extends NewNote {
  readonly suggestions: readonly NewSuggestion[];
}

const MAX_BODY = 1_000_000;

/**
 * Comments on an issue, merge request or commit.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid`, `not_found` (Discussion)
 */
export const createNote = async (ctx: Context, noteable: Commentable, input: NewNote): Promise<NoteRow> => {
  const prepared = await prepareNote(ctx, noteable, input);
  return ctx.transaction((tx) => writeNote(tx, noteable, prepared));
};

/** Checks a comment, and reads what it needs of the repository. @throws DomainError as `createNote` */
export const prepareNote = async (ctx: Context, noteable: Commentable, input: NewNote): Promise<PreparedNote> => {
  requireCreateNote(ctx, noteable, input.internal ?? false);
  const body = readBody(input.body);
  const start = input.discussion_id ? await findDiscussionStart(ctx, noteable, input.discussion_id) : null;
  if (input.discussion_id && !start) throw notFound('Discussion');
  const position = start ? start.position : input.place?.position;
  return { ...input, body, suggestions: await suggestionsIn(ctx, noteable, body, position) };
};

/** Writes a comment with its event. */
export const writeNote = async (tx: Tx, noteable: Commentable, input: PreparedNote): Promise<NoteRow> => {
  const { kind, project, mergeRequest } = noteable;
  const start = input.discussion_id ? await findDiscussionStart(tx, noteable, input.discussion_id) : null;
  if (input.discussion_id && !start) throw notFound('Discussion');
  // A reply leaves a resolved thread resolved.
  const isDone = start !== null && kind === 'merge_request' && (await isResolved(tx, noteable, start.discussion_id));
  const created_at = project.access_level >= OWNER ? input.created_at : undefined;
  const place = start ?? input.place;
  const json = (value: unknown) => (value == null ? null : JSON.stringify(value));
  const insert = tx.db
    .insertInto('notes')
    .values({
      project_id: project.id,
      noteable_type: noteableType(kind),
      issue_id: kind === 'issue' ? noteable.id : null,
      merge_request_id: kind === 'merge_request' ? noteable.id : null,
      commit_id: noteable.kind === 'commit' ? noteable.commit.id : (start?.commit_id ?? input.commit_id ?? null),
      type: start ? (start.type ?? 'DiscussionNote') : typeOf(input),
      position: json(place?.position),
      original_position: json(start ? start.original_position : place?.position),
      change_position: json(start?.change_position),
      line_code: place?.line_code ?? null,
      st_diff: json(start ? null : input.place?.excerpt),
      note: input.body,
      author_id: tx.actor.userId,
      confidential: start?.confidential ?? input.internal ?? false,
      discussion_id: start?.discussion_id ?? randomBytes(20).toString('hex'),
      ...(isDone ? { resolved_at: sql`now()`, resolved_by_id: tx.actor.userId } : {}),
      ...(created_at === undefined ? {} : { created_at }),
    })
    .returning(noteColumns);
  const note = await withStatus(tx, noteable, async () => {
    if (start && start.type === null) {
      // A reply turns a single comment into a discussion.
      await tx.db.updateTable('notes').set({ type: 'DiscussionNote' }).where('id', '=', start.id).execute();
    }
    return insert.executeTakeFirstOrThrow();
  });
  await setSuggestions(tx, note.id, input.suggestions, true);
  const now = await touch(tx, noteable);
  tx.emit(noteCreated, { ...(await about(tx, now, note)), payload: payloadOf(now, note) });
  if (mergeRequest) followLater(tx, mergeRequest, note);
  return note;
};

const typeOf = ({ place, begins_discussion }: NewNote): NoteRow['type'] =>
  place ? 'DiffNote' : begins_discussion ? 'DiscussionNote' : null;

/** A comment on an older version moves to the newest one. */
const followLater = (tx: Tx, { id, diff_head_sha }: MergeRequestRow, note: NoteRow): void => {
  const position = note.commit_id === null ? readPosition(note.position) : null;
  if (!position || position.head_sha === diff_head_sha) return;
  tx.enqueue(followVersion, { merge_request_id: id }, { key: `notes.follow_version:${id}` });
};

/** Changes the caller's own comment. @throws DomainError `forbidden`, `invalid` */
export const updateNote = async (
  ctx: Context,
  noteable: Commentable,
  given: NoteRow,
  body: string,
): Promise<NoteRow> => {
  if (!canUpdateNote(ctx, noteable.project, given)) throw forbidden();
  const note = readBody(body);
  const suggestions = await suggestionsIn(ctx, noteable, note, given.position);
  return ctx.transaction(async (tx) => {
    const before = await lockNote(tx, noteable, given.id);
    const changes: Changes = differences({ ...before }, { note });
    if (Object.keys(changes).length === 0) return before;
    const after = await tx.db
      .updateTable('notes')
      .set({ note, updated_at: sql`now()`, last_edited_at: sql`now()`, updated_by_id: tx.actor.userId })
      .where('id', '=', before.id)
      .returning(noteColumns)
      .executeTakeFirstOrThrow();
    await setSuggestions(tx, before.id, suggestions);
    const now = await touch(tx, noteable);
    tx.emit(noteUpdated, {
      ...(await about(tx, now, after)),
      payload: { ...payloadOf(now, after), changes },
    });
    return after;
  });
};

/** Deletes the caller's own comment; Maintainers can delete any comment. @throws DomainError `forbidden`, `modified` */
export const deleteNote = async (
  ctx: Context,
  noteable: Commentable,
  given: NoteRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  if (!canDeleteNote(ctx, noteable.project, given)) throw forbidden();
  await ctx.transaction(async (tx) => {
    const note = await lockNote(tx, noteable, given.id);
    requireUnchanged(note, unchangedSince);
    await withStatus(tx, noteable, () => tx.db.deleteFrom('notes').where('id', '=', note.id).execute());
    const now = await touch(tx, noteable);
    tx.emit(noteDeleted, { ...(await about(tx, now, note)), payload: payloadOf(now, note) });
  });
};

/** Checks the text of a comment. @throws DomainError `invalid` */
export const readBody = (body: string): string => {
  if (body.trim() === '') throw invalid({ note: ["can't be blank"] });
  if (isLongerThan(body, MAX_BODY)) throw invalid({ note: [tooLong(MAX_BODY)] });
  return body;
};

/**
 * Updates the issue or merge request of a comment, and returns it as it is now. An issue may have become confidential
 * since it was read, also by a quick action of the comment. Commits do not change.
 */
const touch = async (tx: Tx, noteable: Commentable): Promise<Commentable> => {
  if (noteable.kind === 'commit') return noteable;
  const { id, issue } = noteable;
  const updated_at = sql<string>`now()`;
  if (!issue) {
    await tx.db.updateTable('merge_requests').set({ updated_at }).where('id', '=', id).execute();
    return noteable;
  }
  const row = await tx.db
    .updateTable('issues')
    .set({ updated_at })
    .where('id', '=', id)
    .returning('confidential')
    .executeTakeFirst();
  return row ? { ...noteable, issue: { ...issue, ...row } } : noteable;
};

const lockNote = async (tx: Tx, noteable: Commentable, id: number): Promise<NoteRow> => {
  await tx.db.selectFrom('notes').select('id').where('id', '=', id).forUpdate().execute();
  return getNote(tx, noteable, id);
};

const about = async (tx: Tx, noteable: Commentable, note: NoteRow) => ({
  ...(await noteAudience(tx, noteable, note.confidential)),
  subject: { type: 'Note', id: note.id },
});

/** Returns the comment as event payload. */
export const payloadOf = ({ kind, id, iid, issue }: Commentable, note: NoteRow): NotePayload => ({
  id: note.id,
  project_id: note.project_id,
  noteable_kind: kind,
  noteable_id: id,
  noteable_iid: iid,
  ...(note.commit_id === null ? {} : { commit_id: note.commit_id }),
  ...(kind === 'commit' || note.position !== null
    ? { position: note.position, original_position: note.original_position, line_code: note.line_code }
    : {}),
  is_confidential: note.confidential || (issue?.confidential ?? false),
  internal: note.confidential,
  note: note.note,
  type: note.type,
  discussion_id: note.discussion_id,
  author_id: note.author_id,
  updated_by_id: note.updated_by_id,
  resolved_at: isoTime(note.resolved_at),
  resolved_by_id: note.resolved_by_id,
  created_at: isoTime(note.created_at),
  updated_at: isoTime(note.updated_at),
});
