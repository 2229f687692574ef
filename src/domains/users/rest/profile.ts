import { z } from 'zod';
import { tooBig } from '#platform/files/picture.ts';
import { boolean, fileUpload, integer, text } from '#rest/params.ts';
import { pictureRoute } from '#rest/picture-route.ts';
import { route } from '#rest/route.ts';
import { setAvatar, updateProfile } from '../accounts/profile.ts';
import { MAX_AVATAR_BYTES, openAvatar } from '../avatar.ts';
import { avatarUrl } from '../model.ts';
import { anyUserRecord, toUserRecordFor } from '../record.ts';

const tag = 'Users';

/** A picture: PNG, JPEG, GIF or WebP of at most 200 KiB. */
export const avatarUpload = fileUpload({ maxBytes: MAX_AVATAR_BYTES, tooLarge: tooBig(MAX_AVATAR_BYTES) });

/** The endpoints for users' own accounts. */
export const profileRoutes = [
  route({
    method: 'PUT',
    path: '/user',
    tag,
    summary: 'Update your profile',
    description: 'The REST form of the mutation `profileUpdate`. Addresses must be confirmed addresses of yours.',
    input: {
      name: text().optional(),
      bio: text().nullish(),
      location: text().nullish(),
      public_email: text().nullish(),
      commit_email: text().nullish(),
      skype: text().nullish(),
      linkedin: text().nullish(),
      twitter: text().nullish(),
      discord: text().nullish(),
      website_url: text().nullish(),
      organization: text().nullish(),
      job_title: text().nullish(),
      pronouns: text().nullish(),
      timezone: text().nullish(),
      private_profile: boolean().optional(),
      theme_id: integer().nullish(),
      color_scheme_id: integer().nullish(),
      view_diffs_file_by_file: boolean().optional(),
      preferred_language: text().optional().describe('Such as `en` or `pt_BR`.'),
      first_day_of_week: integer().optional().describe('0 is Sunday, 1 Monday, 6 Saturday.'),
    },
    response: anyUserRecord,
    run: async (ctx, changes) => toUserRecordFor(ctx, await updateProfile(ctx, changes)),
  }),
  route({
    method: 'PUT',
    path: '/user/avatar',
    tag,
    summary: 'Set your avatar',
    description:
      'A PNG, JPEG, GIF or WebP picture of at most 200 KiB, ideally 192 x 192 pixels. An empty value removes it.',
    input: { avatar: avatarUpload.nullable() },
    response: z.object({ avatar_url: z.string().nullable() }),
    run: async (ctx, { avatar }) => ({ avatar_url: avatarUrl(ctx, await setAvatar(ctx, avatar)) }),
  }),
  pictureRoute({ of: 'user', tag, summary: "Get a user's avatar", open: openAvatar }),
];
