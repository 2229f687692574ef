import { GUEST } from '#domains/access/model.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';
import { levelOn, type MemberSource } from './model.ts';

/** Requires the right to manage members: Owner of a group, Maintainer of a project. @throws DomainError `forbidden` */
export const requireAdminMembers = (ctx: Pick<Context, 'actor'>, source: MemberSource): void =>
  source.kind === 'group'
    ? requireGroupAbility(ctx, source.group, 'admin_member')
    : requireAbility(ctx, source.project, 'admin_member');

/** Members are visible to every signed-in user who can see the group or project. @throws DomainError */
export const requireReadMembers = (ctx: Pick<Context, 'actor'>, source: MemberSource): void => {
  if (ctx.actor.userId === null && !ctx.actor.isSystem) throw unauthenticated();
  if (source.kind === 'project') requireAbility(ctx, source.project, 'read_member');
};

/** Nobody can grant, change or remove a level above their own. @throws DomainError `forbidden` */
export const requireLevel = (ctx: Pick<Context, 'actor'>, source: MemberSource, ...levels: readonly number[]): void => {
  if (ctx.actor.isAdmin) return;
  const own = Math.max(levelOn(source), GUEST);
  if (levels.some((level) => level > own)) throw forbidden();
};
