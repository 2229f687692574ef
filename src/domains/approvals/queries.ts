import { type RawBuilder, sql } from 'kysely';
import { findGroup } from '#domains/groups/queries.ts';
import type { Container, ContainerKind } from '#domains/planning/container.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { ApprovalRule, RuleOwner } from './model.ts';
import { ownerOf, requireReading } from './policy.ts';

/**
 * Lists the rules of the group or project itself by id.
 *
 * @throws DomainError `not_found`, `unauthenticated`, `forbidden`
 */
export const listApprovalRules = (ctx: Context, container: Container): List<ApprovalRule> => {
  requireReading(ctx, container);
  return listRules(ctx, ownerOf(container));
};

/** Lists the rules of one owner by id. The caller checks permissions. */
export const listRules = (ctx: Pick<Context, 'db'>, owner: RuleOwner): List<ApprovalRule> =>
  listOf(
    ctx.db,
    rulesQuery(ctx).where((eb) => eb.and(owner)),
    [{ by: sql`approval_rules.id`, of: ({ id }) => id }],
    'asc',
  );

/**
 * Returns a rule of the group or project itself.
 *
 * @throws DomainError `not_found` (Approval Rule), `unauthenticated`, `forbidden`
 */
export const getApprovalRule = async (ctx: Context, container: Container, id: number): Promise<ApprovalRule> => {
  requireReading(ctx, container);
  return getRule(ctx, ownerOf(container), id);
};

/** Returns the rule if it belongs to the owner. The caller checks permissions. @throws DomainError `not_found` */
export const getRule = async (ctx: Pick<Context, 'db'>, owner: RuleOwner, id: number): Promise<ApprovalRule> => {
  const rule = await rulesQuery(ctx)
    .where((eb) => eb.and({ ...owner, id }))
    .executeTakeFirst();
  if (!rule) throw notFound('Approval Rule');
  return rule;
};

/**
 * Returns the group or project that has the rule.
 *
 * @throws DomainError `not_found` (Approval Rule), also if the caller may not know of it
 */
export const getContainerOfRule = async (ctx: Context, kind: ContainerKind, id: number): Promise<Container> => {
  const rule = (await rulesByIds(ctx, [id])).get(id);
  const place = kind === 'group' ? rule?.namespace_id : rule?.project_id;
  if (kind === 'group') {
    const group = await findGroup(ctx, { id: place ?? 0 });
    if (group) return { kind, group };
  } else {
    const project = await findProject(ctx, { id: place ?? 0 });
    if (project) return { kind, project };
  }
  throw notFound('Approval Rule');
};

/** Returns rules by id. The caller checks permissions. */
export const rulesByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ApprovalRule>> => {
  const rules = await readRules(ctx, sql`approval_rules.id = any (${ids}::bigint[])`);
  return new Map(rules.map((rule) => [rule.id, rule]));
};

/** Returns the rules of many owners of one kind, by owner and then by id. Owners without rules are absent. */
export const rulesByOwners = async (
  ctx: Pick<Context, 'db'>,
  kind: 'namespace_id' | 'project_id' | 'merge_request_id',
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly ApprovalRule[]>> => {
  if (ids.length === 0) return new Map();
  const rules = await readRules(ctx, sql`${sql.ref(`approval_rules.${kind}`)} = any (${ids}::bigint[])`);
  return Map.groupBy(rules, (rule) => rule[kind] ?? 0);
};

const readRules = (ctx: Pick<Context, 'db'>, which: RawBuilder<unknown>): Promise<ApprovalRule[]> =>
  rulesQuery(ctx).where(sql<boolean>`${which}`).orderBy('approval_rules.id').execute();

const rulesQuery = ({ db }: Pick<Context, 'db'>) =>
  db
    .selectFrom('approval_rules')
    .select([
      'id',
      'namespace_id',
      'project_id',
      'merge_request_id',
      'name',
      'approvals_required',
      'applies_to_all_protected_branches',
      'source_rule_id',
      sql<ApprovalRule['rule_type']>`rule_type`.as('rule_type'),
      sql<ApprovalRule['report_type']>`report_type`.as('report_type'),
      idsOf('approval_rule_users', 'user_id').as('user_ids'),
      idsOf('approval_rule_groups', 'group_id').as('group_ids'),
      idsOf('approval_rule_protected_branches', 'protected_branch_id').as('protected_branch_ids'),
    ]);

const idsOf = (table: string, column: string) =>
  sql<
    number[]
  >`array(select m.${sql.ref(column)} from ${sql.table(table)} m where m.rule_id = approval_rules.id order by 1)`;
