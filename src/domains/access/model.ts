/** Roles and visibility levels as comparable numbers, with their names (reference: conventions §6, §7). */

export const NO_ACCESS = 0;
export const MINIMAL = 5;
export const GUEST = 10;
export const PLANNER = 15;
export const REPORTER = 20;
export const DEVELOPER = 30;
export const MAINTAINER = 40;
export const OWNER = 50;

/** The roles that a member can have. Minimal access gives no access to private content and only takes a seat. */
export const ROLES = [MINIMAL, GUEST, PLANNER, REPORTER, DEVELOPER, MAINTAINER, OWNER] as const;
/** The roles that a share can carry. */
export const SHARED_ROLES = [GUEST, PLANNER, REPORTER, DEVELOPER, MAINTAINER, OWNER] as const;

const ROLE_NAMES = new Map<number, string>([
  [NO_ACCESS, 'No access'],
  [MINIMAL, 'Minimal Access'],
  [GUEST, 'Guest'],
  [PLANNER, 'Planner'],
  [REPORTER, 'Reporter'],
  [DEVELOPER, 'Developer'],
  [MAINTAINER, 'Maintainer'],
  [OWNER, 'Owner'],
]);

/** Returns the name of a role, such as `Developer` for 30, as webhooks use it. */
export const roleName = (level: number): string => ROLE_NAMES.get(level) ?? 'No access';

export const PRIVATE = 0;
export const INTERNAL = 10;
export const PUBLIC = 20;

export const VISIBILITIES = ['private', 'internal', 'public'] as const;
export type Visibility = (typeof VISIBILITIES)[number];

/** Returns the name of a visibility level, such as `internal` for 10. */
export const visibilityName = (level: number): Visibility =>
  level >= PUBLIC ? 'public' : level >= INTERNAL ? 'internal' : 'private';

/** Returns the number of a visibility, such as 10 for `internal`. */
export const visibilityLevel = (visibility: Visibility): number => VISIBILITIES.indexOf(visibility) * 10;

/** A project's or namespace's visibility, and the namespaces that contain it, outermost first. */
interface Placed {
  readonly visibility_level: number;
  readonly namespace_ids: readonly number[];
}

/** Whether everyone who can see it after a change could see it before. If not, events leave its former values out. */
export const wasAsOpen = (before: Placed, after: Placed): boolean =>
  before.visibility_level >= after.visibility_level &&
  (before.visibility_level === PUBLIC || after.namespace_ids.every((id) => before.namespace_ids.includes(id)));

export const FEATURE_LEVELS = ['disabled', 'private', 'enabled'] as const;
/** The people who can use a feature of a project: nobody, its members, or everyone who can see the project. */
export type FeatureLevel = (typeof FEATURE_LEVELS)[number];
