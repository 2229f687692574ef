import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { webUrl } from '#platform/urls.ts';

export const USER_STATES = [
  'active',
  'blocked',
  'deactivated',
  'banned',
  'ldap_blocked',
  'blocked_pending_approval',
] as const;

export const USER_TYPES = ['human', 'project_bot', 'service_account', 'ghost', 'support_bot'] as const;
export type UserType = (typeof USER_TYPES)[number];

const BOTS: ReadonlySet<string> = new Set(['project_bot', 'service_account', 'support_bot']);

export const isBot = (user: { readonly user_type: string }): boolean => BOTS.has(user.user_type);

/** Whether the account is closed for a while after too many wrong passwords. */
export const isLocked = (ctx: Pick<Context, 'clock'>, user: { readonly locked_until: string | null }): boolean =>
  user.locked_until !== null && isoTime(user.locked_until) > ctx.clock.now().toISOString();

/** Where the avatar can be fetched, or null when there is none. */
export const avatarUrl = (
  ctx: Pick<Context, 'services'>,
  user: { readonly id: number; readonly avatar_key: string | null },
): string | null => {
  if (user.avatar_key === null) return null;
  const name = user.avatar_key.slice(user.avatar_key.lastIndexOf('/') + 1);
  return webUrl(ctx, `uploads/-/system/user/avatar/${user.id}/${name}`);
};

/** The address of the user's page. */
export const userWebUrl = (ctx: Pick<Context, 'services'>, user: { readonly username: string }): string =>
  webUrl(ctx, user.username);

/** `Engineer at Acme`, or the one of both that is known. */
export const workInformation = (user: {
  readonly job_title: string;
  readonly organization: string | null;
}): string | null => {
  if (user.job_title && user.organization) return `${user.job_title} at ${user.organization}`;
  return user.job_title || user.organization || null;
};

/** The time of day where the user lives, such as `3:38 PM`; null when that is not known. */
export const localTime = (ctx: Pick<Context, 'clock'>, user: { readonly timezone: string | null }): string | null => {
  if (!user.timezone) return null;
  try {
    return ctx.clock.now().toLocaleTimeString('en-US', { timeZone: user.timezone, timeStyle: 'short' });
  } catch (error) {
    // A zone that this Node does not know.
    if (error instanceof RangeError) return null;
    throw error;
  }
};

/** The address that commits made here carry: the chosen one, or one that tells nobody the real one (`_private`). */
export const commitEmail = (
  ctx: Pick<Context, 'services'>,
  user: {
    readonly id: number;
    readonly username: string;
    readonly email: string;
    readonly commit_email: string | null;
  },
): string => {
  if (user.commit_email !== '_private') return user.commit_email ?? user.email;
  return `${user.id}-${user.username}@users.noreply.${new URL(ctx.services.urls.base).hostname}`;
};
