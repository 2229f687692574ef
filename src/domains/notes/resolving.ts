import { sql } from 'kysely';
import { mergeRequestChecked, mergeRequestUpdated } from '#domains/merge-requests/events.ts';
import { IS_UNRESOLVED } from '#domains/merge-requests/mergeability.ts';
import { getMergeRequest } from '#domains/merge-requests/queries.ts';
import { emitMergeRequest } from '#domains/merge-requests/snapshot.ts';
import { recordSystemNote } from '#domains/planning/system-notes.ts';
import { can } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, forbidden } from '#platform/errors.ts';
import { type Discussion, getDiscussion } from './discussions.ts';
import { discussionResolved, discussionUnresolved } from './events.ts';
import { type Commentable, type Noteable, noteAudience } from './noteable.ts';
import { getNote, isResolvable, type NoteRow } from './queries.ts';

/** Developers and the author of the merge request resolve threads. */
export const canResolve = (
  ctx: Context,
  { project, mergeRequest }: Pick<Noteable, 'project' | 'mergeRequest'>,
): boolean =>
  mergeRequest !== null &&
  (can(ctx, project, 'admin_merge_request') ||
    (mergeRequest.author_id !== null &&
      mergeRequest.author_id === ctx.actor.userId &&
      can(ctx, project, 'create_note')));

/**
 * Resolves all comments of a thread, or makes them unresolved.
 *
 * @throws DomainError `not_found` (Discussion), `forbidden`, `bad_request` for a single comment
 */
export const resolveDiscussion = async (
  ctx: Context,
  noteable: Noteable,
  id: string,
  resolved: boolean,
): Promise<Discussion> => {
  const { notes } = await getDiscussion(ctx, noteable, id);
  if (!canResolve(ctx, noteable)) throw forbidden();
  if (!notes.some(isResolvable)) throw badRequest('The discussion is not resolvable');
  await ctx.transaction((tx) => setResolved(tx, noteable, { discussionIds: [id] }, resolved));
  return getDiscussion(ctx, noteable, id);
};

/** The same for one comment of a thread. @throws DomainError `forbidden`, `bad_request` for a single comment */
export const resolveNote = async (
  ctx: Context,
  noteable: Noteable,
  note: NoteRow,
  resolved: boolean,
): Promise<NoteRow> => {
  if (!canResolve(ctx, noteable)) throw forbidden();
  if (!isResolvable(note)) throw badRequest('The comment is not resolvable');
  await ctx.transaction((tx) => setResolved(tx, noteable, { noteId: note.id }, resolved));
  return getNote(ctx, noteable, note.id);
};

type Wanted = { readonly discussionIds: readonly string[] } | { readonly noteId: number };

/** Resolves threads of a merge request in this transaction, by the acting user. Repeating it changes nothing. */
export const setResolved = async (tx: Tx, noteable: Noteable, wanted: Wanted, resolved: boolean): Promise<void> => {
  const { id, project } = noteable;
  // If two people resolve the last two threads, the second must see that none is left.
  await tx.db.selectFrom('merge_requests').select('id').where('id', '=', id).forUpdate().execute();
  const before = await unresolvedCount(tx, id);
  const rows = await tx.db
    .updateTable('notes')
    .set(
      resolved
        ? { resolved_at: sql`now()`, resolved_by_id: tx.actor.userId }
        : { resolved_at: null, resolved_by_id: null },
    )
    .where('merge_request_id', '=', id)
    .where('system', '=', false)
    .where('type', 'is not', null)
    .where('resolved_at', resolved ? 'is' : 'is not', null)
    .where('noteId' in wanted ? sql<boolean>`id = ${wanted.noteId}` : ofDiscussions(wanted.discussionIds))
    .returning(['id', 'discussion_id', 'confidential'])
    .execute();
  if (rows.length === 0) return;
  const after = await unresolvedCount(tx, id);
  for (const [discussion_id, notes] of Map.groupBy(rows, (row) => row.discussion_id)) {
    const isInternal = notes.some(({ confidential }) => confidential);
    tx.emit(resolved ? discussionResolved : discussionUnresolved, {
      ...(await noteAudience(tx, noteable, isInternal)),
      subject: { type: 'MergeRequest', id },
      payload: {
        project_id: project.id,
        merge_request_id: id,
        merge_request_iid: noteable.iid,
        discussion_id,
        note_ids: notes.map((note) => note.id),
        internal: isInternal,
        resolved_by_id: resolved ? tx.actor.userId : null,
        unresolved_discussions: after,
      },
    });
  }
  if (resolved && before > 0 && after === 0) {
    await recordSystemNote(tx, { merge_request_id: id }, 'discussion', 'resolved all threads');
    // Receivers of hooks get it as an update (reference: webhooks §3).
    await emitMergeRequest(tx, mergeRequestUpdated, project, await getMergeRequest(tx, project, noteable.iid), {});
  }
  await emitStatus(tx, noteable, before, after);
};

const ofDiscussions = (ids: readonly string[]) => sql<boolean>`discussion_id = any (${ids}::text[])`;

/** Returns how many threads of the merge request are unresolved. */
const unresolvedCount = async ({ db }: Pick<Context, 'db'>, id: number): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    select count(distinct discussion_id) as count from notes
    where merge_request_id = ${id} and ${IS_UNRESOLVED}`.execute(db);
  return rows[0]?.count ?? 0;
};

/**
 * Runs a change to the threads of a merge request. Emits `merge_request.checked` if the change opened the first
 * unresolved thread or removed the last one, and the project demands that all threads are resolved.
 */
export const withStatus = async <T>(tx: Tx, noteable: Commentable, change: () => Promise<T>): Promise<T> => {
  const { project, mergeRequest } = noteable;
  if (!mergeRequest || !project.only_allow_merge_if_all_discussions_are_resolved) return change();
  const before = await unresolvedCount(tx, mergeRequest.id);
  const result = await change();
  const after = await unresolvedCount(tx, mergeRequest.id);
  await emitStatus(tx, noteable, before, after);
  return result;
};

const emitStatus = async (tx: Tx, { project, mergeRequest }: Commentable, before: number, after: number) => {
  if (!mergeRequest || (before === 0) === (after === 0)) return;
  if (!project.only_allow_merge_if_all_discussions_are_resolved) return;
  const row = await getMergeRequest(tx, project, mergeRequest.iid);
  if (row.state === 'opened') await emitMergeRequest(tx, mergeRequestChecked, project, row, {});
};

/** Returns true if the thread has comments to resolve, and all of them are resolved. */
export const isResolved = async (tx: Pick<Tx, 'db'>, noteable: Noteable, discussionId: string): Promise<boolean> => {
  const { resolvable, unresolved } = await tx.db
    .selectFrom('notes')
    .select(({ fn }) => [
      fn.countAll<number>().as('resolvable'),
      fn.countAll<number>().filterWhere('resolved_at', 'is', null).as('unresolved'),
    ])
    .where('merge_request_id', '=', noteable.id)
    .where('discussion_id', '=', discussionId)
    .where('system', '=', false)
    .where('type', 'is not', null)
    .executeTakeFirstOrThrow();
  return resolvable > 0 && unresolved === 0;
};
