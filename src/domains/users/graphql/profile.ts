import { mutationField } from '#graphql/mutation.ts';
import { updateProfile } from '../accounts/profile.ts';
import { UserRef } from '../graphql.ts';

mutationField('profileUpdate', {
  description:
    "Changes the caller's own profile. Attributes that are not given stay unchanged. Addresses must be confirmed addresses of the caller. Upload pictures over REST.",
  input: (t) => ({
    name: t.string(),
    bio: t.string(),
    location: t.string(),
    publicEmail: t.string(),
    commitEmail: t.string(),
    skype: t.string(),
    linkedin: t.string(),
    twitter: t.string(),
    discord: t.string(),
    websiteUrl: t.string(),
    organization: t.string(),
    jobTitle: t.string(),
    pronouns: t.string(),
    timezone: t.string(),
    privateProfile: t.boolean(),
    themeId: t.int(),
    colorSchemeId: t.int(),
    viewDiffsFileByFile: t.boolean(),
  }),
  payload: { user: UserRef },
  run: async (ctx, input) => ({
    user: await updateProfile(ctx, {
      name: input.name ?? undefined,
      bio: input.bio,
      location: input.location,
      public_email: input.publicEmail,
      commit_email: input.commitEmail,
      skype: input.skype,
      linkedin: input.linkedin,
      twitter: input.twitter,
      discord: input.discord,
      website_url: input.websiteUrl,
      organization: input.organization,
      job_title: input.jobTitle,
      pronouns: input.pronouns,
      timezone: input.timezone,
      private_profile: input.privateProfile ?? undefined,
      theme_id: input.themeId,
      color_scheme_id: input.colorSchemeId,
      view_diffs_file_by_file: input.viewDiffsFileByFile ?? undefined,
    }),
  }),
});
