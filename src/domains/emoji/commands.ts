import pg from 'pg';
import { noteAudience } from '#domains/notes/noteable.ts';
import { requireCreateNote } from '#domains/notes/policy.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { requireUser } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, forbidden, invalid, notFound, requireUnchanged } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { awardEmojiCreated, awardEmojiRemoved } from './events.ts';
import { type Awardable, type AwardRow, emojiName, idOf, kindOf } from './model.ts';
import { findAwardOf, getAward } from './queries.ts';

/**
 * Adds an emoji. Everyone who can comment can add one. System notes do not accept emoji.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid` (name), `conflict` if the caller has already added it
 */
export const addAward = async (ctx: Context, awardable: Awardable, given: string): Promise<AwardRow> => {
  const user_id = requireUser(ctx);
  requireAward(ctx, awardable);
  const name = readName(given);
  try {
    return await ctx.transaction(async (tx) => {
      const row = await tx.db
        .insertInto('award_emoji')
        .values({ [`${kindOf(awardable)}_id`]: idOf(awardable), user_id, name })
        .returningAll()
        .executeTakeFirstOrThrow();
      tx.emit(awardEmojiCreated, await about(tx, awardable, row));
      return row;
    });
  } catch (error) {
    const isTwice = error instanceof pg.DatabaseError && error.code === '23505';
    throw isTwice ? conflict('Name has already been taken') : error;
  }
};

/** Removes the caller's own emoji; administrators can remove any. @throws DomainError `not_found`, `forbidden`, `modified` */
export const removeAward = async (
  ctx: Context,
  awardable: Awardable,
  id: number,
  unchangedSince: Date | null = null,
): Promise<AwardRow> => {
  const award = await getAward(ctx, awardable, id);
  if (!ctx.actor.isAdmin && award.user_id !== requireUser(ctx)) throw forbidden();
  requireAbility(ctx, awardable.noteable.project, 'create_note');
  return ctx.transaction(async (tx) => {
    const gone = await tx.db.deleteFrom('award_emoji').where('id', '=', id).returningAll().executeTakeFirst();
    if (!gone) throw notFound('Award Emoji');
    requireUnchanged(gone, unchangedSince);
    tx.emit(awardEmojiRemoved, await about(tx, awardable, gone));
    return gone;
  });
};

/** Removes the caller's own emoji by name. @throws DomainError as `removeAward` */
export const removeOwnAward = async (ctx: Context, awardable: Awardable, given: string): Promise<AwardRow> => {
  const name = readName(given);
  const own = await findAwardOf(ctx, awardable, { userId: requireUser(ctx), name });
  if (!own) throw notFound('Award Emoji');
  return removeAward(ctx, awardable, own.id);
};

/**
 * Adds an emoji, or removes it and returns null if the caller has already added it. @throws DomainError as `addAward`
 */
export const toggleAward = async (ctx: Context, awardable: Awardable, given: string): Promise<AwardRow | null> => {
  const name = readName(given);
  const own = await findAwardOf(ctx, awardable, { userId: requireUser(ctx), name });
  if (!own) return addAward(ctx, awardable, name);
  await removeAward(ctx, awardable, own.id);
  return null;
};

const requireAward = (ctx: Context, { noteable, note }: Awardable): void => {
  if (note?.system) throw notFound('Award Emoji');
  requireCreateNote(ctx, noteable, note?.confidential ?? false);
};

const readName = (given: string): string => {
  const name = emojiName(given);
  if (name === null) throw invalid({ name: ['is not a valid emoji name'] });
  return name;
};

const about = async (tx: Tx, awardable: Awardable, award: AwardRow) => {
  const { noteable, note } = awardable;
  return {
    ...(await noteAudience(tx, noteable, note?.confidential ?? false)),
    subject: { type: 'AwardEmoji', id: award.id },
    payload: {
      id: award.id,
      name: award.name,
      user_id: award.user_id,
      project_id: noteable.project.id,
      awardable_kind: kindOf(awardable),
      awardable_id: idOf(awardable),
      noteable: { kind: noteable.kind, id: noteable.id },
      internal: note?.confidential === true,
      is_confidential: note?.confidential === true || noteable.issue?.confidential === true,
      created_at: isoTime(award.created_at),
      updated_at: isoTime(award.updated_at),
    },
  };
};
