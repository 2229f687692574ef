import { type ApprovalRule, isUserDefined } from '#domains/approvals/model.ts';
import { type RulePlace, requireReading } from '#domains/approvals/policy.ts';
import { getRule, listRules } from '#domains/approvals/queries.ts';
import { governedSettings } from '#domains/approvals/settings.ts';
import { changeRule, insertRule, type NewRule, type RuleChanges, removeRule } from '#domains/approvals/writing.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { forbidden, invalid, unauthenticated } from '#platform/errors.ts';
import { canUpdateMergeRequest } from '../commands.ts';
import { lockMergeRequest, type MergeRequestRow } from '../queries.ts';

// Rules of one merge request. Once it has any, they count instead of those that people wrote for its project
// (`governanceOf`).

/** Lists the rules of the merge request itself by id. @throws DomainError `unauthenticated`, `forbidden` */
export const listMergeRequestRules = (ctx: Context, project: ProjectRow, row: MergeRequestRow): List<ApprovalRule> => {
  requireReading(ctx, { kind: 'project', project });
  return listRules(ctx, { merge_request_id: row.id });
};

/** Returns a rule of the merge request itself. @throws DomainError `not_found`, `unauthenticated`, `forbidden` */
export const getMergeRequestRule = (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  id: number,
): Promise<ApprovalRule> => {
  requireReading(ctx, { kind: 'project', project });
  return getRule(ctx, { merge_request_id: row.id }, id);
};

export interface NewMergeRequestRule extends NewRule {
  /** Copies the name of this rule of the project, and its users and groups unless they are given. */
  readonly approval_project_rule_id?: number | undefined;
}

/**
 * Creates a rule of the merge request.
 *
 * @throws DomainError `unauthenticated`, `forbidden` for callers who may not change the merge request and where rules of
 * merge requests are not allowed, `invalid` by attribute, `not_found` (Approval Rule)
 */
export const createMergeRequestRule = (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  { approval_project_rule_id, ...input }: NewMergeRequestRule,
): Promise<ApprovalRule> =>
  inMergeRequest(ctx, project, row, async (tx, place) => {
    if (approval_project_rule_id === undefined) return insertRule(tx, place, input);
    const source = await getRule(tx, { project_id: place.project.id }, approval_project_rule_id);
    if (!isUserDefined(source)) {
      throw invalid({ approval_project_rule_id: [`is a rule of type ${source.rule_type}, which cannot be copied`] });
    }
    return insertRule(tx, place, input, source);
  });

/** Changes a rule of the merge request. @throws DomainError as `createMergeRequestRule` */
export const updateMergeRequestRule = (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  id: number,
  changes: RuleChanges,
): Promise<ApprovalRule> =>
  inMergeRequest(ctx, project, row, async (tx, place) =>
    changeRule(tx, place, await getRule(tx, { merge_request_id: row.id }, id), changes),
  );

/** Deletes a rule of the merge request. @throws DomainError as `createMergeRequestRule`, `modified` */
export const deleteMergeRequestRule = (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> =>
  inMergeRequest(ctx, project, row, async (tx, place) =>
    removeRule(tx, place, await getRule(tx, { merge_request_id: row.id }, id), unchangedSince),
  );

const inMergeRequest = async <T>(
  ctx: Context,
  given: ProjectRow,
  seen: MergeRequestRow,
  run: (tx: Tx, place: RulePlace & { readonly kind: 'merge_request' }) => Promise<T>,
): Promise<T> => {
  await requireChange(ctx, given, seen);
  return ctx.transaction(async (tx) => {
    const row = await lockMergeRequest(tx, given, seen);
    const project = await getProject(tx, { id: given.id });
    await requireChange(tx, project, row);
    return run(tx, { kind: 'merge_request', project, merge_request_id: row.id });
  });
};

const requireChange = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<void> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  if (!canUpdateMergeRequest(ctx, project, row)) throw forbidden();
  // The rules then record by which approvals it was merged.
  if (row.state === 'merged' || row.state === 'locked') throw forbidden(`the merge request is ${row.state}`);
  const settings = await governedSettings(ctx, { kind: 'project', project });
  if (!settings.allow_overrides_to_approver_list_per_merge_request.value) {
    throw forbidden('rules of merge requests are not allowed in this project');
  }
};
