import { sql } from 'kysely';
import { MILESTONE_STATES } from '#domains/milestones/model.ts';
import { isObject } from '#platform/values/json.ts';
import {
  type Column,
  day,
  flag,
  type Json,
  moment,
  Refused,
  readRow,
  text,
  textOr,
  title,
  typesOf,
  usableIid,
  word,
} from '../relations/columns.ts';
import type { ImportBatch } from './batch.ts';

// The archive repeats the full label or milestone wherever it is used. The import finds it by title (reference:
// export-archive §4). It looks for group labels and milestones in the groups that contain the project, and for others
// in the project. It creates missing ones in the project.

export const labelColumns: readonly Column[] = [
  title('title'),
  color(),
  text('description'),
  flag('template'),
  flag('archived'),
  flag('lock_on_merge'),
  moment('created_at'),
  moment('updated_at'),
];

export const milestoneColumns: readonly Column[] = [
  title('title'),
  text('description'),
  word('state', MILESTONE_STATES, { otherwise: 'active' }),
  day('due_date'),
  day('start_date'),
  moment('created_at'),
  moment('updated_at'),
];

function color(): Column {
  const column = textOr('color', '#428BCA');
  return {
    ...column,
    read: (value, people) => {
      const read = column.read(value, people);
      if (typeof read !== 'string' || !/^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/i.test(read))
        throw new Refused('color must be a valid color code');
      return read;
    },
  };
}

/** Reads the label in a line or link. @throws Refused */
export const readLabel = (batch: ImportBatch, value: unknown): Reference =>
  reference(batch, value, 'label', labelColumns, isGroupLabel);

/** Reads the milestone in a line or item. @throws Refused */
export const readMilestone = (batch: ImportBatch, value: unknown): Reference => {
  const found = reference(batch, value, 'milestone', milestoneColumns, isGroupMilestone);
  // A milestone without a usable number gets the next one.
  return { ...found, iid: isObject(value) ? usableIid(value.iid) : null };
};

export interface Reference {
  readonly title: string;
  readonly ofGroup: boolean;
  readonly row: Readonly<Record<string, unknown>>;
  readonly iid: number | null;
}

const reference = (
  batch: ImportBatch,
  value: unknown,
  what: string,
  columns: readonly Column[],
  isOfGroup: (line: Json) => boolean,
): Reference => {
  if (!isObject(value)) throw new Refused(`${what} is missing`);
  const row = readRow(columns, value, batch.people);
  return { title: String(row.title), ofGroup: isOfGroup(value), row, iid: null };
};

const isGroupLabel = (line: Json) => line.type === 'GroupLabel';
const isGroupMilestone = (line: Json) => typeof line.group_id === 'number' && typeof line.project_id !== 'number';

/** Returns a function from references to label ids. Creates missing labels. */
export const resolveLabels = async (
  batch: ImportBatch,
  wanted: readonly Reference[],
): Promise<(label: Reference) => number> => {
  const { project_id } = batch.place;
  const found = await findTitles(batch, 'labels', wanted);
  const missing = distinctMissing(found, wanted);
  if (missing.length > 0) {
    const ids = await batch.takeIds('labels', missing.length);
    await batch.insert(
      'labels',
      typesOf(labelColumns, { id: 'bigint', project_id: 'bigint' }),
      missing.map(({ row }, index) => ({ ...row, id: ids[index], project_id })),
    );
    for (const [index, { title }] of missing.entries()) found.ofProject.set(title, ids[index] ?? 0);
  }
  return found.idOf;
};

/**
 * Returns a function from references to milestone ids. Creates missing milestones, with their own number if it is free.
 */
export const resolveMilestones = async (
  batch: ImportBatch,
  wanted: readonly Reference[],
): Promise<(milestone: Reference) => number> => {
  const { project_id } = batch.place;
  const found = await findTitles(batch, 'milestones', wanted);
  const missing = distinctMissing(found, wanted);
  if (missing.length > 0) {
    const iids = missing.flatMap(({ iid }) => iid ?? []);
    const [numbers] = await batch.query(sql<{ taken: number[]; highest: number }>`
      select coalesce(array_agg(iid) filter (where iid = any (${iids}::int[])), '{}') as taken, coalesce(max(iid), 0) as highest
      from milestones where project_id = ${project_id}`);
    const taken = new Set(numbers?.taken ?? []);
    let highest = Math.max(numbers?.highest ?? 0, ...iids);
    const ids = await batch.takeIds('milestones', missing.length);
    const rows = missing.map(({ row, iid }, index) => {
      const number = iid === null || taken.has(iid) ? ++highest : iid;
      taken.add(number);
      return { ...row, id: ids[index], project_id, iid: number };
    });
    await batch.insert(
      'milestones',
      typesOf(milestoneColumns, { id: 'bigint', project_id: 'bigint', iid: 'integer' }),
      rows,
    );
    for (const [index, { title }] of missing.entries()) found.ofProject.set(title, ids[index] ?? 0);
  }
  return found.idOf;
};

interface Found {
  readonly ofProject: Map<string, number>;
  readonly ofGroups: Map<string, number>;
  readonly idOf: (reference: Reference) => number;
}

const findTitles = async (
  batch: ImportBatch,
  table: 'labels' | 'milestones',
  wanted: readonly Reference[],
): Promise<Found> => {
  const { project_id, namespace_ids } = batch.place;
  const titles = [...new Set(wanted.map(({ title }) => title))];
  const ofProject = new Map<string, number>();
  const ofGroups = new Map<string, number>();
  if (titles.length > 0) {
    // The nearest group comes last and wins.
    const rows = await batch.query(sql<{ id: number; title: string; of_group: boolean }>`
      select id, title, namespace_id is not null as of_group from ${sql.table(table)}
      where title = any (${titles}::text[])
        and (project_id = ${project_id} or namespace_id = any (${namespace_ids}::bigint[]))
      order by array_position(${namespace_ids}::bigint[], namespace_id)`);
    for (const { id, title, of_group } of rows) (of_group ? ofGroups : ofProject).set(title, id);
  }
  return {
    ofProject,
    ofGroups,
    idOf: ({ title, ofGroup }) =>
      (ofGroup ? ofGroups.get(title) : undefined) ?? ofProject.get(title) ?? ofGroups.get(title) ?? 0,
  };
};

const distinctMissing = ({ ofProject, ofGroups }: Found, wanted: readonly Reference[]): Reference[] => {
  const missing = new Map<string, Reference>();
  for (const each of wanted) {
    if (ofProject.has(each.title) || (each.ofGroup && ofGroups.has(each.title))) continue;
    const known = missing.get(each.title);
    if (!known || (known.iid === null && each.iid !== null)) missing.set(each.title, each);
  }
  return [...missing.values()];
};
