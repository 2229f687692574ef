import type { InputFields } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { deleteIdentity } from '../accounts/identities.ts';
import { createUser, deleteUser, updateUser } from '../commands.ts';
import { currentPassword, UserRef } from '../graphql.ts';
import { AUDITOR } from '../model.ts';
import { getUser } from '../queries.ts';

/** The attributes that administrators may set, at creation and later. */
const attributeFields = (t: InputFields) => ({
  admin: t.boolean(),
  auditor: t.boolean({ description: AUDITOR }),
  bio: t.string(),
  canCreateGroup: t.boolean(),
  colorSchemeId: t.int(),
  commitEmail: t.string(),
  discord: t.string(),
  external: t.boolean(),
  externUid: t.string(),
  extraSharedRunnersMinutesLimit: t.int(),
  firstDayOfWeek: t.int({ description: '0 is Sunday, 1 Monday, 6 Saturday.' }),
  groupIdForSaml: t.int(),
  jobTitle: t.string(),
  linkedin: t.string(),
  location: t.string(),
  note: t.string(),
  organization: t.string(),
  preferredLanguage: t.string({ description: 'Such as `en` or `pt_BR`.' }),
  privateProfile: t.boolean(),
  projectsLimit: t.int(),
  pronouns: t.string(),
  provider: t.string(),
  publicEmail: t.string(),
  sharedRunnersMinutesLimit: t.int(),
  skype: t.string(),
  themeId: t.int(),
  twitter: t.string(),
  viewDiffsFileByFile: t.boolean(),
  websiteUrl: t.string(),
});

interface AttributesInput {
  admin?: boolean | null;
  auditor?: boolean | null;
  bio?: string | null;
  canCreateGroup?: boolean | null;
  colorSchemeId?: number | null;
  commitEmail?: string | null;
  discord?: string | null;
  external?: boolean | null;
  externUid?: string | null;
  extraSharedRunnersMinutesLimit?: number | null;
  firstDayOfWeek?: number | null;
  groupIdForSaml?: number | null;
  jobTitle?: string | null;
  linkedin?: string | null;
  location?: string | null;
  note?: string | null;
  organization?: string | null;
  preferredLanguage?: string | null;
  privateProfile?: boolean | null;
  projectsLimit?: number | null;
  pronouns?: string | null;
  provider?: string | null;
  publicEmail?: string | null;
  sharedRunnersMinutesLimit?: number | null;
  skype?: string | null;
  themeId?: number | null;
  twitter?: string | null;
  viewDiffsFileByFile?: boolean | null;
  websiteUrl?: string | null;
}

const attributesOf = (input: AttributesInput) => ({
  admin: input.admin ?? undefined,
  auditor: input.auditor ?? undefined,
  bio: input.bio,
  can_create_group: input.canCreateGroup ?? undefined,
  color_scheme_id: input.colorSchemeId,
  commit_email: input.commitEmail,
  discord: input.discord,
  external: input.external ?? undefined,
  extern_uid: input.externUid ?? undefined,
  extra_shared_runners_minutes_limit: input.extraSharedRunnersMinutesLimit,
  first_day_of_week: input.firstDayOfWeek ?? undefined,
  group_id_for_saml: input.groupIdForSaml ?? undefined,
  job_title: input.jobTitle,
  linkedin: input.linkedin,
  location: input.location,
  note: input.note,
  organization: input.organization,
  preferred_language: input.preferredLanguage ?? undefined,
  private_profile: input.privateProfile,
  projects_limit: input.projectsLimit ?? undefined,
  pronouns: input.pronouns,
  provider: input.provider ?? undefined,
  public_email: input.publicEmail,
  shared_runners_minutes_limit: input.sharedRunnersMinutesLimit,
  skype: input.skype,
  theme_id: input.themeId,
  twitter: input.twitter,
  view_diffs_file_by_file: input.viewDiffsFileByFile ?? undefined,
  website_url: input.websiteUrl,
});

mutationField('userCreate', {
  description: 'Creates a user. Administrators only.',
  input: (t) => ({
    email: t.string({ required: true }),
    name: t.string({ required: true }),
    username: t.string({ required: true }),
    password: t.string(),
    resetPassword: t.boolean(),
    forceRandomPassword: t.boolean(),
    skipConfirmation: t.boolean(),
    currentPassword: currentPassword(t),
    ...attributeFields(t),
  }),
  payload: { user: UserRef },
  run: async (ctx, input) => ({
    user: await createUser(ctx, {
      ...attributesOf(input),
      email: input.email,
      name: input.name,
      username: input.username,
      password: input.password ?? undefined,
      reset_password: input.resetPassword ?? undefined,
      force_random_password: input.forceRandomPassword ?? undefined,
      skip_confirmation: input.skipConfirmation ?? undefined,
      current_password: input.currentPassword ?? undefined,
    }),
  }),
});

mutationField('userUpdate', {
  description: 'Changes a user. Administrators only.',
  input: (t) => ({
    id: t.field({ type: 'UserID', required: true }),
    email: t.string(),
    name: t.string(),
    username: t.string(),
    password: t.string(),
    skipReconfirmation: t.boolean(),
    currentPassword: currentPassword(t),
    ...attributeFields(t),
  }),
  payload: { user: UserRef },
  run: async (ctx, input) => ({
    user: await updateUser(ctx, input.id, {
      ...attributesOf(input),
      email: input.email ?? undefined,
      name: input.name ?? undefined,
      username: input.username ?? undefined,
      password: input.password ?? undefined,
      skip_reconfirmation: input.skipReconfirmation ?? undefined,
      current_password: input.currentPassword ?? undefined,
    }),
  }),
});

mutationField('userDelete', {
  description:
    'Removes a user with the personal namespace and its projects. Their contributions elsewhere move to the ghost user. With `hardDelete` they are deleted, and so are the groups that nobody else owns. Administrators only.',
  input: (t) => ({
    id: t.field({ type: 'UserID', required: true }),
    hardDelete: t.boolean(),
    currentPassword: currentPassword(t),
  }),
  payload: {},
  run: async (ctx, { id, hardDelete, currentPassword: current_password }) => {
    const proof = { current_password: current_password ?? undefined };
    await deleteUser(ctx, id, { hardDelete: hardDelete ?? false, ...proof });
    return {};
  },
});

mutationField('userIdentityDelete', {
  description: "Removes the user's identity at a provider. Administrators only.",
  input: (t) => ({
    userId: t.field({ type: 'UserID', required: true }),
    provider: t.string({ required: true }),
    currentPassword: currentPassword(t),
  }),
  payload: { user: UserRef },
  run: async (ctx, { userId, provider, currentPassword: current_password }) => {
    await deleteIdentity(ctx, userId, provider, { current_password: current_password ?? undefined });
    return { user: await getUser(ctx, userId) };
  },
});
