import { z } from 'zod';
import { settingsSchema } from '#domains/settings/registry.ts';
import { type FieldErrors, tooLong } from '#platform/errors.ts';
import { MAIL_ADDRESS } from '#platform/mail/mail-address.ts';
import { isStorable } from '#platform/values/storable.ts';
import { namespacePathProblems } from './namespace-path.ts';
import { MAX_PASSWORD_LENGTH } from './password.ts';

const text = (max: number) => z.string('is invalid').max(max, tooLong(max)).refine(isStorable, 'is invalid');

const limit = z.int('is not a number').min(0, 'must be greater than or equal to 0').max(2_147_483_647, 'is too large');

const email = text(254).regex(MAIL_ADDRESS, 'is invalid');

// Users may choose the same values that may be their default.
const { default_preferred_language, first_day_of_week: firstDay } = settingsSchema.shape;
const language = default_preferred_language.unwrap();

const isWebUrl = (value: string): boolean => {
  const url = URL.parse(value);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.username === '';
};

const isTimeZone = (value: string): boolean => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: value });
    return true;
  } catch {
    return false;
  }
};

/**
 * The attributes that administrators write for a user, and users for themselves (specification 2 §4.1). Every name is a
 * column, except `admin`, `auditor`, `password` and the three that make up an identity. Where null is allowed it stands
 * for the default.
 */
const userAttributes = z
  .object({
    email,
    name: text(255).refine((value) => value.trim() !== '', "can't be blank"),
    username: z.string('is invalid').superRefine((value, ctx) => {
      for (const message of namespacePathProblems(value, { topLevel: true })) ctx.addIssue({ code: 'custom', message });
    }),
    password: text(MAX_PASSWORD_LENGTH),
    admin: z.boolean(),
    auditor: z.boolean(),
    external: z.boolean(),
    private_profile: z.boolean().nullable(),
    can_create_group: z.boolean(),
    projects_limit: limit,
    bio: text(255).nullable(),
    location: text(255).nullable(),
    public_email: z.union([z.literal(''), email]).nullable(),
    commit_email: z.union([z.literal(['', '_private']), email]).nullable(),
    skype: text(255).nullable(),
    linkedin: text(255).nullable(),
    twitter: text(255).nullable(),
    discord: z
      .string('is invalid')
      .regex(/^(\d{17,20})?$/, 'is invalid')
      .nullable(),
    website_url: text(255)
      .refine((value) => value === '' || isWebUrl(value), 'is not a valid URL')
      .nullable(),
    organization: text(255).nullable(),
    job_title: text(255).nullable(),
    pronouns: text(50).nullable(),
    note: text(10_000).nullable(),
    theme_id: limit.nullable(),
    color_scheme_id: limit.nullable(),
    view_diffs_file_by_file: z.boolean(),
    preferred_language: language,
    first_day_of_week: z.int('is invalid').refine((day) => firstDay.safeParse(day).success, 'is invalid'),
    shared_runners_minutes_limit: limit.nullable(),
    extra_shared_runners_minutes_limit: limit.nullable(),
    timezone: text(64)
      .refine((value) => value === '' || isTimeZone(value), 'is not a time zone')
      .nullable(),
    provider: text(255),
    extern_uid: text(255),
    group_id_for_saml: z.int('is invalid').min(1, 'is invalid'),
  })
  .partial();

export type UserAttributes = z.output<typeof userAttributes>;

/** The provider name of identities that come from a group's SAML provider. */
export const GROUP_SAML = 'group_saml';

/** Returns the problems with the attributes, by name. Empty when there are none. */
export const attributeErrors = (attributes: UserAttributes): Record<string, string[]> => {
  const errors: Record<string, string[]> = {};
  for (const issue of userAttributes.safeParse(attributes).error?.issues ?? []) {
    const field = String(issue.path[0] ?? 'base');
    const message = issue.code === 'custom' || !('errors' in issue) ? issue.message : 'is invalid';
    errors[field] = [...(errors[field] ?? []), message];
  }
  const { provider, extern_uid, group_id_for_saml } = attributes;
  if (provider?.trim() === '') errors.provider = ["can't be blank"];
  if (extern_uid?.trim() === '') errors.extern_uid = ["can't be blank"];
  if (group_id_for_saml !== undefined) {
    if (extern_uid === undefined) errors.group_id_for_saml = ['and extern_uid can only be given together'];
    if (provider !== undefined && provider !== GROUP_SAML) errors.provider = [`is ${GROUP_SAML} for a group`];
  } else if ((provider === undefined) !== (extern_uid === undefined)) {
    errors.extern_uid = ['and provider can only be given together'];
  } else if (provider === GROUP_SAML) {
    errors.group_id_for_saml = [`must be given for ${GROUP_SAML}`];
  }
  return errors;
};

/** Returns the problems with a new password. Empty when there are none. */
export const passwordErrors = (password: string, leastLength: number): FieldErrors =>
  [...password].length < leastLength ? { password: [`is too short (minimum is ${leastLength} characters)`] } : {};

/** Maps attributes to columns of `users`. Leaves undefined ones out. */
export const columnsOf = (attributes: UserAttributes, privateByDefault: boolean) => {
  const {
    admin: is_admin,
    auditor: is_auditor,
    private_profile: isPrivate,
    password: _password,
    provider: _provider,
    extern_uid: _externUid,
    group_id_for_saml: _groupId,
    // The caller decides separately whether the address may become the primary one.
    email: _email,
    ...columns
  } = attributes;
  return {
    ...columns,
    is_admin,
    is_auditor,
    private_profile: isPrivate === null ? privateByDefault : isPrivate,
    bio: emptied(columns.bio),
    public_email: emptied(columns.public_email),
    skype: emptied(columns.skype),
    linkedin: emptied(columns.linkedin),
    twitter: emptied(columns.twitter),
    discord: emptied(columns.discord),
    website_url: emptied(columns.website_url),
    job_title: emptied(columns.job_title),
    timezone: columns.timezone === '' ? null : columns.timezone,
    // An empty string stands for the primary address.
    commit_email: columns.commit_email === '' ? null : columns.commit_email,
  };
};

/** Turns null into an empty string, because these text columns are not nullable. */
const emptied = (value: string | null | undefined): string | undefined => (value === null ? '' : value);
