import { type Selectable, sql } from 'kysely';
import { markReview } from '#domains/merge-requests/approving.ts';
import { takeQuickActions } from '#domains/planning/quick-actions.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { DraftNotes } from '#platform/db/tables.ts';
import { badRequest, conflict, forbidden, notFound, requireUnchanged } from '#platform/errors.ts';
import { type PreparedNote, prepareNote, readBody, writeNote } from './commands.ts';
import { findDiscussionStart } from './discussions.ts';
import type { Noteable } from './noteable.ts';
import { requireCreateNote } from './policy.ts';
import { excerptSchema } from './positions/excerpt.ts';
import { type GivenPosition, readPosition } from './positions/model.ts';
import { applyQuickActions, quickActionsIn } from './quick-actions.ts';
import { canResolve, setResolved } from './resolving.ts';
import { placeIn } from './reviewing.ts';

// Draft notes are comments on a merge request that only their author sees, until they publish them.

export type DraftNoteRow = Selectable<DraftNotes>;

export interface DraftText {
  readonly note: string;
  readonly position?: GivenPosition | undefined;
}

export interface NewDraftNote extends DraftText {
  readonly in_reply_to_discussion_id?: string | undefined;
  readonly commit_id?: string | undefined;
  /** For replies: also resolves the thread when published. */
  readonly resolve_discussion?: boolean | undefined;
}

/** The most drafts of one author on one merge request. All of them are published in one transaction. */
const MAX_DRAFTS = 500;

/** Lists the caller's draft notes on a merge request, oldest first. @throws DomainError `unauthenticated` */
export const listDraftNotes = (ctx: Context, noteable: Noteable): List<DraftNoteRow> =>
  listOf(
    ctx.db,
    draftsOf(ctx, noteable),
    [{ by: sql.ref('draft_notes.id'), of: (row: DraftNoteRow) => row.id }],
    'asc',
  );

/** @throws DomainError `unauthenticated`, `not_found` (Draft Note), also for those of other people */
export const getDraftNote = async (ctx: Context, noteable: Noteable, id: number): Promise<DraftNoteRow> => {
  const row = await draftsOf(ctx, noteable).where('id', '=', id).executeTakeFirst();
  if (!row) throw notFound('Draft Note');
  return row;
};

const draftsOf = (ctx: Context, { id }: Noteable) =>
  ctx.db
    .selectFrom('draft_notes')
    .selectAll()
    .where('merge_request_id', '=', id)
    .where('author_id', '=', requireUser(ctx));

/**
 * Stores a comment for later.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid`, `not_found` (Discussion), `bad_request` for a place that
 *   is not in the diff, for too many drafts, or for a quick action that runs only in published comments
 */
export const createDraftNote = async (ctx: Context, noteable: Noteable, input: NewDraftNote): Promise<DraftNoteRow> => {
  requireCreateNote(ctx, noteable, false);
  const author_id = requireUser(ctx);
  const note = await readDraft(ctx, noteable, input.note);
  const discussion_id = input.in_reply_to_discussion_id ?? null;
  if (discussion_id !== null) await requireThread(ctx, noteable, discussion_id);
  if (discussion_id !== null && input.position) throw badRequest('a reply has the position of its discussion');
  const resolve_discussion = input.resolve_discussion ?? false;
  if (resolve_discussion && discussion_id === null) {
    throw badRequest('resolve_discussion requires in_reply_to_discussion_id');
  }
  if (resolve_discussion && !canResolve(ctx, noteable)) throw forbidden();
  const place = await placeIn(ctx, noteable, input);
  return ctx.transaction(async (tx) => {
    // Two requests at once must not both take the last place.
    const key = `millrace:drafts:${noteable.id}:${author_id}`;
    await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(tx.db);
    const { count } = await draftsOf(tx, noteable)
      .clearSelect()
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    if (count >= MAX_DRAFTS) throw badRequest(`at most ${MAX_DRAFTS} draft notes are allowed`);
    const { project, mergeRequest } = noteable;
    if (mergeRequest) await markReview(tx, project, mergeRequest, 'review_started');
    return tx.db
      .insertInto('draft_notes')
      .values({
        merge_request_id: noteable.id,
        author_id,
        discussion_id,
        resolve_discussion,
        note,
        commit_id: input.commit_id ?? null,
        line_code: place?.line_code ?? null,
        position: place ? JSON.stringify(place.position) : null,
        excerpt: place?.excerpt ? JSON.stringify(place.excerpt) : null,
      })
      .returningAll()
      .executeTakeFirstOrThrow();
  });
};

/** Changes a draft note. @throws DomainError as `createDraftNote` */
export const updateDraftNote = async (
  ctx: Context,
  noteable: Noteable,
  draft: DraftNoteRow,
  input: Partial<DraftText>,
): Promise<DraftNoteRow> => {
  requireCreateNote(ctx, noteable, false);
  const note = input.note === undefined ? undefined : await readDraft(ctx, noteable, input.note);
  if (input.position && draft.discussion_id !== null) throw badRequest('a reply has the position of its discussion');
  const place = await placeIn(ctx, noteable, { ...input, commit_id: draft.commit_id ?? undefined });
  const row = await ctx.transaction((tx) =>
    tx.db
      .updateTable('draft_notes')
      .set({
        note,
        updated_at: sql`now()`,
        ...(place
          ? {
              line_code: place.line_code,
              position: JSON.stringify(place.position),
              excerpt: place.excerpt ? JSON.stringify(place.excerpt) : null,
            }
          : {}),
      })
      .where('id', '=', draft.id)
      .returningAll()
      .executeTakeFirst(),
  );
  if (!row) throw notFound('Draft Note');
  return row;
};

/** @throws DomainError `modified` */
export const deleteDraftNote = async (
  ctx: Context,
  draft: DraftNoteRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  await ctx.transaction(async (tx) => {
    const gone = await tx.db
      .deleteFrom('draft_notes')
      .where('id', '=', draft.id)
      .returning('updated_at')
      .executeTakeFirst();
    if (gone) requireUnchanged(gone, unchangedSince);
  });
};

/**
 * Checks the text of a draft. Its quick actions stay in it until it is published.
 *
 * @throws DomainError as `readBody` and `quickActionsIn`, `bad_request` for a command
 */
const readDraft = async (ctx: Context, noteable: Noteable, text: string): Promise<string> => {
  const note = readBody(text);
  const [command] = (await quickActionsIn(ctx, noteable, note))?.commands ?? [];
  if (command) throw badRequest(`the quick action /${command.name} is not allowed in draft notes`);
  return note;
};

/** Turns one draft note into a comment, and runs its quick actions. @throws DomainError as `createNote`, `quickActionsIn` */
export const publishDraftNote = (ctx: Context, noteable: Noteable, draft: DraftNoteRow): Promise<void> =>
  publish(ctx, noteable, [draft], () => draftsOf(ctx, noteable).where('id', '=', draft.id).execute());

/**
 * Turns all of the caller's draft notes into comments, all or none, and runs their quick actions. A reviewer who has given
 * no verdict has then reviewed the merge request.
 *
 * @throws DomainError as `createNote`, `quickActionsIn`
 */
export const publishDraftNotes = async (ctx: Context, noteable: Noteable): Promise<void> => {
  const read = () => draftsOf(ctx, noteable).orderBy('id').limit(MAX_DRAFTS).execute();
  await publish(ctx, noteable, await read(), read, async (tx) => {
    const { project, mergeRequest } = noteable;
    if (mergeRequest) await markReview(tx, project, mergeRequest, 'reviewed');
  });
};

const MAX_ATTEMPTS = 3;

/** Publishes the drafts. If one is changed meanwhile, reads them again, because the change must not be lost. */
const publish = async (
  ctx: Context,
  noteable: Noteable,
  drafts: readonly DraftNoteRow[],
  readAgain: () => Promise<readonly DraftNoteRow[]>,
  after: (tx: Tx) => Promise<void> = async () => undefined,
): Promise<void> => {
  requireCreateNote(ctx, noteable, false);
  let current = drafts;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    if (await publishAsRead(ctx, noteable, current, after)) return;
    current = await readAgain();
  }
  throw conflict('A draft note was changed at the same time; try again');
};

/** Returns false, and publishes nothing, if a draft is no longer as it was read. */
const publishAsRead = async (
  ctx: Context,
  noteable: Noteable,
  drafts: readonly DraftNoteRow[],
  after: (tx: Tx) => Promise<void>,
): Promise<boolean> => {
  const prepared = new Map<number, PreparedNote | null>();
  for (const draft of drafts) {
    const { text, actions } = takeQuickActions(draft.note, 'merge_request');
    // A draft of nothing but quick actions leaves no comment.
    const isText = text !== '' || actions.length === 0;
    prepared.set(draft.id, isText ? await preparedNote(ctx, noteable, { ...draft, note: text }) : null);
  }
  return ctx.transaction(async (tx) => {
    const taken = await take(tx, drafts);
    if (!taken) return false;
    for (const draft of taken) {
      // Read here, because an earlier draft may have changed the people or the caller's rights.
      const quick = await quickActionsIn(tx, noteable, draft.note);
      if (quick) await applyQuickActions(tx, noteable, quick);
      const note = prepared.get(draft.id);
      const discussionId = note ? (await writeNote(tx, noteable, note)).discussion_id : draft.discussion_id;
      if (draft.resolve_discussion && discussionId !== null && canResolve(tx, noteable)) {
        await setResolved(tx, noteable, { discussionIds: [discussionId] }, true);
      }
    }
    await after(tx);
    return true;
  });
};

/**
 * Deletes the drafts, and returns those that were still there: if two requests race, one publishes a draft. Returns null,
 * and deletes none, if one has been changed.
 */
const take = async (tx: Tx, drafts: readonly DraftNoteRow[]): Promise<readonly DraftNoteRow[] | null> => {
  const ids = drafts.map(({ id }) => id);
  const { rows } = await sql<{ id: number; updated_at: string }>`
    select id, updated_at from draft_notes where id = any (${ids}::bigint[]) order by id for update`.execute(tx.db);
  const versions = new Map(rows.map(({ id, updated_at }) => [id, updated_at]));
  const left = drafts.filter(({ id }) => versions.has(id));
  if (left.some(({ id, updated_at }) => versions.get(id) !== updated_at)) return null;
  await sql`delete from draft_notes where id = any (${left.map(({ id }) => id)}::bigint[])`.execute(tx.db);
  return left;
};

const preparedNote = (ctx: Context, noteable: Noteable, draft: DraftNoteRow) => {
  const position = readPosition(draft.position);
  const excerpt = excerptSchema.nullable().parse(draft.excerpt);
  return prepareNote(ctx, noteable, {
    body: draft.note,
    discussion_id: draft.discussion_id ?? undefined,
    begins_discussion: true,
    commit_id: draft.commit_id ?? undefined,
    place: position && { position, line_code: draft.line_code, excerpt },
  });
};

const requireThread = async (ctx: Context, noteable: Noteable, id: string): Promise<void> => {
  if (!(await findDiscussionStart(ctx, noteable, id))) throw notFound('Discussion');
};
