import { z } from 'zod';
import {
  customAttributeRoutes,
  customAttributesFilter,
  withCustomAttributes,
  withCustomAttributesFlag,
} from '#domains/custom-attributes/rest.ts';
import { DomainError } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { allOrNoneOf, boolean, dateTime, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { changedInV5 } from '#rest/v5.ts';
import { deleteIdentity } from './accounts/identities.ts';
import { createUser, deleteUser, updateUser } from './commands.ts';
import { AUDITOR } from './model.ts';
import { getCurrentUser, getUser, listUsers, USER_ORDERS } from './queries.ts';
import {
  anyUserRecord,
  currentPassword,
  currentUserRecord,
  toUserRecordFor,
  toUserRecords,
  userAdministratorRecord,
} from './record.ts';
import { activityRoutes } from './rest/activities.ts';
import { emailRoutes } from './rest/emails.ts';
import { followRoutes } from './rest/follows.ts';
import { avatarUpload, profileRoutes } from './rest/profile.ts';
import { stateRoutes } from './rest/states.ts';

const tag = 'Users';
const READ_SCOPES = ['api', 'read_api', 'read_user'] as const;

/** The attributes that administrators may set, at creation and later. */
const attributes = {
  admin: boolean().optional(),
  auditor: boolean().optional().describe(AUDITOR),
  avatar: avatarUpload.nullish(),
  bio: text().nullish(),
  can_create_group: boolean().optional(),
  color_scheme_id: integer().nullish(),
  commit_email: text().nullish(),
  discord: text().nullish(),
  external: boolean().optional(),
  extern_uid: text().optional(),
  extra_shared_runners_minutes_limit: integer().nullish(),
  first_day_of_week: integer().optional().describe('0 is Sunday, 1 Monday, 6 Saturday.'),
  group_id_for_saml: integer().optional(),
  job_title: text().nullish(),
  linkedin: text().nullish(),
  location: text().nullish(),
  note: text().nullish(),
  organization: text().nullish(),
  preferred_language: text().optional().describe('Such as `en` or `pt_BR`.'),
  private_profile: changedInV5(boolean().nullish(), {
    note: 'must be true or false, not null',
    to: boolean().optional(),
  }),
  projects_limit: integer().optional(),
  pronouns: text().nullish(),
  provider: text().optional(),
  public_email: text().nullish(),
  shared_runners_minutes_limit: integer().nullish(),
  skype: text().nullish(),
  theme_id: integer().nullish(),
  twitter: text().nullish(),
  view_diffs_file_by_file: boolean().optional(),
  website_url: text().nullish(),
};

export const routes = [
  listRoute({
    path: '/users',
    tag,
    summary: 'List users',
    description:
      'Administrators see every field, other callers the public ones. Anonymous callers must give `username`. Only administrators can use `admins` and the filters after it.',
    auth: 'optional',
    scopes: READ_SCOPES,
    input: {
      username: text().optional(),
      search: text({ max: 255 }).optional(),
      active: boolean().default(false),
      blocked: boolean().default(false),
      external: boolean().default(false),
      exclude_external: boolean().default(false),
      exclude_internal: boolean().default(false),
      humans: boolean().default(false),
      without_project_bots: boolean().default(false),
      created_after: dateTime().optional(),
      created_before: dateTime().optional(),
      order_by: oneOf(USER_ORDERS).default('id'),
      sort: oneOf(['asc', 'desc']).default('desc'),
      admins: boolean().default(false),
      auditors: boolean().default(false),
      pending_approval: boolean().default(false),
      two_factor: oneOf(['enabled', 'disabled']).optional(),
      without_projects: boolean().default(false),
      provider: text().optional(),
      extern_uid: text().optional(),
      saml_provider_id: integer().optional(),
      skip_ldap: boolean().default(false),
      custom_attributes: customAttributesFilter.optional(),
      with_custom_attributes: withCustomAttributesFlag,
    },
    rules: [allOrNoneOf('extern_uid', 'provider')],
    paging: {
      keyset: { id: 'integer', name: 'text', username: 'text', created_at: 'time', updated_at: 'time' },
      shallowOffset: true,
    },
    item: anyUserRecord,
    run: async (ctx, { with_custom_attributes, ...filter }, page) => {
      const { items, ...rest } = await readPage(listUsers(ctx, filter), page);
      const records = await toUserRecords(ctx, items, 'public');
      return { ...rest, items: await withCustomAttributes(ctx, 'users', records, with_custom_attributes) };
    },
  }),
  route({
    method: 'GET',
    path: '/users/:id',
    tag,
    summary: 'Get a user',
    scopes: READ_SCOPES,
    input: { id: integer({ min: 0 }), with_custom_attributes: withCustomAttributesFlag },
    response: anyUserRecord,
    run: async (ctx, { id, with_custom_attributes }) => {
      const whole = await toUserRecordFor(ctx, await getUser(ctx, id));
      const [record = whole] = await withCustomAttributes(ctx, 'users', [whole], with_custom_attributes);
      return record;
    },
  }),
  route({
    method: 'GET',
    path: '/user',
    tag,
    summary: 'Get the current user',
    scopes: READ_SCOPES,
    response: z.union([userAdministratorRecord, currentUserRecord, anyUserRecord]),
    run: async (ctx) => toUserRecordFor(ctx, await getCurrentUser(ctx)),
  }),
  route({
    method: 'POST',
    path: '/users',
    tag,
    summary: 'Create a user',
    description:
      'Give one of `password`, `reset_password` and `force_random_password`. The address is mailed a confirmation link, unless `skip_confirmation` is on.',
    admin: true,
    input: {
      email: text(),
      name: text(),
      username: text(),
      password: text().optional(),
      reset_password: boolean().optional(),
      force_random_password: boolean().optional(),
      skip_confirmation: boolean().optional(),
      current_password: currentPassword(),
      ...attributes,
    },
    response: anyUserRecord,
    run: async (ctx, input) => toUserRecordFor(ctx, await createUser(ctx, input)),
  }),
  route({
    method: 'PUT',
    path: '/users/:id',
    tag,
    summary: 'Update a user',
    description: 'Invalid values and conflicts answer 404 with the reason (specification 2 §4.1).',
    admin: true,
    input: {
      id: integer({ min: 0 }),
      email: text().optional(),
      name: text().optional(),
      username: text().optional(),
      password: text().optional(),
      skip_reconfirmation: boolean().optional(),
      current_password: currentPassword(),
      ...attributes,
    },
    response: anyUserRecord,
    run: async (ctx, { id, ...changes }) => toUserRecordFor(ctx, await failingAsNotFound(updateUser(ctx, id, changes))),
  }),
  route({
    method: 'DELETE',
    path: '/users/:id',
    tag,
    summary: 'Delete a user',
    description:
      "The user's contributions move to the ghost user. With `hard_delete` they are deleted, and so are the groups that nobody else owns. Without it, 409 while the user is the only owner of a group.",
    admin: true,
    refusals: MODIFIED,
    input: { id: integer({ min: 0 }), hard_delete: boolean().default(false), current_password: currentPassword() },
    response: null,
    run: (ctx, { id, hard_delete, ...proof }, http) =>
      deleteUser(ctx, id, { hardDelete: hard_delete, unchangedSince: unmodifiedSince(http), ...proof }),
  }),
  route({
    method: 'DELETE',
    path: '/users/:id/identities/:provider',
    tag,
    summary: "Delete a user's identity at a provider",
    admin: true,
    input: { id: integer({ min: 0 }), provider: text(), current_password: currentPassword() },
    response: null,
    run: (ctx, { id, provider, ...proof }) => deleteIdentity(ctx, id, provider, proof),
  }),
  ...customAttributeRoutes('users', integer({ min: 0 }), getUser),
  ...profileRoutes,
  ...stateRoutes,
  ...followRoutes,
  ...emailRoutes,
  ...activityRoutes,
];

/** Turns every failure of an update into the 404 that the specification asks for. */
const failingAsNotFound = async <T>(updated: Promise<T>): Promise<T> => {
  try {
    return await updated;
  } catch (error) {
    const refused = error instanceof DomainError && (error.code === 'invalid' || error.code === 'conflict');
    throw refused ? new DomainError('not_found', error.message) : error;
  }
};
