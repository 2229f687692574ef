import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';

export const PROJECT_CREATION_LEVELS = ['noone', 'owner', 'maintainer', 'developer', 'administrator'] as const;
export const SUBGROUP_CREATION_LEVELS = ['owner', 'maintainer'] as const;
export const SHARED_RUNNERS_SETTINGS = ['enabled', 'disabled_and_overridable', 'disabled_and_unoverridable'] as const;

/** How the default branch of new projects is protected (specification 3 §2.1). */
export interface ProtectionDefaults {
  readonly allowed_to_push: readonly { readonly access_level: number }[];
  readonly allow_force_push: boolean;
  readonly allowed_to_merge: readonly { readonly access_level: number }[];
  readonly developer_can_initial_push: boolean;
  readonly code_owner_approval_required?: boolean | undefined;
}

const protection = (push: number, merge: number, allow_force_push = false, developer_can_initial_push = false) =>
  ({
    allowed_to_push: [{ access_level: push }],
    allow_force_push,
    allowed_to_merge: [{ access_level: merge }],
    developer_can_initial_push,
  }) satisfies ProtectionDefaults;

const FULL_PROTECTION = 2;
/** The older numeric form: none, partial, full, against pushes, full after the first push. */
const PROTECTION_LEVELS: readonly ProtectionDefaults[] = [
  protection(30, 30, true),
  protection(30, 30),
  protection(40, 40),
  protection(40, 30),
  protection(40, 30, false, true),
];

export const protectionOfLevel = (level: number): ProtectionDefaults | null => PROTECTION_LEVELS[level] ?? null;

/** Returns `default_branch_protection` for the object form; full if no number matches exactly. */
export const protectionLevel = (defaults: ProtectionDefaults): number => {
  const index = PROTECTION_LEVELS.findIndex(
    (each) =>
      lowest(each.allowed_to_push) === lowest(defaults.allowed_to_push) &&
      lowest(each.allowed_to_merge) === lowest(defaults.allowed_to_merge) &&
      each.allow_force_push === defaults.allow_force_push &&
      each.developer_can_initial_push === defaults.developer_can_initial_push,
  );
  return index < 0 ? FULL_PROTECTION : index;
};

const lowest = (levels: ProtectionDefaults['allowed_to_push']): number =>
  Math.min(...levels.map((each) => each.access_level));

interface Addressed {
  readonly kind: string;
  readonly full_path: string;
}

/** Returns the web URL of a group or, for a personal namespace, of its owner. */
export const namespaceWebUrl = (ctx: Pick<Context, 'services'>, { kind, full_path }: Addressed): string =>
  webUrl(ctx, kind === 'group' ? `groups/${full_path}` : full_path);

/** Returns the avatar's URL, or null if there is none. */
export const namespaceAvatarUrl = (
  ctx: Pick<Context, 'services'>,
  { id, avatar_key }: { readonly id: number; readonly avatar_key: string | null },
): string | null =>
  avatar_key === null
    ? null
    : webUrl(ctx, `uploads/-/system/group/avatar/${id}/${avatar_key.slice(avatar_key.lastIndexOf('/') + 1)}`);
