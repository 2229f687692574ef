import type { ProjectRow } from '#domains/projects/model.ts';
import { matching, type Protection, protectionsByProjects } from '#domains/repositories/protections.ts';
import type { Context } from '#platform/context.ts';
import { type ApprovalRule, type ApprovalSettings, isUserDefined } from './model.ts';
import { rulesByOwners } from './queries.ts';
import { settingsByProjects, valuesOf } from './settings.ts';

/** A merge request, and the project that it targets. */
export interface Governed {
  readonly project: ProjectRow;
  readonly row: {
    readonly id: number;
    readonly target_branch: string;
    readonly approvals_before_merge: number | null;
  };
}

export interface Governance {
  readonly settings: ApprovalSettings;
  /**
   * The stored rules that apply: those of the merge request if it overrides the project's, otherwise those of the
   * project for the target branch, and those of the groups above if the branch is protected.
   */
  readonly rules: readonly ApprovalRule[];
  /** Whether the merge request overrides the rules of its project. */
  readonly overwritten: boolean;
  /**
   * The number of approvals from anyone who may approve: from the rules of type `any_approver`, or from the deprecated
   * `approvals_before_merge` if people wrote no rule that applies.
   */
  readonly any_approvals_required: number;
}

/** Returns what decides about the approval of these merge requests, by id. Code owners are not included. */
export const governanceOf = async (
  ctx: Context,
  asked: readonly Governed[],
): Promise<ReadonlyMap<number, Governance>> => {
  const projects = [...new Map(asked.map(({ project }) => [project.id, project])).values()];
  const projectIds = projects.map(({ id }) => id);
  const namespaceIds = [...new Set(projects.flatMap(({ namespace }) => namespace.traversal_ids))];
  const [settings, ofProjects, ofGroups, ofMergeRequests, protections] = await Promise.all([
    settingsByProjects(ctx, projects),
    rulesByOwners(ctx, 'project_id', projectIds),
    rulesByOwners(ctx, 'namespace_id', namespaceIds),
    rulesByOwners(
      ctx,
      'merge_request_id',
      asked.map(({ row }) => row.id),
    ),
    protectionsByProjects(ctx, projectIds),
  ]);
  return new Map(
    asked.flatMap(({ project, row }): [number, Governance][] => {
      const governed = settings.get(project.id);
      if (!governed) return [];
      const values = valuesOf(governed);
      const mayOverride = values.allow_overrides_to_approver_list_per_merge_request;
      const own = mayOverride ? (ofMergeRequests.get(row.id) ?? []) : [];
      const branches = matching(protections.get(project.id)?.branches ?? [], row.target_branch);
      const overwritten = own.some(isUserDefined);
      const ofProject = (ofProjects.get(project.id) ?? []).filter((rule) => appliesTo(rule, branches));
      const rules = [
        ...own,
        ...(overwritten ? ofProject.filter((rule) => !isUserDefined(rule)) : ofProject),
        ...(branches.length > 0 ? project.namespace.traversal_ids.flatMap((id) => ofGroups.get(id) ?? []) : []),
      ];
      const numbers = rules.some(isUserDefined)
        ? rules
            .filter(({ rule_type }) => rule_type === 'any_approver')
            .map(({ approvals_required }) => approvals_required)
        : [project.approvals_before_merge, mayOverride ? (row.approvals_before_merge ?? 0) : 0];
      return [[row.id, { settings: values, rules, overwritten, any_approvals_required: Math.max(0, ...numbers) }]];
    }),
  );
};

/** Returns whether a rule of a project applies to a target branch, given the protections that match the branch. */
const appliesTo = (rule: ApprovalRule, protections: readonly Protection[]): boolean => {
  if (rule.applies_to_all_protected_branches) return protections.length > 0;
  if (rule.protected_branch_ids.length === 0) return true;
  return protections.some(({ id }) => rule.protected_branch_ids.includes(id));
};
