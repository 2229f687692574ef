import { sql } from 'kysely';
import { getNoteable, getNoteableById, type NoteableKind } from '#domains/notes/noteable.ts';
import { getNote, getNoteById } from '#domains/notes/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import { type Awardable, type AwardableKind, type AwardRow, idOf, kindOf } from './model.ts';

/**
 * Returns the subject of emoji by its number in the project. @throws DomainError `not_found`, `forbidden` as for the
 * subject itself
 */
export const getAwardable = async (
  ctx: Context,
  project: ProjectRow,
  kind: NoteableKind,
  { iid, noteId }: { readonly iid: number; readonly noteId: number | null },
): Promise<Awardable> => {
  const noteable = await getNoteable(ctx, project, kind, iid);
  return { noteable, note: noteId === null ? null : await getNote(ctx, noteable, noteId) };
};

/** Returns the subject by its id. @throws DomainError `not_found`, also if the caller cannot see it */
export const getAwardableById = async (ctx: Context, kind: AwardableKind, id: number): Promise<Awardable> =>
  kind === 'note' ? getNoteById(ctx, id) : { noteable: await getNoteableById(ctx, kind, id), note: null };

/** Lists the emoji of a subject, oldest first. Everyone who can see the subject can see them. */
export const listAwards = (ctx: Pick<Context, 'db'>, awardable: Awardable): List<AwardRow> =>
  listOf(ctx.db, awardsOf(ctx, kindOf(awardable), idOf(awardable)), BY_ID, 'asc');

/** Lists the emoji of many subjects that the caller can see at once. */
export const listAwardsBelow = (ctx: Pick<Context, 'db'>, kind: AwardableKind): BatchedList<AwardRow> =>
  batchedListOf(ctx.db, (id) => awardsOf(ctx, kind, id), BY_ID, 'asc');

/** @throws DomainError `not_found` (Award Emoji) */
export const getAward = async (ctx: Pick<Context, 'db'>, awardable: Awardable, id: number): Promise<AwardRow> => {
  const award = await awardsOf(ctx, kindOf(awardable), idOf(awardable)).where('id', '=', id).executeTakeFirst();
  if (!award) throw notFound('Award Emoji');
  return award;
};

/** Returns the emoji that the user added, or null. */
export const findAwardOf = async (
  ctx: Pick<Context, 'db'>,
  awardable: Awardable,
  { userId, name }: { readonly userId: number | null; readonly name: string },
): Promise<AwardRow | null> =>
  (await awardsOf(ctx, kindOf(awardable), idOf(awardable))
    .where('name', '=', name)
    .where('user_id', '=', userId ?? 0)
    .executeTakeFirst()) ?? null;

const awardsOf = (ctx: Pick<Context, 'db'>, kind: AwardableKind, id: unknown) =>
  ctx.db
    .selectFrom('award_emoji')
    .selectAll('award_emoji')
    .where(sql<boolean>`${sql.ref(`award_emoji.${kind}_id`)} = ${id}`);

const BY_ID: readonly SortKey<AwardRow>[] = [{ by: sql.ref('award_emoji.id'), of: (row) => row.id }];
