import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { OWNER } from '#domains/access/model.ts';
import { type Changes, differences } from '#domains/planning/changes.ts';
import type { Context, Tx } from '#platform/context.ts';
import { forbidden, invalid, notFound } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { findDiscussionStart } from './discussions.ts';
import { type NotePayload, noteCreated, noteDeleted, noteUpdated } from './events.ts';
import { type Commentable, noteAudience, noteableType } from './noteable.ts';
import { canDeleteNote, canUpdateNote, requireCreateNote } from './policy.ts';
import { getNote, type NoteRow, noteColumns } from './queries.ts';

export interface NewNote {
  readonly body: string;
  /** For Reporters and above only. A reply inherits the value from its discussion. */
  readonly internal?: boolean | undefined;
  /** The discussion to reply to. */
  readonly discussion_id?: string | undefined;
  /** Starts a discussion. A single comment becomes a discussion with its first reply. */
  readonly begins_discussion?: boolean | undefined;
  /** The position in the files (`positionIn`). A reply has the position of its discussion. */
  readonly position?: NotePosition | null | undefined;
  /** For owners only. */
  readonly created_at?: string | undefined;
}

/** The position in the format of merge request clients. */
export interface NotePosition {
  readonly position_type: 'text';
  readonly base_sha: string | null;
  readonly start_sha: string | null;
  readonly head_sha: string;
  readonly old_path: string;
  readonly new_path: string;
  readonly old_line: number | null;
  readonly new_line: number | null;
}

const MAX_BODY = 1_000_000;

/**
 * Comments on an issue, merge request or commit.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid`, `not_found` (Discussion)
 */
export const createNote = async (ctx: Context, noteable: Commentable, input: NewNote): Promise<NoteRow> => {
  requireCreateNote(ctx, noteable, input.internal ?? false);
  const body = readBody(input.body);
  const { kind, project } = noteable;
  return ctx.transaction(async (tx) => {
    const start = input.discussion_id ? await findDiscussionStart(tx, noteable, input.discussion_id) : null;
    if (input.discussion_id && !start) throw notFound('Discussion');
    if (start && start.type === null) {
      // A reply turns a single comment into a discussion.
      await tx.db.updateTable('notes').set({ type: 'DiscussionNote' }).where('id', '=', start.id).execute();
    }
    const created_at = project.access_level >= OWNER ? input.created_at : undefined;
    const position = start ? start.position : input.position;
    const note = await tx.db
      .insertInto('notes')
      .values({
        project_id: project.id,
        noteable_type: noteableType(kind),
        issue_id: kind === 'issue' ? noteable.id : null,
        merge_request_id: kind === 'merge_request' ? noteable.id : null,
        commit_id: noteable.kind === 'commit' ? noteable.commit.id : null,
        type: start ? (start.type ?? 'DiscussionNote') : typeOf(input),
        position: position == null ? null : JSON.stringify(position),
        note: body,
        author_id: tx.actor.userId,
        confidential: start?.confidential ?? input.internal ?? false,
        discussion_id: start?.discussion_id ?? randomBytes(20).toString('hex'),
        ...(created_at === undefined ? {} : { created_at }),
      })
      .returning(noteColumns)
      .executeTakeFirstOrThrow();
    await touch(tx, noteable);
    tx.emit(noteCreated, { ...(await about(tx, noteable, note)), payload: payloadOf(noteable, note) });
    return note;
  });
};

const typeOf = ({ position, begins_discussion }: NewNote): NoteRow['type'] =>
  position ? 'DiffNote' : begins_discussion ? 'DiscussionNote' : null;

/** Changes the caller's own comment. @throws DomainError `forbidden`, `invalid` */
export const updateNote = async (
  ctx: Context,
  noteable: Commentable,
  given: NoteRow,
  body: string,
): Promise<NoteRow> => {
  if (!canUpdateNote(ctx, noteable.project, given)) throw forbidden();
  const note = readBody(body);
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
    await touch(tx, noteable);
    tx.emit(noteUpdated, {
      ...(await about(tx, noteable, after)),
      payload: { ...payloadOf(noteable, after), changes },
    });
    return after;
  });
};

/** Deletes the caller's own comment; Maintainers can delete any comment. @throws DomainError `forbidden` */
export const deleteNote = async (ctx: Context, noteable: Commentable, given: NoteRow): Promise<void> => {
  if (!canDeleteNote(ctx, noteable.project, given)) throw forbidden();
  await ctx.transaction(async (tx) => {
    const note = await lockNote(tx, noteable, given.id);
    await tx.db.deleteFrom('notes').where('id', '=', note.id).execute();
    await touch(tx, noteable);
    tx.emit(noteDeleted, { ...(await about(tx, noteable, note)), payload: payloadOf(noteable, note) });
  });
};

/** @throws DomainError `invalid` */
const readBody = (body: string): string => {
  if (body.trim() === '') throw invalid({ note: ["can't be blank"] });
  if (body.length > MAX_BODY) throw invalid({ note: [`is too long (maximum is ${MAX_BODY} characters)`] });
  return body;
};

/** A comment updates its issue or merge request. Commits do not change. */
const touch = async (tx: Tx, { kind, id }: Commentable): Promise<void> => {
  if (kind === 'commit') return;
  const table = kind === 'issue' ? 'issues' : 'merge_requests';
  await tx.db.updateTable(table).set({ updated_at: sql`now()` }).where('id', '=', id).execute();
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
  ...(kind === 'commit' ? { commit_id: note.commit_id, position: note.position } : {}),
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
