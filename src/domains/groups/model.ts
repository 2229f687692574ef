import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';

export const PROJECT_CREATION_LEVELS = ['noone', 'owner', 'maintainer', 'developer', 'administrator'] as const;
/** The values of the setting `default_project_creation`, by number. */
export const DEFAULT_PROJECT_CREATION: Readonly<Record<number, (typeof PROJECT_CREATION_LEVELS)[number]>> = {
  0: 'noone',
  1: 'maintainer',
  2: 'developer',
  3: 'administrator',
  4: 'owner',
};
export const SUBGROUP_CREATION_LEVELS = ['owner', 'maintainer'] as const;
export const SHARED_RUNNERS_SETTINGS = ['enabled', 'disabled_and_overridable', 'disabled_and_unoverridable'] as const;

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
