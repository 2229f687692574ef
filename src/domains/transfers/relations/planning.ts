import { sql } from 'kysely';
import { isObject } from '#platform/values/json.ts';
import type { ImportBatch } from '../importing/batch.ts';
import {
  labelColumns,
  milestoneColumns,
  readLabel,
  readMilestone,
  resolveLabels,
  resolveMilestones,
} from '../importing/references.ts';
import { exported, objectsIn, type Row, readInteger } from './columns.ts';
import { childList, readTable } from './reading.ts';
import type { ImportLine, Relation } from './relation.ts';

/** Reads each line. Lines that cannot be read are recorded as failures. */
const readEach = <T>(
  batch: ImportBatch,
  lines: readonly ImportLine[],
  read: (line: ImportLine) => T,
): { line: ImportLine; value: T }[] => {
  const found: { line: ImportLine; value: T }[] = [];
  for (const line of lines) {
    try {
      found.push({ line, value: read(line) });
    } catch (error) {
      batch.fail(line, error);
    }
  }
  return found;
};

export const labels: Relation = {
  name: 'labels',
  reading: readTable(
    'labels',
    [
      ...labelColumns,
      exported('type', `'ProjectLabel'`),
      exported('project_id', 't.project_id'),
      exported('group_id', 'null'),
      exported(
        'priorities',
        `case when t.priority is null then '[]'::json else json_build_array(json_build_object('priority', t.priority)) end`,
      ),
    ],
    [
      childList('subscriptions', {
        from: 'subscriptions t',
        parent: 't.label_id',
        owner: 'labels',
        orderBy: 't.user_id',
        columns: [exported('user_id', 't.user_id'), exported('subscribed', 't.subscribed')],
      }),
    ],
  ),
  async write(batch, lines) {
    const read = readEach(batch, lines, ({ value }) => ({
      label: readLabel(batch, value),
      priority: priorityOf(value),
    }));
    const idOf = await resolveLabels(
      batch,
      read.map(({ value }) => value.label),
    );
    const subscriptions = read.flatMap(({ line, value: { label } }) => {
      const rows: Row[] = [];
      batch.children(line, line.value, 'subscriptions', ({ user_id, subscribed }) => {
        const user = batch.people.known(user_id);
        if (user !== null && !label.ofGroup)
          rows.push({ label_id: idOf(label), user_id: user, subscribed: subscribed !== false });
      });
      return rows;
    });
    await batch.insert(
      'subscriptions',
      { label_id: 'bigint', user_id: 'bigint', subscribed: 'boolean' },
      subscriptions,
      { unlessThere: true },
    );
    const prioritised = read.filter(({ value }) => value.priority !== null);
    if (prioritised.length === 0) return;
    const ids = prioritised.map(({ value }) => idOf(value.label));
    const priorities = prioritised.map(({ value }) => value.priority);
    // Group labels keep their priority here.
    await batch.query(sql`
      update labels set priority = given.priority
      from unnest(${ids}::bigint[], ${priorities}::int[]) as given (id, priority)
      where labels.id = given.id and labels.project_id = ${batch.place.project_id}`);
  },
};

const priorityOf = (line: ImportLine['value']): number | null => {
  const [first] = objectsIn(line, 'priorities');
  const priority = isObject(first) ? readInteger(first.priority) : null;
  return priority !== null && priority >= 0 ? priority : null;
};

export const milestones: Relation = {
  name: 'milestones',
  reading: readTable('milestones', [
    exported('iid', 't.iid'),
    ...milestoneColumns,
    exported('project_id', 't.project_id'),
    exported('group_id', 'null'),
  ]),
  async write(batch, lines) {
    const read = readEach(batch, lines, ({ value }) => readMilestone(batch, value));
    await resolveMilestones(
      batch,
      read.map(({ value }) => value),
    );
  },
};
