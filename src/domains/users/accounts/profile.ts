import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, requireValid } from '#platform/errors.ts';
import type { SentFile } from '#platform/files/picture.ts';
import { attributeErrors, columnsOf, type UserAttributes } from '../attributes.ts';
import { storeAvatar } from '../avatar.ts';
import { requireUser } from '../policy.ts';
import type { UserRow } from '../queries.ts';
import { requireConfirmedAddresses } from './own-addresses.ts';
import { lockUser, writeUser } from './write.ts';

/** The attributes that users may change about themselves. */
export type ProfileAttributes = Pick<UserAttributes, (typeof PROFILE_ATTRIBUTES)[number]>;

export const PROFILE_ATTRIBUTES = [
  'name',
  'bio',
  'location',
  'public_email',
  'commit_email',
  'skype',
  'linkedin',
  'twitter',
  'discord',
  'website_url',
  'organization',
  'job_title',
  'pronouns',
  'timezone',
  'private_profile',
  'theme_id',
  'color_scheme_id',
  'view_diffs_file_by_file',
  'preferred_language',
  'first_day_of_week',
] as const;

/**
 * Changes the caller's own profile. Undefined attributes stay unchanged.
 *
 * @throws `unauthenticated`, `invalid` by attribute, `forbidden` for the name when `updating_name_disabled_for_users`
 * is on
 */
export const updateProfile = async (ctx: Context, given: ProfileAttributes): Promise<UserRow> => {
  const id = requireUser(ctx);
  const entries = PROFILE_ATTRIBUTES.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]));
  const changes: ProfileAttributes = Object.fromEntries(entries);
  const settings = await getSettings(ctx);
  const errors = attributeErrors(changes);
  requireValid(errors);
  return ctx.transaction(async (tx) => {
    const before = await lockUser(tx, id);
    const renames = changes.name !== undefined && changes.name !== before.name;
    if (renames && settings.updating_name_disabled_for_users && !ctx.actor.isAdmin) {
      throw forbidden('Only administrators can change names');
    }
    await requireConfirmedAddresses(tx, before, changes);
    return writeUser(tx, before, columnsOf(changes, settings.user_defaults_to_private_profile));
  });
};

/**
 * Sets the caller's picture. Null removes it.
 *
 * @throws `unauthenticated`, `invalid` (avatar) unless the file is a PNG, JPEG, GIF or WebP of at most 200 KiB
 */
export const setAvatar = async (ctx: Context, file: SentFile | null): Promise<UserRow> => {
  const id = requireUser(ctx);
  const avatar_key = file && (await storeAvatar(ctx, file));
  return ctx.transaction(async (tx) => writeUser(tx, await lockUser(tx, id), { avatar_key }));
};
