import { isObject } from '#platform/values/json.ts';
import { CHILD, type ImportBatch } from '../importing/batch.ts';
import {
  type Column,
  exported,
  flag,
  integer,
  integerOr,
  type Json,
  moment,
  object,
  Refused,
  type Row,
  readRow,
  sha,
  text,
  textOr,
  time,
  title,
  typesOf,
} from './columns.ts';
import { childList, childObject, nestedList } from './reading.ts';
import type { ChildReading, ImportLine } from './relation.ts';

// The newest version of a merge request is at the key of the reference, with its files. The earlier ones are at a key
// that other platforms ignore.

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
  flag('collapsed'),
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

/** The most commits of earlier versions of one merge request in the archive. Beyond it, versions have only their number. */
const MAX_OLDER_COMMITS = 10_000;
// Without files: these are computed from the repository, which has the commits of all versions.
const OLDER_DIFFS = `(select d.*, sum(least(coalesce(d.commits_count, 0), 1000))
  over (partition by d.merge_request_id order by d.id desc) as commits_so_far from merge_request_diffs d where not d.is_latest) t`;

export const versionChildren: readonly ChildReading[] = [
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
  childList('merge_request_diffs', {
    from: OLDER_DIFFS,
    parent: 't.merge_request_id',
    owner: 'merge_requests',
    columns: [
      exported('state', `case t.state when 'empty' then 'empty' else 'without_files' end`),
      ...diffColumns.filter(({ key }) => key !== 'state'),
      exported(
        'merge_request_diff_commits',
        `case when t.commits_so_far <= ${MAX_OLDER_COMMITS} then ${commitList} else '[]'::json end`,
      ),
    ],
  }),
];

/** As many as a merge request has at most. */
const MAX_VERSIONS = 1_000;

/** Writes the versions of each merge request, the newest last, with their commits and files. */
export class VersionWriter {
  readonly #batch: ImportBatch;
  readonly #diffs: Row[] = [];
  readonly #commits: { index: number; row: Row }[] = [];
  readonly #files: { index: number; row: Row }[] = [];

  constructor(batch: ImportBatch) {
    this.#batch = batch;
  }

  add(line: ImportLine, mergeRequestId: number): void {
    const latest = line.value.merge_request_diff;
    if (!isObject(latest)) return;
    let versions = 1;
    this.#batch.children(line, line.value, 'merge_request_diffs', (diff) => {
      if (++versions > MAX_VERSIONS) throw new Refused(`there are more than ${MAX_VERSIONS} versions`);
      this.#addDiff(line, diff, { merge_request_id: mergeRequestId, is_latest: false });
    });
    try {
      this.#addDiff(line, latest, { merge_request_id: mergeRequestId, is_latest: true });
    } catch (error) {
      this.#batch.fail(line, error, CHILD);
    }
  }

  #addDiff(line: ImportLine, diff: Json, more: Row): void {
    const { people } = this.#batch;
    const index = this.#diffs.length;
    this.#diffs.push({ ...readRow(diffColumns, diff, people), ...more });
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
      typesOf(diffColumns, { id: 'bigint', merge_request_id: 'bigint', is_latest: 'boolean' }),
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
