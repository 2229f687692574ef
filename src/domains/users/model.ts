import { defineCache } from '#platform/cache.ts';
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
export type UserState = (typeof USER_STATES)[number];

/**
 * The refusal for each state of an account, or null when the account is open. A refused user cannot sign in or use a
 * session or token over REST, GraphQL or git, and gets no events. Their content, memberships and tokens stay in case
 * the account is opened again.
 */
const REFUSALS: Readonly<Record<UserState, string | null>> = {
  active: null,
  blocked: 'Your account has been blocked.',
  ldap_blocked: 'Your account has been blocked.',
  banned: 'Your account has been banned.',
  deactivated: 'Your account has been deactivated by your administrator.',
  blocked_pending_approval: 'Your account is pending approval from your administrator.',
};

/** Returns why the account is closed to its user, or null when it is open. */
export const refusalOf = (user: { readonly state: string }): string | null => {
  const state = USER_STATES.find((each) => each === user.state);
  return state === undefined ? 'Your account is not active.' : REFUSALS[state];
};

/**
 * Whether an administrator closed the account or has not opened it yet. Deactivated accounts are not blocked: their users
 * open them again by signing in.
 */
export const isBlocked = ({ state }: { readonly state: string }): boolean =>
  state !== 'deactivated' && refusalOf({ state }) !== null;

/** The page on which administrators decide about accounts that wait for approval. */
export const APPROVALS_PATH = '/admin/users/pending';

interface StateMove {
  readonly to: UserState;
  readonly from: readonly UserState[];
  /** Whether repeating the move is accepted rather than refused. */
  readonly again: boolean;
  /** The message for an account in a state that the move cannot start from. */
  readonly refusal: (state: string) => string;
}

/**
 * How administrators move accounts between states (reference: conventions §8). `rejectUser` deletes the account
 * instead.
 */
export const STATE_MOVES = {
  block: {
    to: 'blocked',
    from: ['active', 'deactivated', 'blocked_pending_approval'],
    again: true,
    refusal: (state) => `${words(state)} users cannot be modified by the API`,
  },
  unblock: {
    to: 'active',
    from: ['blocked'],
    again: true,
    refusal: (state) => `${words(state)} users cannot be unblocked by the API`,
  },
  ban: { to: 'banned', from: ['active'], again: false, refusal: (state) => `You cannot ban ${state} users.` },
  unban: { to: 'active', from: ['banned'], again: false, refusal: (state) => `You cannot unban ${state} users.` },
  activate: {
    to: 'active',
    from: ['deactivated'],
    again: true,
    refusal: () => 'A blocked user must be unblocked to be activated',
  },
  deactivate: {
    to: 'deactivated',
    from: ['active'],
    again: true,
    refusal: () => 'A blocked user cannot be deactivated by the API',
  },
  approve: {
    to: 'active',
    from: ['blocked_pending_approval'],
    again: false,
    refusal: () => 'The user you are trying to approve is not pending approval',
  },
} as const satisfies Readonly<Record<string, StateMove>>;

export type StateMoveName = keyof typeof STATE_MOVES;

/** Formats a state for the start of a sentence: `ldap_blocked` as `LDAP blocked`. */
const words = (state: string): string => {
  const text = state.replaceAll('_', ' ').replace(/^ldap/, 'LDAP');
  return text.charAt(0).toUpperCase() + text.slice(1);
};

export const USER_TYPES = ['human', 'project_bot', 'service_account', 'ghost', 'support_bot'] as const;
export type UserType = (typeof USER_TYPES)[number];

const BOTS: ReadonlySet<string> = new Set(['project_bot', 'service_account', 'support_bot']);
export const INTERNAL_TYPES: readonly string[] = ['ghost', 'support_bot'];

/** Whether the account is internal to the hub. Internal accounts cannot be closed. */
export const isInternal = (user: { readonly user_type: string }): boolean => INTERNAL_TYPES.includes(user.user_type);

/** Whether the user may create top-level groups. Administrators may without it. */
export const createsGroups = (user: { readonly can_create_group: boolean; readonly external: boolean }): boolean =>
  user.can_create_group && !user.external;

export const isBot = (user: { readonly user_type: string }): boolean => BOTS.has(user.user_type);

/** Whether the account is temporarily locked after too many wrong passwords. */
export const isLocked = (ctx: Pick<Context, 'clock'>, user: { readonly locked_until: string | null }): boolean =>
  user.locked_until !== null && isoTime(user.locked_until) > ctx.clock.now().toISOString();

/** Returns the URL of the avatar, or null when there is none. */
export const avatarUrl = (
  ctx: Pick<Context, 'services'>,
  user: { readonly id: number; readonly avatar_key: string | null },
): string | null => {
  if (user.avatar_key === null) return null;
  const name = user.avatar_key.slice(user.avatar_key.lastIndexOf('/') + 1);
  return webUrl(ctx, `uploads/-/system/user/avatar/${user.id}/${name}`);
};

/** Returns the URL of the user's page. */
export const userWebUrl = (ctx: Pick<Context, 'services'>, user: { readonly username: string }): string =>
  webUrl(ctx, user.username);

/** Returns `Engineer at Acme`, or only the part that is known. */
export const workInformation = (user: {
  readonly job_title: string;
  readonly organization: string | null;
}): string | null => {
  if (user.job_title && user.organization) return `${user.job_title} at ${user.organization}`;
  return user.job_title || user.organization || null;
};

/** By time zone. To make a formatter takes 200 times as long as to use it. */
const timeFormats = defineCache<string, Intl.DateTimeFormat>({ name: 'time formats', limit: 200 });

/** Returns the local time of the user, such as `3:38 PM`, or null when the time zone is unknown. */
export const localTime = (
  { clock, services }: Pick<Context, 'clock' | 'services'>,
  { timezone }: { readonly timezone: string | null },
): string | null => {
  if (!timezone) return null;
  const formats = timeFormats(services);
  try {
    const format =
      formats.get(timezone) ?? new Intl.DateTimeFormat('en-US', { timeZone: timezone, timeStyle: 'short' });
    formats.set(timezone, format);
    return format.format(clock.now());
  } catch (error) {
    // This Node version does not know the time zone.
    if (error instanceof RangeError) return null;
    throw error;
  }
};

/** Describes the attribute `auditor`. */
export const AUDITOR =
  'Reads all projects and groups as if they were public. Features for members only, and confidential issues, stay closed.';
