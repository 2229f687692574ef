import { sql } from 'kysely';
import { LINK_TYPES } from '#domains/releases/attributes.ts';
import { type Reference, readMilestone, resolveMilestones } from '../importing/references.ts';
import {
  author,
  type Column,
  exported,
  moment,
  Refused,
  type Row,
  readRow,
  sha,
  text,
  title,
  typesOf,
  word,
} from './columns.ts';
import { milestoneObject } from './issuable.ts';
import { childList, readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns: readonly Column[] = [
  title('tag'),
  text('name', { max: 255 }),
  text('description'),
  sha('sha'),
  author('author_id'),
  moment('released_at'),
  moment('created_at'),
  moment('updated_at'),
];
const linkColumns: readonly Column[] = [
  title('name'),
  url(),
  text('filepath', { max: 255 }),
  word('link_type', LINK_TYPES, { otherwise: 'other' }),
  moment('created_at'),
];

/** People follow these links, so only schemes for browsers are allowed. */
function url(): Column {
  const column = title('url', { max: 4_096 });
  return {
    ...column,
    read: (value, people) => {
      const read = column.read(value, people);
      if (typeof read !== 'string' || !/^(?:https?|ftp):\/\//i.test(read)) throw new Refused('url is not allowed');
      return read;
    },
  };
}

export const releases: Relation = {
  name: 'releases',
  reading: readTable('releases', columns, [
    childList('links', { from: 'release_links t', parent: 't.release_id', owner: 'releases', columns: linkColumns }),
    childList('milestone_releases', {
      from: 'release_milestones t',
      parent: 't.release_id',
      owner: 'releases',
      orderBy: 't.milestone_id',
      columns: [exported('milestone', milestoneObject('t.milestone_id'))],
    }),
  ]),
  async write(batch, lines) {
    const read = batch.read(lines, columns);
    const tags = read.map(({ row }) => row.tag);
    const there = await batch.query(sql<{ tag: string }>`
      select tag from releases where project_id = ${batch.place.project_id} and tag = any (${tags}::text[])`);
    const taken = new Set<unknown>(there.map(({ tag }) => tag));
    const kept = read.filter(({ line, row }) => {
      if (taken.has(row.tag)) batch.fail(line, new Refused('tag has already been taken'));
      return !taken.has(row.tag) && taken.add(row.tag);
    });
    const ids = await batch.takeIds('releases', kept.length);
    const links: Row[] = [];
    const milestones: { release_id: number; milestone: Reference }[] = [];
    for (const [index, { line, row }] of kept.entries()) {
      const release_id = ids[index] ?? 0;
      Object.assign(row, { id: release_id, project_id: batch.place.project_id });
      batch.children(line, line.value, 'links', (link) =>
        links.push({ ...readRow(linkColumns, link, batch.people), release_id }),
      );
      batch.children(line, line.value, 'milestone_releases', (each) =>
        milestones.push({ release_id, milestone: readMilestone(batch, each.milestone) }),
      );
    }
    const milestoneId = await resolveMilestones(
      batch,
      milestones.map(({ milestone }) => milestone),
    );
    await batch.insert(
      'releases',
      typesOf(columns, { id: 'bigint', project_id: 'bigint' }),
      kept.map(({ row }) => row),
    );
    await batch.insert('release_links', typesOf(linkColumns, { release_id: 'bigint' }), links, { unlessThere: true });
    await batch.insert(
      'release_milestones',
      { release_id: 'bigint', milestone_id: 'bigint' },
      milestones.map(({ release_id, milestone }) => ({ release_id, milestone_id: milestoneId(milestone) })),
      { unlessThere: true },
    );
  },
};
