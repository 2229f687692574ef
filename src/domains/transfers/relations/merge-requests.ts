import { MERGE_REQUEST_STATES, MERGE_STATUSES, REVIEW_STATES } from '#domains/merge-requests/model.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { isObject } from '#platform/values/json.ts';
import type { ImportBatch } from '../importing/batch.ts';
import { RuleWriter, rulesOfMergeRequests } from './approval-rules.ts';
import {
  actor,
  author,
  type Column,
  exported,
  flag,
  iid,
  integer,
  integerOr,
  type Json,
  moment,
  Refused,
  type Row,
  readInteger,
  readTime,
  sha,
  text,
  time,
  title,
  typesOf,
  word,
} from './columns.ts';
import { IssuableWriter, issuableChildren } from './issuable.ts';
import { authorName, credited } from './issues.ts';
import { childList, readTable } from './reading.ts';
import type { ImportLine, Relation } from './relation.ts';
import { VersionWriter, versionChildren } from './versions.ts';

const branch = (key: string): Column => {
  const column = title(key);
  return {
    ...column,
    read: (value, people) => {
      const name = column.read(value, people);
      if (typeof name !== 'string' || !validRefName(name)) throw new Refused(`${key} is not a valid branch name`);
      return name;
    },
  };
};

const columns: readonly Column[] = [
  iid(),
  title('title', { max: 1_024 }),
  text('description'),
  word('state', MERGE_REQUEST_STATES, { otherwise: 'opened' }),
  branch('source_branch'),
  branch('target_branch'),
  author('author_id'),
  flag('draft'),
  flag('squash'),
  flag('discussion_locked', { otherwise: null }),
  flag('allow_maintainer_to_push', { column: 'allow_collaboration' }),
  word('merge_status', MERGE_STATUSES, { otherwise: 'unchecked' }),
  text('merge_error', { max: 10_000 }),
  actor('merge_user_id'),
  sha('merge_commit_sha'),
  sha('squash_commit_sha'),
  sha('rebase_commit_sha'),
  sha('diff_head_sha'),
  integerOr('time_estimate', 0),
  integer('approvals_before_merge'),
  time('merge_after'),
  actor('updated_by_id'),
  time('last_edited_at'),
  actor('last_edited_by_id'),
  moment('created_at'),
  moment('updated_at'),
];

const types = typesOf(columns, {
  id: 'bigint',
  project_id: 'bigint',
  source_project_id: 'bigint',
  milestone_id: 'bigint',
  merge_params: 'jsonb',
  should_remove_source_branch: 'boolean',
  force_remove_source_branch: 'boolean',
  merged_at: 'timestamptz',
  closed_at: 'timestamptz',
  closed_by_id: 'bigint',
  imported: 'boolean',
});

const people = (key: string, table: string, more: readonly Column[] = []) =>
  childList(key, {
    from: `${table} t`,
    parent: 't.merge_request_id',
    owner: 'merge_requests',
    orderBy: 't.user_id',
    columns: [exported('user_id', 't.user_id'), ...more],
  });

export const mergeRequests: Relation = {
  name: 'merge_requests',
  reading: readTable(
    'merge_requests',
    [
      ...columns,
      exported('source_project_id', 't.source_project_id'),
      exported('target_project_id', 't.project_id'),
      exported(
        'merge_params',
        `t.merge_params || jsonb_strip_nulls(jsonb_build_object(
           'should_remove_source_branch', t.should_remove_source_branch,
           'force_remove_source_branch', t.force_remove_source_branch))`,
      ),
      exported('author', authorName()),
      exported(
        'metrics',
        `json_build_object('merged_at', t.merged_at, 'latest_closed_at', t.closed_at, 'latest_closed_by_id', t.closed_by_id)`,
      ),
    ],
    [
      people('merge_request_assignees', 'merge_request_assignees'),
      people('merge_request_reviewers', 'merge_request_reviewers', [
        exported('state', 't.state'),
        exported('created_at', 't.created_at'),
      ]),
      people('approvals', 'merge_request_approvals', [
        exported('created_at', 't.created_at'),
        exported('head_sha', 't.head_sha'),
        exported('patch_id_sha', 't.patch_id'),
      ]),
      ...versionChildren,
      rulesOfMergeRequests,
      ...issuableChildren('merge_request'),
    ],
  ),
  async prepare(batch, lines) {
    const fromForks = lines.filter(({ value }) => isOfFork(value));
    const read = await batch.withoutTaken('merge_requests', batch.read(fromForks, columns));
    await batch.place.forkHeads.keep(
      read.flatMap(({ line, row }) => {
        const sha = headToKeep(line.value, row);
        return sha === null ? [] : [{ iid: Number(row.iid), branch: String(row.source_branch), sha }];
      }),
    );
  },
  async write(batch, lines) {
    const read = await batch.withoutTaken('merge_requests', batch.read(lines, columns));
    const ids = await batch.takeIds('merge_requests', read.length);
    for (const { line, row } of read) placeSource(batch, line.value, row);
    const writer = new IssuableWriter(batch, 'merge_request');
    const diffs = new VersionWriter(batch);
    const rules = new RuleWriter(batch);
    const rows = read.map(({ line, row }, index) => {
      const id = ids[index] ?? 0;
      complete(batch, line, row, id);
      writer.add(line, row, id);
      addPeople(batch, writer, line, id);
      diffs.add(line, id);
      batch.children(line, line.value, 'approval_rules', (rule) => rules.add(line, rule, id));
      return row;
    });
    await writer.resolve();
    await batch.insert('merge_requests', types, rows);
    await diffs.write();
    await rules.write();
    await writer.write({
      merge_request_reviewers: { state: 'text', created_at: 'timestamptz' },
      merge_request_approvals: { created_at: 'timestamptz', head_sha: 'text', patch_id: 'text' },
    });
  },
};

const MERGE_PARAMS = ['commit_message', 'squash_commit_message', 'sha'];

const complete = (batch: ImportBatch, { value }: ImportLine, row: Row, id: number): void => {
  const metrics = isObject(value.metrics) ? value.metrics : {};
  const params = isObject(value.merge_params) ? value.merge_params : {};
  const time = (given: unknown) => {
    try {
      return readTime(given);
    } catch {
      return null;
    }
  };
  Object.assign(row, {
    id,
    project_id: batch.place.project_id,
    description: credited(batch.people.credit(value, row.created_at), row.description),
    // An imported merge request is not being merged.
    state: row.state === 'locked' ? 'opened' : row.state,
    // Auto-merge is not carried: nobody is about to merge it here.
    merge_user_id: row.state === 'merged' ? row.merge_user_id : null,
    draft:
      row.draft === true || (value.draft === undefined && /^\s*(?:\[?(?:draft|wip)\]?:?\s)/i.test(String(row.title))),
    merge_params: JSON.stringify(
      Object.fromEntries(
        MERGE_PARAMS.flatMap((name) => {
          const param = params[name];
          return typeof param === 'string' && param.length <= 100_000 ? [[name, param]] : [];
        }),
      ),
    ),
    should_remove_source_branch: booleanOrNull(params.should_remove_source_branch),
    force_remove_source_branch: booleanOrNull(params.force_remove_source_branch),
    merged_at: time(metrics.merged_at),
    closed_at: time(metrics.latest_closed_at),
    closed_by_id:
      typeof metrics.latest_closed_by_id === 'number' ? batch.people.author(metrics.latest_closed_by_id) : null,
    imported: true,
  });
  // The target branch, its protection or its code owners may differ here. The next reader gets a new check.
  if (row.state === 'opened' && row.source_project_id !== null) row.merge_status = 'unchecked';
};

/**
 * The project itself becomes the source. An open merge request from a fork gets a branch there for its head, because the
 * fork stays behind. Without the commits of the head it has no source any more.
 */
const placeSource = ({ place }: ImportBatch, value: Json, row: Row): void => {
  row.source_project_id = place.project_id;
  if (headToKeep(value, row) === null) return;
  const branch = place.forkHeads.branchOf(Number(row.iid));
  if (branch === null) Object.assign(row, { source_project_id: null, merge_status: 'cannot_be_merged' });
  // The fork may have been deleted, and the merge request has a branch again.
  else row.source_branch = branch;
};

const isOfFork = (value: Json): boolean =>
  typeof value.target_project_id === 'number' && value.source_project_id !== value.target_project_id;

/** Returns the head of an open merge request from a fork. Null for others, and if the archive names no head. */
const headToKeep = (value: Json, row: Row): string | null => {
  if (!isOfFork(value) || (row.state !== 'opened' && row.state !== 'locked')) return null;
  const diff = isObject(value.merge_request_diff) ? value.merge_request_diff : {};
  // Archives of older platforms name no head, but have its branch.
  return shaOrNull(row.diff_head_sha) ?? shaOrNull(diff.head_commit_sha);
};

const booleanOrNull = (value: unknown): boolean | null =>
  value === true || value === '1' || value === 'true'
    ? true
    : value === false || value === '0' || value === 'false'
      ? false
      : null;

const shaOrNull = (value: unknown): string | null =>
  typeof value === 'string' && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null;

const addPeople = (batch: ImportBatch, writer: IssuableWriter, line: ImportLine, id: number): void => {
  const { value } = line;
  const known = (user: Json) => batch.people.known(user.user_id);
  batch.children(line, value, 'merge_request_assignees', (user) =>
    writer.person('merge_request_assignees', id, known(user)),
  );
  if (value.assignee_id !== undefined)
    writer.person('merge_request_assignees', id, batch.people.known(readInteger(value.assignee_id)));
  batch.children(line, value, 'merge_request_reviewers', (user) => {
    const state = typeof user.state === 'number' ? REVIEW_STATES[user.state] : user.state;
    writer.person('merge_request_reviewers', id, known(user), {
      state: REVIEW_STATES.find((each) => each === state) ?? 'unreviewed',
      created_at: readTime(user.created_at) ?? new Date().toISOString(),
    });
  });
  batch.children(line, value, 'approvals', (user) =>
    writer.person('merge_request_approvals', id, known(user), {
      created_at: readTime(user.created_at) ?? new Date().toISOString(),
      head_sha: shaOrNull(user.head_sha),
      patch_id: shaOrNull(user.patch_id_sha),
    }),
  );
};
