import { z } from 'zod';
import { customAttributesField } from '#domains/custom-attributes/rest.ts';
import type { Context } from '#platform/context.ts';
import { isoDate, isoTime } from '#platform/time.ts';
import { text } from '#rest/params.ts';
import { commitEmail } from './commit-email.ts';
import { avatarUrl, createsGroups, isBot, isLocked, localTime, userWebUrl, workInformation } from './model.ts';
import { type UserView, userView, viewIncludes } from './policy.ts';
import { type UserDetails, type UserRow, type UserSummary, userDetailsByIds, userSummariesByIds } from './queries.ts';

const basic = {
  id: z.int(),
  username: z.string(),
  name: z.string(),
  state: z.string(),
  locked: z.boolean(),
  avatar_url: z.string().nullable(),
  web_url: z.string(),
};

const signedIn = {
  created_at: z.string(),
  bio: z.string(),
  bot: z.boolean(),
  location: z.string().nullable(),
  public_email: z.string(),
  skype: z.string(),
  linkedin: z.string(),
  twitter: z.string(),
  discord: z.string(),
  website_url: z.string(),
  organization: z.string().nullable(),
  job_title: z.string(),
  pronouns: z.string().nullable(),
  work_information: z.string().nullable(),
  followers: z.int(),
  following: z.int(),
  local_time: z.string().nullable(),
  is_followed: z.boolean(),
};

const self = {
  email: z.string(),
  commit_email: z.string(),
  last_sign_in_at: z.string().nullable(),
  current_sign_in_at: z.string().nullable(),
  confirmed_at: z.string().nullable(),
  last_activity_on: z.string().nullable(),
  theme_id: z.int().nullable(),
  color_scheme_id: z.int().nullable(),
  projects_limit: z.int(),
  identities: z.array(
    z.object({ provider: z.string(), extern_uid: z.string(), saml_provider_id: z.int().nullable().optional() }),
  ),
  can_create_group: z.boolean(),
  can_create_project: z.boolean(),
  two_factor_enabled: z.boolean(),
  external: z.boolean(),
  private_profile: z.boolean(),
  view_diffs_file_by_file: z.boolean(),
  preferred_language: z.string(),
  first_day_of_week: z.int(),
  namespace_id: z.int().nullable(),
  shared_runners_minutes_limit: z.int().nullable(),
  extra_shared_runners_minutes_limit: z.int().nullable(),
  scim_identities: z.array(z.object({ extern_uid: z.string(), group_id: z.int(), active: z.boolean() })),
};

/** A user inside another record: author, assignee, member. */
export const userBasicRecord = z.object(basic).meta({ id: 'UserBasic' });

/** A user as signed-in callers see one. */
const userRecord = z.object({ ...basic, ...signedIn }).meta({ id: 'User' });

/** The caller. */
export const currentUserRecord = z.object({ ...basic, ...signedIn, ...self }).meta({ id: 'CurrentUser' });

/** A user as administrators see one. */
export const userAdministratorRecord = z
  .object({
    ...basic,
    ...signedIn,
    ...self,
    is_admin: z.boolean(),
    is_auditor: z.boolean(),
    note: z.string().nullable(),
    current_sign_in_ip: z.string().nullable(),
    last_sign_in_ip: z.string().nullable(),
    sign_in_count: z.int(),
    plan: z.string().nullable(),
    trial: z.boolean(),
    using_license_seat: z.boolean(),
    created_by: userBasicRecord.nullable(),
    email_reset_offered_at: z.string().nullable(),
    provisioned_by_group_id: z.int().nullable(),
    /** Present only when requested. */
    custom_attributes: customAttributesField,
  })
  .meta({ id: 'UserForAdministrator' });

/** A user in any of the views. */
export const anyUserRecord = z.union([userAdministratorRecord, currentUserRecord, userRecord, userBasicRecord]);

export type UserBasicRecord = z.output<typeof userBasicRecord>;
type UserRecord = z.output<typeof userRecord>;
type CurrentUserRecord = z.output<typeof currentUserRecord>;
type UserAdministratorRecord = z.output<typeof userAdministratorRecord>;
type AnyUserRecord = z.output<typeof anyUserRecord>;

/** Returns the user object for use inside other records. */
export const toUserBasic = (ctx: Pick<Context, 'services' | 'clock'>, user: UserSummary): UserBasicRecord => ({
  id: user.id,
  username: user.username,
  name: user.name,
  state: user.state,
  locked: isLocked(ctx, user),
  avatar_url: avatarUrl(ctx, user),
  web_url: userWebUrl(ctx, user),
});

/** Returns the user objects for use inside other records, by id. Ids may repeat. Nobody (null) has no entry. */
export const userBasicsByIds = async (
  ctx: Context,
  ids: readonly (number | null)[],
): Promise<ReadonlyMap<number | null, UserBasicRecord>> => {
  const users = await userSummariesByIds(ctx, ids);
  return new Map([...users].map(([id, user]) => [id, toUserBasic(ctx, user)]));
};

/** Returns the users' records. Each has the view `view`, or less where the caller may see less. */
export const toUserRecords = async (
  ctx: Context,
  users: readonly UserRow[],
  atMost: UserView = 'administrator',
): Promise<AnyUserRecord[]> => {
  const viewOf = (user: UserRow) => {
    const view = userView(ctx.actor, user);
    return view === 'administrator' || viewIncludes(atMost, view) ? view : atMost;
  };
  const wanted = users.filter((user) => viewOf(user) !== 'public');
  const creators = wanted.flatMap((user) => (viewOf(user) === 'administrator' ? (user.created_by_id ?? []) : []));
  const [details, summaries] = await Promise.all([
    userDetailsByIds(
      ctx,
      wanted.map((user) => user.id),
    ),
    userSummariesByIds(ctx, creators),
  ]);
  const record = (user: UserRow): AnyUserRecord | Promise<AnyUserRecord> => {
    const view = viewOf(user);
    const more = details.get(user.id);
    // A user without details was deleted in the meantime.
    if (view === 'public' || !more) return toUserBasic(ctx, user);
    if (view === 'signed_in') return toUserRecord(ctx, user, more);
    if (view === 'self') return toCurrentUserRecord(ctx, user, more);
    const creator = user.created_by_id === null ? undefined : summaries.get(user.created_by_id);
    return toAdministratorRecord(ctx, user, more, creator);
  };
  return Promise.all(users.map(record));
};

/** Returns the record of one user, as the caller may see it. */
export const toUserRecordFor = async (ctx: Context, user: UserRow): Promise<AnyUserRecord> =>
  (await toUserRecords(ctx, [user]))[0] ?? toUserBasic(ctx, user);

const toUserRecord = (ctx: Context, user: UserRow, details: UserDetails): UserRecord => ({
  ...toUserBasic(ctx, user),
  created_at: isoTime(user.created_at),
  bio: user.bio,
  bot: isBot(user),
  location: user.location,
  public_email: user.public_email,
  skype: user.skype,
  linkedin: user.linkedin,
  twitter: user.twitter,
  discord: user.discord,
  website_url: user.website_url,
  organization: user.organization,
  job_title: user.job_title,
  pronouns: user.pronouns,
  work_information: workInformation(user),
  followers: details.followers,
  following: details.following,
  local_time: localTime(ctx, user),
  is_followed: details.is_followed,
});

const toCurrentUserRecord = async (ctx: Context, user: UserRow, details: UserDetails): Promise<CurrentUserRecord> => ({
  ...toUserRecord(ctx, user, details),
  email: user.email,
  commit_email: await commitEmail(ctx, user),
  last_sign_in_at: isoTime(user.last_sign_in_at),
  current_sign_in_at: isoTime(user.current_sign_in_at),
  confirmed_at: isoTime(user.confirmed_at),
  last_activity_on: isoDate(user.last_activity_on),
  theme_id: user.theme_id,
  color_scheme_id: user.color_scheme_id,
  projects_limit: user.projects_limit,
  identities: details.identities.map(({ provider, extern_uid, saml_provider_id }) =>
    provider === 'group_saml' ? { provider, extern_uid, saml_provider_id } : { provider, extern_uid },
  ),
  can_create_group: createsGroups(user),
  can_create_project: details.personal_projects < user.projects_limit,
  two_factor_enabled: user.two_factor_enabled,
  external: user.external,
  private_profile: user.private_profile,
  view_diffs_file_by_file: user.view_diffs_file_by_file,
  preferred_language: user.preferred_language,
  first_day_of_week: user.first_day_of_week,
  namespace_id: details.namespace_id,
  shared_runners_minutes_limit: user.shared_runners_minutes_limit,
  extra_shared_runners_minutes_limit: user.extra_shared_runners_minutes_limit,
  scim_identities: [...details.scim_identities],
});

const toAdministratorRecord = async (
  ctx: Context,
  user: UserRow,
  details: UserDetails,
  creator: UserSummary | undefined,
): Promise<UserAdministratorRecord> => ({
  ...(await toCurrentUserRecord(ctx, user, details)),
  is_admin: user.is_admin,
  is_auditor: user.is_auditor,
  note: user.note,
  current_sign_in_ip: user.current_sign_in_ip,
  last_sign_in_ip: user.last_sign_in_ip,
  sign_in_count: user.sign_in_count,
  // The hub has no plans or trials, and every user who may sign in takes a seat.
  plan: null,
  trial: false,
  using_license_seat: user.state === 'active' && user.user_type === 'human',
  created_by: creator ? toUserBasic(ctx, creator) : null,
  email_reset_offered_at: isoTime(user.email_reset_offered_at),
  provisioned_by_group_id: user.provisioned_by_group_id,
});

/** The extra parameter for OAuth applications that change how somebody signs in. */
export const currentPassword = () =>
  text({ max: 128 })
    .optional()
    .describe(
      'The password of the user who authorised the application. Required from OAuth applications, and with credentials that they created. Send it in the body, not in the query.',
    );
