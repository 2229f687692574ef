import { GUEST } from '#domains/access/model.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';
import { levelOn, type MemberSource } from './model.ts';

/** Owners manage the members of a group, Maintainers those of a project. @throws DomainError `forbidden` */
export const requireAdminMembers = (ctx: Pick<Context, 'actor'>, source: MemberSource): void =>
  source.kind === 'group'
    ? requireGroupAbility(ctx, source.group, 'admin_member')
    : requireAbility(ctx, source.project, 'admin_member');

/** Members are shown to everyone who is signed in and may know of the group or project. @throws DomainError */
export const requireReadMembers = (ctx: Pick<Context, 'actor'>, source: MemberSource): void => {
  if (ctx.actor.userId === null && !ctx.actor.isSystem) throw unauthenticated();
  if (source.kind === 'project') requireAbility(ctx, source.project, 'read_member');
};

/** Nobody gives, changes or takes a level above his own. @throws DomainError `forbidden` */
export const requireLevel = (ctx: Pick<Context, 'actor'>, source: MemberSource, ...levels: readonly number[]): void => {
  if (ctx.actor.isAdmin) return;
  const own = Math.max(levelOn(source), GUEST);
  if (levels.some((level) => level > own)) throw forbidden();
};
