import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import type { ImportBatch } from '../importing/batch.ts';
import { type Column, exported, flag, type Json, moment, Refused, type Row, title, typesOf } from './columns.ts';
import { childList, readTable } from './reading.ts';
import type { ImportLine, Relation } from './relation.ts';

type Kind = 'branch' | 'tag';

const LEVELS = new Set<unknown>([0, 30, 40, 60]);
const ACTIONS = {
  branch: { push_access_levels: 'push', merge_access_levels: 'merge', unprotect_access_levels: 'unprotect' },
  tag: { create_access_levels: 'create' },
} as const;
const NEEDED: Readonly<Record<Kind, readonly string[]>> = { branch: ['push', 'merge'], tag: ['create'] };

const levelsOf = (kind: Kind, key: string, action: string) =>
  childList(key, {
    from: 'protection_levels t',
    parent: `t.protected_${kind}_id`,
    owner: kind === 'branch' ? 'protected_branches' : 'protected_tags',
    where: `t.action = '${action}'`,
    columns: ['access_level', 'user_id', 'group_id'].map((name) => exported(name, `t.${name}`)),
  });

const relation = (kind: Kind, name: 'protected_branches' | 'protected_tags', columns: readonly Column[]): Relation => ({
  name,
  reading: readTable(
    name,
    columns,
    Object.entries(ACTIONS[kind]).map(([key, action]) => levelsOf(kind, key, action)),
  ),
  async write(batch, lines) {
    const read = batch.read(lines, columns);
    const names = read.map(({ row }) => row.name);
    const there = await batch.query(sql<{ name: string }>`
      select name from ${sql.table(name)} where project_id = ${batch.place.project_id} and name = any (${names}::text[])`);
    const taken = new Set<unknown>(there.map((row) => row.name));
    const kept = read.filter(({ line, row }) => {
      if (taken.has(row.name)) batch.fail(line, new Refused('name has already been taken'));
      return !taken.has(row.name) && taken.add(row.name);
    });
    const ids = await batch.takeIds(name, kept.length);
    const levels: Row[] = [];
    for (const [index, { line, row }] of kept.entries()) {
      const id = ids[index] ?? 0;
      Object.assign(row, { id, project_id: batch.place.project_id });
      levels.push(...readLevels(batch, kind, line).map((level) => ({ ...level, [`protected_${kind}_id`]: id })));
    }
    await batch.insert(
      name,
      typesOf(columns, { id: 'bigint', project_id: 'bigint' }),
      kept.map(({ row }) => row),
    );
    await batch.insert(
      'protection_levels',
      { [`protected_${kind}_id`]: 'bigint', action: 'text', access_level: 'smallint', user_id: 'bigint' },
      levels,
    );
  },
});

/**
 * Returns the access levels of a line. Keeps known users and drops groups of the other hub. Actions that nobody is left
 * for fall to Maintainers.
 */
const readLevels = (batch: ImportBatch, kind: Kind, line: ImportLine): Row[] => {
  const levels: Row[] = [];
  for (const [key, action] of Object.entries(ACTIONS[kind])) {
    batch.children(line, line.value, key, (level: Json) => {
      const user_id = batch.people.known(level.user_id);
      if (user_id !== null) levels.push({ action, user_id, access_level: null });
      else if (LEVELS.has(level.access_level) && !level.user_id && !level.group_id)
        levels.push({ action, user_id: null, access_level: level.access_level });
    });
  }
  for (const action of NEEDED[kind]) {
    if (!levels.some((level) => level.action === action))
      levels.push({ action, user_id: null, access_level: MAINTAINER });
  }
  return levels;
};

export const protectedBranches = relation('branch', 'protected_branches', [
  title('name'),
  flag('allow_force_push'),
  flag('code_owner_approval_required'),
  moment('created_at'),
]);
export const protectedTags = relation('tag', 'protected_tags', [title('name'), moment('created_at')]);
