import { MERGE_REQUEST_STATES, MERGE_STATUSES } from '#domains/merge-requests/model.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { CHILD, type ImportBatch } from '../importing/batch.ts';
import {
  actor,
  author,
  type Column,
  exported,
  flag,
  iid,
  integer,
  integerOr,
  isObject,
  type Json,
  moment,
  object,
  Refused,
  type Row,
  readInteger,
  readRow,
  readTime,
  sha,
  text,
  textOr,
  time,
  title,
  typesOf,
  word,
} from './columns.ts';
import { IssuableWriter, issuableChildren } from './issuable.ts';
import { authorName, credited } from './issues.ts';
import { childList, childObject, nestedList, readTable } from './reading.ts';
import type { ImportLine, Relation } from './relation.ts';

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
  actor('updated_by_id'),
  time('last_edited_at'),
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

const diffColumns: readonly Column[] = [
  textOr('state', 'collected', { max: 255 }),
  sha('base_commit_sha'),
  sha('head_commit_sha'),
  sha('start_commit_sha'),
  text('real_size', { max: 255 }),
  integer('commits_count'),
  integer('files_count'),
  moment('created_at'),
];
const commitColumns: readonly Column[] = [
  integerOr('relative_order', 0),
  title('sha', { max: 64 }),
  text('message'),
  time('authored_date'),
  time('committed_date'),
  object('trailers', '{}'),
];
const commitTypes = typesOf(commitColumns, {
  diff_id: 'bigint',
  author_name: 'text',
  author_email: 'text',
  committer_name: 'text',
  committer_email: 'text',
});
const fileColumns: readonly Column[] = [
  integerOr('relative_order', 0),
  textOr('old_path', '', { max: 4_096 }),
  textOr('new_path', '', { max: 4_096 }),
  textOr('a_mode', '0', { max: 10 }),
  textOr('b_mode', '0', { max: 10 }),
  flag('new_file'),
  flag('renamed_file'),
  flag('deleted_file'),
  flag('generated_file'),
  flag('too_large'),
  flag('binary', { column: 'is_binary' }),
];
const fileTypes = typesOf(fileColumns, { diff_id: 'bigint', diff: 'text' });

const commitList = nestedList(
  'merge_request_diff_commits n',
  `n.relative_order as "relative_order", n.sha as "sha", n.message as "message", n.authored_date as "authored_date",
   n.committed_date as "committed_date", n.trailers as "trailers",
   json_build_object('name', n.author_name, 'email', n.author_email) as "commit_author",
   json_build_object('name', n.committer_name, 'email', n.committer_email) as "committer"`,
  'n.diff_id = t.id',
  'n.relative_order',
);
const fileList = nestedList(
  'merge_request_diff_files n',
  `${fileColumns.map(({ key, column }) => `n.${column} as "${key}"`).join(', ')}, n.diff as "utf8_diff"`,
  'n.diff_id = t.id',
  'n.relative_order',
);

const people = (key: string, table: string, more: readonly Column[] = []) =>
  childList(key, {
    from: `${table} t`,
    parent: 't.merge_request_id',
    owner: 'merge_requests',
    orderBy: 't.user_id',
    columns: [exported('user_id', 't.user_id'), ...more],
  });

const REVIEWS = ['unreviewed', 'reviewed', 'requested_changes', 'approved', 'unapproved', 'review_started'];

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
      people('merge_request_reviewers', 'merge_request_reviewers', [exported('state', 't.state')]),
      people('approvals', 'merge_request_approvals', [exported('created_at', 't.created_at')]),
      childObject('merge_request_diff', {
        from: 'merge_request_diffs t',
        parent: 't.merge_request_id',
        owner: 'merge_requests',
        where: 't.is_latest',
        columns: [
          ...diffColumns,
          exported('merge_request_diff_commits', commitList),
          exported('merge_request_diff_files', fileList),
        ],
      }),
      ...issuableChildren('merge_request'),
    ],
  ),
  async write(batch, lines) {
    const read = await batch.withoutTaken('merge_requests', batch.read(lines, columns));
    const ids = await batch.takeIds('merge_requests', read.length);
    const writer = new IssuableWriter(batch, 'merge_request');
    const diffs = new DiffWriter(batch);
    const rows = read.map(({ line, row }, index) => {
      const id = ids[index] ?? 0;
      complete(batch, line, row, id);
      writer.add(line, row, id);
      addPeople(batch, writer, line, id);
      diffs.add(line, id);
      return row;
    });
    await writer.resolve();
    await batch.insert('merge_requests', types, rows);
    await diffs.write();
    await writer.write({
      merge_request_reviewers: { state: 'text' },
      merge_request_approvals: { created_at: 'timestamptz' },
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
    // The archive contains the branches of forks too, so the project itself becomes the source.
    source_project_id: batch.place.project_id,
    description: credited(batch.people.credit(value, row.created_at), row.description),
    // An imported merge request is not being merged.
    state: row.state === 'locked' ? 'opened' : row.state,
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
};

const booleanOrNull = (value: unknown): boolean | null =>
  value === true || value === '1' || value === 'true'
    ? true
    : value === false || value === '0' || value === 'false'
      ? false
      : null;

const addPeople = (batch: ImportBatch, writer: IssuableWriter, line: ImportLine, id: number): void => {
  const { value } = line;
  const known = (user: Json) => batch.people.known(user.user_id);
  batch.children(line, value, 'merge_request_assignees', (user) =>
    writer.person('merge_request_assignees', id, known(user)),
  );
  if (value.assignee_id !== undefined)
    writer.person('merge_request_assignees', id, batch.people.known(readInteger(value.assignee_id)));
  batch.children(line, value, 'merge_request_reviewers', (user) => {
    const state = typeof user.state === 'number' ? REVIEWS[user.state] : user.state;
    writer.person('merge_request_reviewers', id, known(user), {
      state: typeof state === 'string' && REVIEWS.includes(state) ? state : 'unreviewed',
    });
  });
  batch.children(line, value, 'approvals', (user) =>
    writer.person('merge_request_approvals', id, known(user), {
      created_at: readTime(user.created_at) ?? new Date().toISOString(),
    }),
  );
};

/** Writes the latest diff of each merge request, with its commits and files. */
class DiffWriter {
  readonly #batch: ImportBatch;
  readonly #diffs: Row[] = [];
  readonly #commits: { index: number; row: Row }[] = [];
  readonly #files: { index: number; row: Row }[] = [];

  constructor(batch: ImportBatch) {
    this.#batch = batch;
  }

  add(line: ImportLine, mergeRequestId: number): void {
    const diff = line.value.merge_request_diff;
    if (!isObject(diff)) return;
    const { people } = this.#batch;
    const index = this.#diffs.length;
    try {
      this.#diffs.push({ ...readRow(diffColumns, diff, people), merge_request_id: mergeRequestId });
    } catch (error) {
      this.#batch.fail(line, error, CHILD);
      return;
    }
    const places = { commits: new Set<unknown>(), files: new Set<unknown>() };
    const place = (taken: Set<unknown>, row: Row) => {
      if (taken.has(row.relative_order)) throw new Refused('relative_order has already been taken');
      taken.add(row.relative_order);
    };
    this.#batch.children(line, diff, 'merge_request_diff_commits', (commit) => {
      const row = readRow(commitColumns, commit, people);
      place(places.commits, row);
      Object.assign(
        row,
        signature('author', commit.commit_author, commit),
        signature('committer', commit.committer, commit),
      );
      this.#commits.push({ index, row });
    });
    this.#batch.children(line, diff, 'merge_request_diff_files', (file) => {
      const row = readRow(fileColumns, file, people);
      place(places.files, row);
      row.diff = typeof file.utf8_diff === 'string' ? file.utf8_diff : typeof file.diff === 'string' ? file.diff : '';
      this.#files.push({ index, row });
    });
  }

  async write(): Promise<void> {
    const batch = this.#batch;
    const ids = await batch.takeIds('merge_request_diffs', this.#diffs.length);
    for (const [index, row] of this.#diffs.entries()) row.id = ids[index];
    await batch.insert(
      'merge_request_diffs',
      typesOf(diffColumns, { id: 'bigint', merge_request_id: 'bigint' }),
      this.#diffs,
    );
    await batch.insert(
      'merge_request_diff_commits',
      commitTypes,
      this.#commits.map(({ index, row }) => ({ ...row, diff_id: ids[index] })),
    );
    await batch.insert(
      'merge_request_diff_files',
      fileTypes,
      this.#files.map(({ index, row }) => ({ ...row, diff_id: ids[index] })),
    );
  }
}

/** Returns the columns of the author or committer. Older archives have the name and address in the commit itself. */
const signature = (role: 'author' | 'committer', nested: unknown, commit: Json): Row => {
  const from = isObject(nested) ? nested : { name: commit[`${role}_name`], email: commit[`${role}_email`] };
  const part = (value: unknown) => (typeof value === 'string' ? value.slice(0, 1_024) : null);
  return { [`${role}_name`]: part(from.name), [`${role}_email`]: part(from.email) };
};
