import { builder, type InputFields } from '#graphql/builder.ts';
import { gid } from '#graphql/ids.ts';
import { type Loader, loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { commitEmail } from './commit-email.ts';
import {
  avatarUrl,
  createsGroups,
  isBot,
  isLocked,
  localTime,
  USER_STATES,
  USER_TYPES,
  type UserType,
  userWebUrl,
  workInformation,
} from './model.ts';
import { type UserView, userView, viewIncludes } from './policy.ts';
import {
  type Identity,
  type UserDetails,
  type UserRow,
  type UserSummary,
  userDetailsByIds,
  userSummariesByIds,
  usersByIds,
} from './queries.ts';

/** The parent value of a user type: a summary is enough, the rest is loaded on demand. */
export type UserNode = UserSummary | UserRow;

/** Loads the summary of a user by id, or null. Batches concurrent loads. */
export const loadUser: Loader<number, UserSummary> = loader(userSummariesByIds);

/** Loads the full row. */
export const loadRow = loader(usersByIds);
const loadDetails = loader(userDetailsByIds);

const UserStateEnum = builder.enumType('UserState', { values: USER_STATES });

const UserTypeEnum = builder.enumType('UserType', {
  values: {
    HUMAN: { value: 'human' },
    PROJECT_BOT: { value: 'project_bot' },
    SERVICE_ACCOUNT: { value: 'service_account' },
    GHOST: { value: 'ghost' },
    SUPPORT_BOT: { value: 'support_bot' },
  } as const satisfies Record<string, { value: UserType }>,
});

const UserPermissions = builder.objectRef<UserNode>('UserPermissions').implement({
  description: 'What the caller may do with the user.',
  fields: (t) => ({
    createSnippet: t.boolean({
      nullable: false,
      description: 'Always false: snippets are not supported yet.',
      resolve: () => false,
    }),
    readUserProfile: t.boolean({
      nullable: false,
      description: 'Whether the caller may see the profile.',
      resolve: async (user, _args, ctx) => (await seen(ctx, user, 'signed_in', () => true)) ?? false,
    }),
    followUser: t.boolean({
      nullable: false,
      resolve: async (user, _args, ctx) =>
        (await seen(ctx, user, 'signed_in', () => ctx.actor.userId !== user.id)) ?? false,
    }),
    adminUser: t.boolean({
      nullable: false,
      description: 'Whether the caller may change the account, and its state.',
      resolve: (_user, _args, ctx) => ctx.actor.isAdmin,
    }),
  }),
});

const UserIdentity = builder.objectRef<Identity>('UserIdentity').implement({
  fields: (t) => ({
    provider: t.exposeString('provider', { nullable: false }),
    externUid: t.exposeString('extern_uid', { nullable: false }),
    samlProviderId: t.exposeInt('saml_provider_id', { nullable: true }),
  }),
});

const UserScimIdentity = builder.objectRef<UserDetails['scim_identities'][number]>('UserScimIdentity').implement({
  fields: (t) => ({
    externUid: t.exposeString('extern_uid', { nullable: false }),
    groupId: t.exposeInt('group_id', { nullable: false }),
    active: t.exposeBoolean('active', { nullable: false }),
  }),
});

const wholeRow = (ctx: Context, user: UserNode): UserRow | Promise<UserRow | null> =>
  'email' in user ? user : loadRow(ctx, user.id);

/** Returns a value of the user's row, or null when the caller's view does not include it. */
export const seen = async <T>(
  ctx: Context,
  user: UserNode,
  least: UserView,
  of: (row: UserRow) => T | Promise<T>,
): Promise<T | null> => {
  const row = await wholeRow(ctx, user);
  return row && viewIncludes(userView(ctx.actor, row), least) ? of(row) : null;
};

/** The same for values from other tables. */
const seenDetail = async <T>(
  ctx: Context,
  user: UserNode,
  least: UserView,
  of: (details: UserDetails, row: UserRow) => T,
): Promise<T | null> => {
  const row = await seen(ctx, user, least, (each) => each);
  const details = row && (await loadDetails(ctx, user.id));
  return row && details ? of(details, row) : null;
};

/** A user. Downstream domains add to it with `builder.interfaceField(UserRef, ...)`. */
export const UserRef = builder.interfaceRef<UserNode>('User');

builder.interfaceType(UserRef, {
  description: 'A person or bot. Fields that the caller may not see are null.',
  // Every user is a UserCore, except in `currentUser`, which is a CurrentUser.
  resolveType: () => 'UserCore',
  fields: (t) => {
    const text = (least: UserView, of: (row: UserRow) => string | null) =>
      t.string({ nullable: true, resolve: (user, _args, ctx) => seen(ctx, user, least, of) });
    const flag = (least: UserView, of: (row: UserRow) => boolean) =>
      t.boolean({ nullable: true, resolve: (user, _args, ctx) => seen(ctx, user, least, of) });
    const number = (least: UserView, of: (row: UserRow) => number | null) =>
      t.int({ nullable: true, resolve: (user, _args, ctx) => seen(ctx, user, least, of) });
    const time = (least: UserView, of: (row: UserRow) => string | null) =>
      t.field({ type: 'Time', nullable: true, resolve: (user, _args, ctx) => seen(ctx, user, least, of) });
    return {
      id: t.id({ nullable: false, resolve: (user) => gid('User', user.id) }),
      username: t.exposeString('username', { nullable: false }),
      name: t.exposeString('name', { nullable: false }),
      state: t.field({
        type: UserStateEnum,
        nullable: false,
        resolve: (user) => USER_STATES.find((state) => state === user.state) ?? 'blocked',
      }),
      active: t.boolean({ nullable: false, resolve: (user) => user.state === 'active' }),
      locked: t.boolean({ nullable: false, resolve: (user, _args, ctx) => isLocked(ctx, user) }),
      bot: t.boolean({
        nullable: false,
        resolve: async (user, _args, ctx) => {
          const row = await wholeRow(ctx, user);
          return row !== null && isBot(row);
        },
      }),
      human: t.boolean({
        nullable: true,
        resolve: async (user, _args, ctx) => (await wholeRow(ctx, user))?.user_type === 'human',
      }),
      type: t.field({
        type: UserTypeEnum,
        nullable: false,
        resolve: async (user, _args, ctx) => {
          const row = await wholeRow(ctx, user);
          return USER_TYPES.find((type) => type === row?.user_type) ?? 'human';
        },
      }),
      webUrl: t.string({ nullable: false, resolve: (user, _args, ctx) => userWebUrl(ctx, user) }),
      webPath: t.string({ nullable: false, resolve: (user) => `/${user.username}` }),
      avatarUrl: t.string({ nullable: true, resolve: (user, _args, ctx) => avatarUrl(ctx, user) }),
      publicEmail: text('signed_in', (row) => row.public_email),
      createdAt: time('signed_in', (row) => row.created_at),
      bio: text('signed_in', (row) => row.bio),
      location: text('signed_in', (row) => row.location),
      organization: text('signed_in', (row) => row.organization),
      jobTitle: text('signed_in', (row) => row.job_title),
      pronouns: text('signed_in', (row) => row.pronouns),
      skype: text('signed_in', (row) => row.skype),
      linkedin: text('signed_in', (row) => row.linkedin),
      twitter: text('signed_in', (row) => row.twitter),
      discord: text('signed_in', (row) => row.discord),
      websiteUrl: text('signed_in', (row) => row.website_url),
      workInformation: text('signed_in', workInformation),
      localTime: t.string({
        nullable: true,
        resolve: (user, _args, ctx) => seen(ctx, user, 'signed_in', (row) => localTime(ctx, row)),
      }),
      followersCount: t.int({
        nullable: true,
        resolve: (user, _args, ctx) => seenDetail(ctx, user, 'signed_in', (details) => details.followers),
      }),
      followingCount: t.int({
        nullable: true,
        resolve: (user, _args, ctx) => seenDetail(ctx, user, 'signed_in', (details) => details.following),
      }),
      isFollowed: t.boolean({
        nullable: true,
        description: 'Whether the caller follows the user.',
        resolve: (user, _args, ctx) => seenDetail(ctx, user, 'signed_in', (details) => details.is_followed),
      }),
      email: text('self', (row) => row.email),
      commitEmail: t.string({
        nullable: true,
        resolve: (user, _args, ctx) => seen(ctx, user, 'self', (row) => commitEmail(ctx, row)),
      }),
      lastActivityOn: t.field({
        type: 'Date',
        nullable: true,
        resolve: (user, _args, ctx) => seen(ctx, user, 'self', (row) => row.last_activity_on),
      }),
      confirmedAt: time('self', (row) => row.confirmed_at),
      termsAcceptedAt: time('self', (row) => row.terms_accepted_at),
      currentSignInAt: time('self', (row) => row.current_sign_in_at),
      lastSignInAt: time('self', (row) => row.last_sign_in_at),
      external: flag('self', (row) => row.external),
      privateProfile: flag('self', (row) => row.private_profile),
      twoFactorEnabled: flag('self', (row) => row.two_factor_enabled),
      viewDiffsFileByFile: flag('self', (row) => row.view_diffs_file_by_file),
      themeId: number('self', (row) => row.theme_id),
      colorSchemeId: number('self', (row) => row.color_scheme_id),
      projectsLimit: number('self', (row) => row.projects_limit),
      timezone: text('self', (row) => row.timezone),
      preferredLanguage: text('self', (row) => row.preferred_language),
      firstDayOfWeek: number('self', (row) => row.first_day_of_week),
      canCreateGroup: flag('self', createsGroups),
      canCreateProject: t.boolean({
        nullable: true,
        resolve: (user, _args, ctx) =>
          seenDetail(ctx, user, 'self', (details, row) => details.personal_projects < row.projects_limit),
      }),
      identities: t.field({
        type: [UserIdentity],
        nullable: true,
        resolve: (user, _args, ctx) => seenDetail(ctx, user, 'self', (details) => details.identities),
      }),
      scimIdentities: t.field({
        type: [UserScimIdentity],
        nullable: true,
        resolve: (user, _args, ctx) => seenDetail(ctx, user, 'self', (details) => details.scim_identities),
      }),
      sharedRunnersMinutesLimit: number('self', (row) => row.shared_runners_minutes_limit),
      extraSharedRunnersMinutesLimit: number('self', (row) => row.extra_shared_runners_minutes_limit),
      admin: flag('administrator', (row) => row.is_admin),
      auditor: flag('administrator', (row) => row.is_auditor),
      note: text('administrator', (row) => row.note),
      emailResetOfferedAt: time('administrator', (row) => row.email_reset_offered_at),
      provisionedByGroupId: number('administrator', (row) => row.provisioned_by_group_id),
      signInCount: number('administrator', (row) => row.sign_in_count),
      currentSignInIp: text('administrator', (row) => row.current_sign_in_ip),
      lastSignInIp: text('administrator', (row) => row.last_sign_in_ip),
      createdBy: t.field({
        type: UserRef,
        nullable: true,
        resolve: async (user, _args, ctx) => {
          const id = await seen(ctx, user, 'administrator', (row) => row.created_by_id);
          return id === null ? null : loadUser(ctx, id);
        },
      }),
      userPermissions: t.field({ type: UserPermissions, nullable: false, resolve: (user) => user }),
    };
  },
});

builder.objectType(builder.objectRef<UserNode>('UserCore'), { name: 'UserCore', interfaces: [UserRef] });

/** The caller. Downstream domains add fields for the caller only with `builder.objectField(CurrentUserRef, ...)`. */
export const CurrentUserRef = builder.objectRef<UserNode>('CurrentUser');
builder.objectType(CurrentUserRef, { name: 'CurrentUser', description: 'The caller.', interfaces: [UserRef] });

export const UserConnection = builder.connectionObject({ type: UserRef, name: 'UserConnection' }, { name: 'UserEdge' });

/** The extra input for OAuth applications that change how somebody signs in. */
export const currentPassword = (t: InputFields) =>
  t.string({
    description:
      'The password of the user who authorised the application. Required from OAuth applications, and with credentials that they created.',
  });
