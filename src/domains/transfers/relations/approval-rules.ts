import { sql } from 'kysely';
import { MAX_APPROVALS, REPORT_TYPES, RULE_TYPES } from '#domains/approvals/model.ts';
import type { ImportBatch } from '../importing/batch.ts';
import {
  type Column,
  exported,
  flag,
  integerOr,
  type Json,
  moment,
  Refused,
  type Row,
  readRow,
  title,
  typesOf,
  word,
} from './columns.ts';
import { childList, nestedList, readTable } from './reading.ts';
import type { ImportLine, Relation } from './relation.ts';

// Approval rules of the project and of its merge requests, with the users who are known here. Groups are found by their
// full path: those that contain the project, and for administrators all.

const columns: readonly Column[] = [
  title('name'),
  word('rule_type', RULE_TYPES),
  word('report_type', REPORT_TYPES, { otherwise: null }),
  integerOr('approvals_required', 0),
  flag('applies_to_all_protected_branches'),
  moment('created_at'),
];
const types = typesOf(columns, {
  id: 'bigint',
  project_id: 'bigint',
  merge_request_id: 'bigint',
  source_rule_id: 'bigint',
});

const users = exported(
  'users',
  nestedList('approval_rule_users n', 'n.user_id as "user_id"', 'n.rule_id = t.id', 'n.user_id'),
);
// Anyone who may export may see these: public groups, and those that contain the project.
const groups = exported(
  'groups',
  nestedList(
    'approval_rule_groups r join namespaces n on n.id = r.group_id',
    'n.full_path as "full_path"',
    `r.rule_id = t.id and (n.visibility_level = 20 or exists (
       select from projects p join namespaces above on above.id = p.namespace_id
       where p.id = coalesce(t.project_id, (select m.project_id from merge_requests m where m.id = t.merge_request_id))
         and n.id = any (above.traversal_ids)))`,
  ),
);
const branches = exported(
  'protected_branches',
  nestedList(
    'approval_rule_protected_branches r join protected_branches n on n.id = r.protected_branch_id',
    'n.name as "name"',
    'r.rule_id = t.id',
  ),
);
const source = exported('source_rule', '(select n.name from approval_rules n where n.id = t.source_rule_id)');

/** The rules of merge requests, as a child of their lines. */
export const rulesOfMergeRequests = childList('approval_rules', {
  from: 'approval_rules t',
  parent: 't.merge_request_id',
  owner: 'merge_requests',
  columns: [...columns, users, groups, source],
});

/** Collects rules, and writes them with their users and branches. */
export class RuleWriter {
  readonly #batch: ImportBatch;
  readonly #rules: {
    row: Row;
    user_ids: readonly number[];
    groups: readonly unknown[];
    branches: readonly unknown[];
    source: unknown;
  }[] = [];
  readonly #taken = new Set<string>();

  constructor(batch: ImportBatch) {
    this.#batch = batch;
  }

  /** Marks a rule of the project as present. */
  take(row: { readonly name: unknown; readonly rule_type: unknown }): void {
    for (const key of keysOf(row, 'project')) this.#taken.add(key);
  }

  /** Reads a rule of the project, or of one of its merge requests. @throws Refused */
  add(line: ImportLine, value: Json, mergeRequestId: number | null): void {
    const batch = this.#batch;
    const row = readRow(columns, value, batch.people);
    const { rule_type, report_type } = row;
    const required = Number(row.approvals_required);
    if (required < 0 || required > MAX_APPROVALS) throw new Refused('approvals_required must be from 0 to 100');
    // Rules of code owners follow from the file in the repository.
    if (rule_type === 'code_owner') return;
    if ((rule_type === 'report_approver') !== (report_type !== null)) throw new Refused('report_type does not fit');
    const keys = keysOf(row, mergeRequestId ?? 'project');
    if (keys.some((key) => this.#taken.has(key))) throw new Refused('name has already been taken');
    for (const key of keys) this.#taken.add(key);
    const userIds = new Set<number>();
    const names: unknown[] = [];
    const paths: unknown[] = [];
    if (rule_type !== 'any_approver') {
      batch.children(line, value, 'users', (user) => {
        const id = batch.people.known(user.user_id);
        if (id !== null) userIds.add(id);
      });
      batch.children(line, value, 'groups', (group) => void paths.push(group.full_path));
    }
    if (mergeRequestId === null) {
      batch.children(line, value, 'protected_branches', (branch) => void names.push(branch.name));
    }
    Object.assign(row, { project_id: null, merge_request_id: mergeRequestId, source_rule_id: null });
    if (mergeRequestId === null) row.project_id = batch.place.project_id;
    this.#rules.push({ row, user_ids: [...userIds], groups: paths, branches: names, source: value.source_rule });
  }

  async write(): Promise<void> {
    const batch = this.#batch;
    const rules = this.#rules;
    if (rules.length === 0) return;
    const { project_id, namespace_ids } = batch.place;
    const paths = rules.flatMap((rule) => rule.groups).filter((path) => typeof path === 'string');
    const ids = await batch.takeIds('approval_rules', rules.length);
    const known = await batch.query(sql<{ kind: string; name: string; id: number }>`
      select 'group' as kind, full_path as name, id from namespaces
      where kind = 'group' and full_path = any (${paths}::text[])
        and (${batch.people.considersMembers}::boolean or id = any (${namespace_ids}::bigint[]))
      union all
      select 'branch' as kind, name, id from protected_branches where project_id = ${project_id}
      union all
      select 'rule', name, id from approval_rules
      where project_id = ${project_id} and rule_type in ('any_approver', 'regular')`);
    const idOf = (kind: string, name: unknown) => known.find((each) => each.kind === kind && each.name === name)?.id;
    const rows = rules.map(({ row, source: name }, index) => ({
      ...row,
      id: ids[index] ?? 0,
      source_rule_id: row.merge_request_id === null ? null : (idOf('rule', name) ?? null),
    }));
    await batch.insert('approval_rules', types, rows);
    const membersOf = <T>(of: (rule: (typeof rules)[number]) => readonly T[], column: string) =>
      rules.flatMap((rule, index) => of(rule).map((value) => ({ rule_id: ids[index] ?? 0, [column]: value })));
    await batch.insert(
      'approval_rule_users',
      { rule_id: 'bigint', user_id: 'bigint' },
      membersOf(({ user_ids }) => user_ids, 'user_id'),
    );
    await batch.insert(
      'approval_rule_groups',
      { rule_id: 'bigint', group_id: 'bigint' },
      membersOf((rule) => [...new Set(rule.groups.flatMap((path) => idOf('group', path) ?? []))], 'group_id'),
    );
    await batch.insert(
      'approval_rule_protected_branches',
      { rule_id: 'bigint', protected_branch_id: 'bigint' },
      membersOf(
        (rule) => [...new Set(rule.branches.flatMap((name) => idOf('branch', name) ?? []))],
        'protected_branch_id',
      ),
    );
  }
}

/** The key that must be unique in one place: the name within a type, and the rule for anyone. */
const keysOf = (
  { name, rule_type }: { readonly name?: unknown; readonly rule_type?: unknown },
  place: number | 'project',
): string[] => [
  `${place} ${String(rule_type)} ${String(name)}`,
  ...(rule_type === 'any_approver' ? [`${place} any_approver`] : []),
];

export const approvalRules: Relation = {
  name: 'approval_rules',
  reading: readTable('approval_rules', [...columns, users, groups, branches]),
  async write(batch, lines) {
    const writer = new RuleWriter(batch);
    const present = await batch.query(sql<{ name: string; rule_type: string }>`
      select name, rule_type from approval_rules where project_id = ${batch.place.project_id}`);
    for (const rule of present) writer.take(rule);
    for (const line of lines) {
      try {
        writer.add(line, line.value, null);
      } catch (error) {
        batch.fail(line, error);
      }
    }
    await writer.write();
  },
};
