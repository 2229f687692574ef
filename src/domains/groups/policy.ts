import { DEVELOPER, GUEST, MAINTAINER, OWNER, PLANNER, REPORTER } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';

/** The facts about a group that the policy needs: the caller's level, and who may create below it. */
export interface GroupStanding {
  readonly access_level: number;
  readonly project_creation_level: string;
  readonly subgroup_creation_level: string;
}

const NOBODY = 100;
const PROJECT_CREATION: Readonly<Record<string, number>> = {
  noone: NOBODY,
  administrator: NOBODY,
  owner: OWNER,
  maintainer: MAINTAINER,
  developer: DEVELOPER,
};

const projectCreationRole = (group: GroupStanding): number => PROJECT_CREATION[group.project_creation_level] ?? NOBODY;

/** The lowest role for each ability (reference: conventions §6). Everyone who can see the group has `read_group`. */
const leastRoles = {
  read_group: () => 0,
  read_group_details: () => OWNER,
  admin_group: () => OWNER,
  remove_group: () => OWNER,
  change_visibility: () => OWNER,
  admin_member: () => OWNER,
  admin_hook: () => OWNER,
  admin_push_rule: () => OWNER,
  admin_cicd_variables: () => OWNER,
  read_approval_rule: () => MAINTAINER,
  admin_approval_rule: () => OWNER,
  admin_service_account: () => OWNER,
  admin_ldap_group_link: () => OWNER,
  admin_saml_group_link: () => OWNER,
  create_runner: () => OWNER,
  admin_runner: () => OWNER,
  share_group: () => OWNER,
  upload_file: () => GUEST,
  admin_uploads: () => MAINTAINER,
  import_projects: (group) => Math.max(MAINTAINER, projectCreationRole(group)),
  create_projects: (group) => projectCreationRole(group),
  create_subgroup: (group) => (group.subgroup_creation_level === 'maintainer' ? MAINTAINER : OWNER),
  admin_label: () => PLANNER,
  admin_milestone: () => PLANNER,
  read_statistics: () => REPORTER,
} satisfies Record<string, (group: GroupStanding) => number>;

export type GroupAbility = keyof typeof leastRoles;

/** Returns true if the caller has the ability on the group. Administrators have all abilities. */
export const canOnGroup = (ctx: Pick<Context, 'actor'>, group: GroupStanding, ability: GroupAbility): boolean => {
  if (ctx.actor.isAdmin) return true;
  if (ability === 'read_group') return true;
  return ctx.actor.userId !== null && group.access_level >= leastRoles[ability](group);
};

/** @throws DomainError `forbidden`. The caller already knows that the group exists (`getGroup`). */
export const requireGroupAbility = (ctx: Pick<Context, 'actor'>, group: GroupStanding, ability: GroupAbility): void => {
  if (!canOnGroup(ctx, group, ability)) throw forbidden();
};

/**
 * For what everyone may do with a group who can see it. Auditors can see every group, but may do such things only with
 * those that are open to other users, or theirs.
 *
 * @throws DomainError `forbidden`
 */
export const requireMoreThanAudit = (
  { actor }: Pick<Context, 'actor'>,
  { access_level, visibility_level }: { readonly access_level: number; readonly visibility_level: number },
): void => {
  if (actor.isAuditor && access_level === 0 && visibility_level < openFrom(actor, 'write')) throw forbidden();
};
