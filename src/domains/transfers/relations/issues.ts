import { ISSUE_STATES, ISSUE_TYPES } from '#domains/issues/model.ts';
import { isObject } from '#platform/values/json.ts';
import {
  actor,
  author,
  type Column,
  day,
  exported,
  flag,
  iid,
  integer,
  integerOr,
  type Json,
  moment,
  readInteger,
  text,
  time,
  title,
  typesOf,
  word,
} from './columns.ts';
import { IssuableWriter, issuableChildren } from './issuable.ts';
import { childList, readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns: readonly Column[] = [
  iid(),
  title('title', { max: 1_024 }),
  text('description'),
  word('state', ISSUE_STATES, { otherwise: 'opened' }),
  author('author_id'),
  flag('confidential'),
  flag('discussion_locked', { otherwise: null }),
  word('issue_type', ISSUE_TYPES, { otherwise: 'issue' }),
  day('due_date'),
  integer('weight'),
  integer('relative_position'),
  integerOr('time_estimate', 0),
  text('health_status', { max: 255 }),
  text('external_key', { max: 255 }),
  time('closed_at'),
  actor('closed_by_id'),
  actor('updated_by_id'),
  time('last_edited_at'),
  actor('last_edited_by_id'),
  moment('created_at'),
  moment('updated_at'),
];

const types = typesOf(columns, {
  id: 'bigint',
  project_id: 'bigint',
  milestone_id: 'bigint',
  severity: 'text',
  imported: 'boolean',
});

export const issues: Relation = {
  name: 'issues',
  reading: readTable(
    'issues',
    [...columns, exported('severity', 't.severity'), exported('author', authorName())],
    [
      childList('issue_assignees', {
        from: 'issue_assignees t',
        parent: 't.issue_id',
        owner: 'issues',
        orderBy: 't.user_id',
        columns: [exported('user_id', 't.user_id')],
      }),
      ...issuableChildren('issue'),
    ],
  ),
  async write(batch, lines) {
    const read = await batch.withoutTaken('issues', batch.read(lines, columns));
    const ids = await batch.takeIds('issues', read.length);
    const writer = new IssuableWriter(batch, 'issue');
    const rows = read.map(({ line, row }, index) => {
      const id = ids[index] ?? 0;
      Object.assign(row, {
        id,
        project_id: batch.place.project_id,
        imported: true,
        description: credited(batch.people.credit(line.value, row.created_at), row.description),
        severity: severityOf(line.value),
        issue_type: typeof line.value.issue_type === 'string' ? row.issue_type : baseType(line.value),
      });
      writer.add(line, row, id);
      batch.children(line, line.value, 'issue_assignees', ({ user_id }) =>
        writer.person('issue_assignees', id, batch.people.known(user_id)),
      );
      // Older archives have a single assignee.
      if (line.value.assignee_id !== undefined)
        writer.person('issue_assignees', id, batch.people.known(readInteger(line.value.assignee_id)));
      return row;
    });
    await writer.resolve();
    await batch.insert('issues', types, rows);
    await writer.write();
  },
};

/** SQL: the author's name, for importers that do not know the author. */
export function authorName(): string {
  return `(select json_build_object('name', u.name) from users u where u.id = t.author_id)`;
}

export const credited = (credit: string, description: unknown): string | null =>
  credit === ''
    ? typeof description === 'string'
      ? description
      : null
    : credit + (typeof description === 'string' ? description : '');

const baseType = (line: Json): string => {
  const base = isObject(line.work_item_type) ? line.work_item_type.base_type : null;
  return ISSUE_TYPES.find((type) => type === base) ?? 'issue';
};

const SEVERITIES = ['UNKNOWN', 'LOW', 'MEDIUM', 'HIGH', 'CRITICAL'];
const severityOf = (line: Json): string =>
  typeof line.severity === 'string' && SEVERITIES.includes(line.severity.toUpperCase())
    ? line.severity.toUpperCase()
    : 'UNKNOWN';
