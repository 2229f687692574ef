import { sql } from 'kysely';
import { DEVELOPER } from '#domains/access/model.ts';
import { usersByProjectLevel } from '#domains/access/queries.ts';
import { type ProjectRow, projectsByIds, ROW } from '#domains/projects/queries.ts';
import { matching, protectionsByProjects } from '#domains/repositories/protections.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { type Approval, approvalsByIds } from './approvals.ts';
import { ownersByRules } from './code-owners/owners.ts';
import { committersByMergeRequests, eligibleApprovers, isExcluded, reviewersByProject } from './eligible.ts';
import { type Governance, governanceOf } from './governing.ts';
import { type ApprovalRule, type ApprovalSettings, differsFrom } from './model.ts';
import { rulesByIds } from './queries.ts';

// Whether merge requests are approved, decided in this file only, and for many at once. Code owners, rules of groups,
// projects and merge requests, and the people that settings keep out come together here.

/** A rule as it stands for one merge request. */
export interface RuleState {
  readonly rule: ApprovalRule;
  /** The section of `CODEOWNERS`, for code owners. */
  readonly section: string | null;
  /** The users who can approve by it, ascending. Empty for `any_approver`: everyone who may approve counts. */
  readonly eligible_ids: readonly number[];
  /** Those of them who have approved, in the order of their approvals. */
  readonly approver_ids: readonly number[];
  readonly approvals_left: number;
  readonly approved: boolean;
  /** More approvals are required than anyone could give. Such a rule counts as approved. */
  readonly is_invalid: boolean;
  /** For a rule of a merge request that was copied from one of the project. */
  readonly source: ApprovalRule | null;
  readonly overridden: boolean;
}

export interface ApprovalState {
  readonly settings: ApprovalSettings;
  /** All approvals, oldest first. */
  readonly approvals: readonly Approval[];
  readonly rules: readonly RuleState[];
  readonly overwritten: boolean;
  readonly approvals_required: number;
  readonly approvals_left: number;
  readonly approved: boolean;
  /** A push may have changed what was approved, and has not been compared yet. */
  readonly is_syncing: boolean;
  /** The users that settings keep from approving: the author, committers. */
  readonly excluded: (userId: number) => boolean;
}

interface Subject {
  readonly id: number;
  readonly project_id: number;
  readonly state: string;
  readonly target_branch: string;
  readonly author_id: number | null;
  readonly diff_head_sha: string | null;
  readonly approvals_before_merge: number | null;
}

/** Returns how the merge requests stand, by id. The caller has checked that they are visible. */
export const approvalStates = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ApprovalState>> => {
  if (ids.length === 0) return new Map();
  // Groups and projects that the caller cannot see count too.
  const asHub = { ...ctx, actor: systemActor };
  const subjects = await ctx.db
    .selectFrom('merge_requests')
    .select(['id', 'project_id', 'state', 'target_branch', 'author_id', 'diff_head_sha', 'approvals_before_merge'])
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  const projects = await projectsByIds(asHub, [...new Set(subjects.map(({ project_id }) => project_id))], ROW);
  const asked = subjects.flatMap((row) => {
    const project = projects.get(row.project_id);
    return project ? [{ row, project }] : [];
  });
  const [governance, approvals, ofOwners] = await Promise.all([
    governanceOf(asHub, asked),
    approvalsByIds(ctx, ids),
    codeOwnerRules(asHub, asked),
  ]);
  const sourceIds = [...governance.values()].flatMap(({ rules }) => rules.flatMap((rule) => rule.source_rule_id ?? []));
  const [committers, eligible, sources, members] = await Promise.all([
    committersByMergeRequests(
      ctx,
      asked.flatMap(({ row: { id } }) => (governance.get(id)?.settings.allow_committer_approval === false ? [id] : [])),
    ),
    eligibleByRule(asHub, asked, governance, ofOwners),
    sourceIds.length === 0 ? new Map<number, ApprovalRule>() : rulesByIds(ctx, sourceIds),
    reviewersByProject(
      ctx,
      asked.map(({ row }) => ({
        projectId: row.project_id,
        userIds: (approvals.get(row.id) ?? []).map(({ user_id }) => user_id),
      })),
    ),
  ]);
  return new Map(
    asked.flatMap(({ row }): [number, ApprovalState][] => {
      const governed = governance.get(row.id);
      if (!governed) return [];
      const contributors = { author_id: row.author_id, committer_ids: committers.get(row.id) ?? [] };
      const facts = {
        governed,
        approvals: approvals.get(row.id) ?? [],
        owned: ofOwners.get(row.id) ?? [],
        eligible,
        sources,
        excluded: (userId: number) => isExcluded(userId, contributors, governed.settings),
        isMember: (userId: number) => members.get(row.project_id)?.has(userId) ?? false,
      };
      return [[row.id, evaluate(row, facts)]];
    }),
  );
};

/** The same for one merge request. Null if it has been deleted. */
export const approvalState = async (ctx: Context, id: number): Promise<ApprovalState | null> =>
  (await approvalStates(ctx, [id])).get(id) ?? null;

/** Why approvals keep a merge request from being merged. */
export type ApprovalObstacle = 'requested_changes' | 'approvals_syncing' | 'not_approved';

/**
 * Returns why approvals keep merge requests from being merged, by id. Merge requests that they do not keep, and those
 * that are merged, are absent.
 */
export const approvalObstacles = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ApprovalObstacle>> => {
  const { rows } = await sql<{ id: number; is_governed: boolean; requests_changes: boolean }>`
    select mr.id,
      exists (select from merge_request_reviewers r
        where r.merge_request_id = mr.id and r.state = 'requested_changes') as requests_changes,
      p.approvals_before_merge > 0 or mr.approvals_before_merge > 0
        or exists (select from approval_rules r where r.merge_request_id = mr.id)
        or exists (select from approval_rules r where r.project_id = mr.project_id)
        or exists (select from approval_rules r where r.namespace_id = any (n.traversal_ids))
        or exists (select from code_owner_rules r where r.merge_request_id = mr.id) as is_governed
    from merge_requests mr join projects p on p.id = mr.project_id join namespaces n on n.id = p.namespace_id
    where mr.id = any (${ids}::bigint[]) and mr.state <> 'merged'`.execute(ctx.db);
  const states = await approvalStates(
    ctx,
    rows.flatMap(({ id, is_governed }) => (is_governed ? [id] : [])),
  );
  return new Map(
    rows.flatMap(({ id, requests_changes }): [number, ApprovalObstacle][] => {
      if (requests_changes) return [[id, 'requested_changes']];
      const state = states.get(id);
      if (!state || (state.approved && !state.is_syncing)) return [];
      return [[id, state.is_syncing ? 'approvals_syncing' : 'not_approved']];
    }),
  );
};

interface Asked {
  readonly row: Subject;
  readonly project: ProjectRow;
}

interface OwnedRule {
  readonly rule: ApprovalRule;
  readonly section: string;
}

/** Returns the rules of code owners by merge request, with the people that they name as of now. */
const codeOwnerRules = async (
  ctx: Context,
  asked: readonly Asked[],
): Promise<ReadonlyMap<number, readonly OwnedRule[]>> => {
  const rows = await ctx.db
    .selectFrom('code_owner_rules')
    .selectAll()
    .where(sql<boolean>`merge_request_id = any (${asked.map(({ row }) => row.id)}::bigint[])`)
    .orderBy('merge_request_id')
    .orderBy('position')
    .execute();
  if (rows.length === 0) return new Map();
  const places = new Map(asked.map((each) => [each.row.id, each]));
  const protections = await protectionsByProjects(ctx, [...new Set(asked.map(({ project }) => project.id))]);
  const found = await ownersByRules(
    ctx,
    rows.map(({ id, merge_request_id, owners }) => ({
      id,
      owners,
      project_id: places.get(merge_request_id)?.project.id ?? 0,
    })),
  );
  const rules = rows.map((row): OwnedRule & { readonly of: number } => {
    const place = places.get(row.merge_request_id);
    const branches = place ? matching(protections.get(place.project.id)?.branches ?? [], place.row.target_branch) : [];
    const isRequired = !row.optional && branches.some((branch) => branch.code_owner_approval_required);
    const { user_ids = [], group_ids = [] } = found.get(row.id) ?? {};
    return {
      of: row.merge_request_id,
      section: row.section,
      rule: {
        id: row.id,
        namespace_id: null,
        project_id: null,
        merge_request_id: row.merge_request_id,
        name: row.pattern,
        rule_type: 'code_owner',
        report_type: null,
        approvals_required: isRequired ? row.approvals_required : 0,
        applies_to_all_protected_branches: false,
        source_rule_id: null,
        user_ids,
        group_ids,
        protected_branch_ids: [],
      },
    };
  });
  return Map.groupBy(rules, ({ of }) => of);
};

/** Returns who can approve by each rule. Code owners need the role of a Developer. */
const eligibleByRule = async (
  ctx: Context,
  asked: readonly Asked[],
  governance: ReadonlyMap<number, Governance>,
  ofOwners: ReadonlyMap<number, readonly OwnedRule[]>,
): Promise<ReadonlyMap<string, readonly number[]>> => {
  const places: { readonly key: string; readonly projectId: number; readonly isOwned: boolean }[] = [];
  // The ids only connect the answer with the question.
  const numbered = (projectId: number, isOwned: boolean) => (rule: ApprovalRule) => ({
    ...rule,
    id: places.push({ key: keyOf(projectId, rule.id), projectId, isOwned }),
  });
  const byProject = Map.groupBy(asked, ({ project }) => project.id);
  const questions = [...byProject.values()].flatMap((own) => {
    const project = own[0]?.project;
    const stored = own.flatMap(({ row }) => governance.get(row.id)?.rules ?? []);
    const owned = own.flatMap(({ row }) => (ofOwners.get(row.id) ?? []).map(({ rule }) => rule));
    const distinct = [...new Map(stored.map((rule) => [rule.id, rule])).values()];
    if (!project) return [];
    return [
      { project, rules: [...distinct.map(numbered(project.id, false)), ...owned.map(numbered(project.id, true))] },
    ];
  });
  const found = await eligibleApprovers(ctx, questions);
  const eligible = new Map(places.map(({ key }, at) => [key, found.get(at + 1) ?? []]));
  const owners = places.filter(({ isOwned }) => isOwned);
  if (owners.length === 0) return eligible;
  const byPlace = Map.groupBy(owners, ({ projectId }) => projectId);
  const developers = await usersByProjectLevel(
    ctx,
    [...byPlace].map(([projectId, own]) => ({
      projectId,
      userIds: [...new Set(own.flatMap(({ key }) => eligible.get(key) ?? []))],
    })),
    DEVELOPER,
  );
  for (const { key, projectId } of owners) {
    eligible.set(
      key,
      (eligible.get(key) ?? []).filter((userId) => developers.get(projectId)?.has(userId)),
    );
  }
  return eligible;
};

/** A rule of a group stands for different people in different projects. */
const keyOf = (projectId: number, ruleId: number): string => `${projectId}:${ruleId}`;

interface EvaluationFacts {
  readonly governed: Governance;
  readonly approvals: readonly Approval[];
  readonly owned: readonly OwnedRule[];
  readonly eligible: ReadonlyMap<string, readonly number[]>;
  readonly sources: ReadonlyMap<number, ApprovalRule>;
  readonly excluded: (userId: number) => boolean;
  /** Whether the user may approve without being named by a rule. */
  readonly isMember: (userId: number) => boolean;
}

/** Decides as the reference says (merge-requests §5). */
const evaluate = (row: Subject, facts: EvaluationFacts): ApprovalState => {
  const { governed, approvals, owned, excluded } = facts;
  const { settings, overwritten } = governed;
  const allRules = [...governed.rules, ...owned.map(({ rule }) => rule)];
  const isNamed = (userId: number) =>
    allRules.some(({ id }) => facts.eligible.get(keyOf(row.project_id, id))?.includes(userId));
  // Approvals of people who have lost their access since do not count. A merged merge request keeps its approvals.
  const counted = approvals
    .map(({ user_id }) => user_id)
    .filter((id) => !excluded(id) && (row.state === 'merged' || facts.isMember(id) || isNamed(id)));
  const stateOf = (rule: ApprovalRule, section: string | null): RuleState => {
    const isForAnyone = rule.rule_type === 'any_approver';
    const eligible_ids = (facts.eligible.get(keyOf(row.project_id, rule.id)) ?? []).filter((id) => !excluded(id));
    const approver_ids = isForAnyone ? counted : counted.filter((id) => eligible_ids.includes(id));
    const isUnownable = rule.rule_type === 'code_owner' && eligible_ids.length === 0;
    const approvals_required = isUnownable ? 0 : rule.approvals_required;
    const is_invalid = !isForAnyone && approvals_required > eligible_ids.length;
    const approvals_left = is_invalid ? 0 : Math.max(approvals_required - approver_ids.length, 0);
    const source = rule.source_rule_id === null ? null : (facts.sources.get(rule.source_rule_id) ?? null);
    return {
      rule: { ...rule, approvals_required },
      section,
      eligible_ids,
      approver_ids,
      approvals_left,
      approved: approvals_left === 0,
      is_invalid,
      source,
      overridden: source !== null && differsFrom(rule, source),
    };
  };
  const all = [
    ...governed.rules.map((rule) => stateOf(rule, null)),
    ...owned.map(({ rule, section }) => stateOf(rule, section)),
  ];
  // A merged one keeps its approvals.
  const rules = row.state === 'merged' ? all.filter(({ approved }) => approved) : all;
  const named = rules.filter(({ rule }) => rule.rule_type !== 'any_approver');
  const fromAnyone = row.state === 'merged' ? 0 : governed.any_approvals_required;
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const approvals_left = Math.max(
    sum(named.map((each) => each.approvals_left)),
    Math.max(fromAnyone - counted.length, 0),
  );
  const comparesChanges = !settings.retain_approvals_on_push || settings.selective_code_owner_removals;
  return {
    settings,
    approvals,
    rules,
    overwritten,
    approvals_required: Math.max(sum(named.map(({ rule }) => rule.approvals_required)), fromAnyone),
    approvals_left,
    approved: approvals_left === 0,
    is_syncing:
      comparesChanges && approvals.some(({ head_sha }) => head_sha !== null && head_sha !== row.diff_head_sha),
    excluded,
  };
};
