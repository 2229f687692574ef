import type { Container } from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import type { ApprovalRule } from './model.ts';
import { lockForAdministration, ownerOf, requireAdministration } from './policy.ts';
import { getRule } from './queries.ts';
import { changeRule, insertRule, type NewRule, type RuleChanges, removeRule } from './writing.ts';

/**
 * Creates a rule of a group or project.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid` by attribute
 */
export const createApprovalRule = (ctx: Context, given: Container, input: NewRule): Promise<ApprovalRule> => {
  requireAdministration(ctx, given);
  return ctx.transaction(async (tx) => insertRule(tx, await lockForAdministration(tx, given), input));
};

/** Changes a rule of a group or project. @throws DomainError as `createApprovalRule`, `not_found` (Approval Rule) */
export const updateApprovalRule = (
  ctx: Context,
  given: Container,
  id: number,
  changes: RuleChanges,
): Promise<ApprovalRule> => {
  requireAdministration(ctx, given);
  return ctx.transaction(async (tx) => {
    const container = await lockForAdministration(tx, given);
    return changeRule(tx, container, await getRule(tx, ownerOf(container), id), changes);
  });
};

/** Deletes a rule of a group or project. @throws DomainError `unauthenticated`, `forbidden`, `not_found`, `modified` */
export const deleteApprovalRule = async (
  ctx: Context,
  given: Container,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> => {
  requireAdministration(ctx, given);
  await ctx.transaction(async (tx) => {
    const container = await lockForAdministration(tx, given);
    await removeRule(tx, container, await getRule(tx, ownerOf(container), id), unchangedSince);
  });
};
