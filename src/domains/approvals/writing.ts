import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { invalid, requireUnchanged, requireValid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { type ApproverChanges, approversAfter } from './approvers.ts';
import { approvalRuleCreated, approvalRuleDeleted, approvalRuleUpdated } from './events.ts';
import { type ApprovalRule, MAX_APPROVALS, REPORT_RULES, type ReportType, type RuleType } from './model.ts';
import { ownerOf, type RulePlace, ruleAudience } from './policy.ts';
import { getRule } from './queries.ts';

// Writes rules of groups, projects and merge requests alike. The caller has checked permissions and holds the lock of
// the place, so that rules of one place change one after the other.

/** The types that callers may choose. Rules of code owners come from the CODEOWNERS file. */
export const WRITABLE_TYPES = ['any_approver', 'regular', 'report_approver'] as const satisfies readonly RuleType[];

/** Absent attributes stay unchanged. */
export interface RuleChanges extends ApproverChanges {
  readonly name?: string | undefined;
  /** 0 to 100. */
  readonly approvals_required?: number | undefined;
  readonly rule_type?: (typeof WRITABLE_TYPES)[number] | undefined;
  /** If true, `protected_branch_ids` is ignored. */
  readonly applies_to_all_protected_branches?: boolean | undefined;
}

export interface NewRule extends RuleChanges {
  readonly name: string;
  readonly approvals_required: number;
  readonly report_type?: ReportType | undefined;
}

type RuleValues = Omit<ApprovalRule, 'id' | 'namespace_id' | 'project_id' | 'merge_request_id'>;

const EMPTY: RuleValues = {
  name: '',
  rule_type: 'regular',
  report_type: null,
  approvals_required: 0,
  applies_to_all_protected_branches: false,
  source_rule_id: null,
  user_ids: [],
  group_ids: [],
  protected_branch_ids: [],
};

/**
 * Creates a rule. Without a type, it is `any_approver` if it names nobody, and `regular` otherwise. A copy has the name
 * of its source, and its approvers unless others are given.
 *
 * @throws DomainError `invalid` by attribute
 */
export const insertRule = async (
  tx: Tx,
  place: RulePlace,
  input: NewRule,
  source: ApprovalRule | null = null,
): Promise<ApprovalRule> => {
  const { user_ids: users, group_ids: groups } = source ?? EMPTY;
  const start = { ...EMPTY, user_ids: users, group_ids: groups, source_rule_id: source?.id ?? null };
  const changes = source ? { ...input, name: source.name } : input;
  const values = { ...(await valuesAfter(tx, place, start, changes)), report_type: input.report_type ?? null };
  const rule_type = input.rule_type ?? (source?.rule_type === 'regular' ? 'regular' : defaultType(values));
  check({ ...values, rule_type });
  const { user_ids, group_ids, protected_branch_ids, ...columns } = values;
  const { id } = await tx.db
    .insertInto('approval_rules')
    .values({ ...columns, rule_type, ...ownerOf(place) })
    .returning('id')
    .executeTakeFirstOrThrow()
    .catch(asTaken(place));
  await writeMembers(tx, id, { user_ids, group_ids, protected_branch_ids });
  const rule = await getRule(tx, ownerOf(place), id);
  tx.emit(approvalRuleCreated, { ...about(place, rule), payload: described(rule) });
  return rule;
};

/** Changes a rule. Adding people to an `any_approver` rule makes it a `regular` one. @throws DomainError `invalid` */
export const changeRule = async (
  tx: Tx,
  place: RulePlace,
  before: ApprovalRule,
  changes: RuleChanges,
): Promise<ApprovalRule> => {
  const values = await valuesAfter(tx, place, before, changes);
  const rule_type =
    changes.rule_type ?? (before.rule_type === 'any_approver' && namesPeople(values) ? 'regular' : before.rule_type);
  const wanted = { ...values, rule_type };
  check(wanted);
  const changed = COMPARED.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(wanted[name]));
  if (changed.length === 0) return before;
  const { name, approvals_required, applies_to_all_protected_branches } = wanted;
  await tx.db
    .updateTable('approval_rules')
    .set({ name, rule_type, approvals_required, applies_to_all_protected_branches, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .execute()
    .catch(asTaken(place));
  await writeMembers(tx, before.id, wanted);
  const rule = await getRule(tx, ownerOf(place), before.id);
  tx.emit(approvalRuleUpdated, { ...about(place, rule), payload: { ...described(rule), changed: [...changed] } });
  return rule;
};

/** @throws DomainError `modified` */
export const removeRule = async (
  tx: Tx,
  place: RulePlace,
  rule: ApprovalRule,
  unchangedSince: Date | null,
): Promise<void> => {
  const gone = await tx.db
    .deleteFrom('approval_rules')
    .where('id', '=', rule.id)
    .returning('updated_at')
    .executeTakeFirst();
  if (gone) requireUnchanged(gone, unchangedSince);
  tx.emit(approvalRuleDeleted, { ...about(place, rule), payload: described(rule) });
};

const COMPARED = [
  'name',
  'rule_type',
  'approvals_required',
  'applies_to_all_protected_branches',
  'user_ids',
  'group_ids',
  'protected_branch_ids',
] as const;

const valuesAfter = async (tx: Tx, place: RulePlace, before: RuleValues, changes: RuleChanges): Promise<RuleValues> => {
  const { name = before.name, approvals_required = before.approvals_required } = changes;
  const { applies_to_all_protected_branches = before.applies_to_all_protected_branches } = changes;
  const protected_branch_ids = applies_to_all_protected_branches ? [] : changes.protected_branch_ids;
  return {
    name: name.trim(),
    rule_type: before.rule_type,
    report_type: before.report_type,
    approvals_required,
    applies_to_all_protected_branches,
    source_rule_id: before.source_rule_id,
    ...(await approversAfter(tx, place, before, { ...changes, protected_branch_ids })),
  };
};

const namesPeople = ({ user_ids, group_ids }: Pick<RuleValues, 'user_ids' | 'group_ids'>): boolean =>
  user_ids.length + group_ids.length > 0;

const defaultType = (values: RuleValues): RuleType => {
  if (values.report_type !== null) return 'report_approver';
  return namesPeople(values) ? 'regular' : 'any_approver';
};

const MAX_NAME = 255;

/** @throws DomainError `invalid` by attribute */
const check = (rule: RuleValues): void => {
  const problems: Record<string, string[]> = {};
  const { name, rule_type, report_type, approvals_required } = rule;
  if (name === '') problems.name = ["can't be blank"];
  else if (isLongerThan(name, MAX_NAME)) problems.name = [tooLong(MAX_NAME)];
  if (approvals_required < 0) problems.approvals_required = ['must be greater than or equal to 0'];
  if (approvals_required > MAX_APPROVALS) {
    problems.approvals_required = [`must be less than or equal to ${MAX_APPROVALS}`];
  }
  if (rule_type === 'any_approver' && namesPeople(rule)) {
    problems.rule_type = ['any_approver means anyone who may approve: leave users and groups out'];
  }
  if ((rule_type === 'report_approver') !== (report_type !== null)) {
    problems.report_type = ['is required for report_approver, and not allowed for other types'];
  } else if (report_type !== null && name !== REPORT_RULES[report_type]) {
    problems.name = [`must be ${REPORT_RULES[report_type]} for the report type ${report_type}`];
  }
  requireValid(problems);
};

const NOUNS = { group: 'group', project: 'project', merge_request: 'merge request' } as const;

const asTaken =
  ({ kind }: RulePlace) =>
  (error: unknown): never => {
    const constraint = brokenConstraint(error);
    if (constraint === 'approval_rules_any_approver') {
      throw invalid({ rule_type: [`any-approver for the ${NOUNS[kind]} already exists`] });
    }
    if (constraint?.startsWith('approval_rules_')) throw invalid({ name: ['has already been taken'] });
    throw error;
  };

type Members = Pick<RuleValues, 'user_ids' | 'group_ids' | 'protected_branch_ids'>;

/** Replaces the users, groups and protected branches of a rule by those given. */
const writeMembers = async (
  tx: Tx,
  id: number,
  { user_ids, group_ids, protected_branch_ids }: Members,
): Promise<void> => {
  await sql`
    with users_gone as (
      delete from approval_rule_users where rule_id = ${id} and user_id <> all (${user_ids}::bigint[])
    ), groups_gone as (
      delete from approval_rule_groups where rule_id = ${id} and group_id <> all (${group_ids}::bigint[])
    ), branches_gone as (
      delete from approval_rule_protected_branches
      where rule_id = ${id} and protected_branch_id <> all (${protected_branch_ids}::bigint[])
    ), users_added as (
      insert into approval_rule_users (rule_id, user_id)
      select ${id}, unnest(${user_ids}::bigint[]) on conflict do nothing
    ), groups_added as (
      insert into approval_rule_groups (rule_id, group_id)
      select ${id}, unnest(${group_ids}::bigint[]) on conflict do nothing
    )
    insert into approval_rule_protected_branches (rule_id, protected_branch_id)
    select ${id}, unnest(${protected_branch_ids}::bigint[]) on conflict do nothing`.execute(tx.db);
};

/** Subscribers of a merge request get the events of its rules too. */
const about = (place: RulePlace, { id }: ApprovalRule) => ({
  ...ruleAudience(place),
  subject:
    place.kind === 'merge_request'
      ? { type: 'MergeRequest', id: place.merge_request_id }
      : { type: 'ApprovalRule', id },
});

const described = (rule: ApprovalRule) => ({
  id: rule.id,
  namespace_id: rule.namespace_id,
  project_id: rule.project_id,
  merge_request_id: rule.merge_request_id,
  name: rule.name,
  rule_type: rule.rule_type,
  report_type: rule.report_type,
  approvals_required: rule.approvals_required,
});
