import type { CallOptions, ForeignOptions } from '../call-options.ts';
import { GitError } from '../git-error.ts';
import type {
  Author,
  ChangedFiles,
  ChangedFilesDraft,
  CommitStats,
  ListCommitsOptions,
  RevisionRange,
} from '../history.ts';
import { signatureIn } from '../objects/commit.ts';
import type { ObjectReader } from '../objects/reader.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import type { Commit } from '../objects.ts';
import { foreignObjects, type Runner } from '../process/runner.ts';
import { splitRecords } from '../process/split-records.ts';
import { requireOids, validFullRef, validOid } from '../ref-names.ts';
import { readHead, readRefFiles } from '../refs/files.ts';
import type { Git } from '../types.ts';
import { type LinearHistory, MAX_LINE, readCommit } from './linear-history.ts';
import { fewChanges, MAX_FILES } from './tree-changes.ts';

type HistoryFunctions = Pick<
  Git,
  | 'readCommits'
  | 'listCommits'
  | 'countCommits'
  | 'newCommits'
  | 'changedFiles'
  | 'commitStats'
  | 'lastCommitOf'
  | 'mergeBase'
  | 'refsContaining'
  | 'authors'
  | 'signatureOf'
>;

const PUSHED_COMMITS = 20;
/** Above this number of excluded branches, git is faster. */
const MAX_OTHERS = 3;
const COMMITS_AT_ONCE = 50;
/** The characters that are kept of a message if there is no room for more. */
const MESSAGE_BEGINNING = 200;
/** Limit for all changes together. Each path takes two records. */
const MAX_RECORDS = 1_000_000;

export const createHistory = (
  runner: Runner,
  objects: ObjectReader,
  trees: TreeReader,
  linear: LinearHistory,
): HistoryFunctions => {
  const readCommits = async (path: string, oids: readonly string[]): Promise<Commit[]> => {
    const found = await Promise.all(oids.map((oid) => readCommit(objects, path, oid)));
    return found.filter((commit) => commit !== null);
  };

  /** Holds few whole messages at a time: one may have a megabyte. */
  const readBounded = async (
    path: string,
    oids: readonly string[],
    { each, total }: NonNullable<ListCommitsOptions['messages']>,
  ): Promise<Commit[]> => {
    const read: Commit[] = [];
    let left = total;
    for (let at = 0; at < oids.length; at += COMMITS_AT_ONCE) {
      for (const commit of await readCommits(path, oids.slice(at, at + COMMITS_AT_ONCE))) {
        const most = left > 0 ? Math.min(each, Math.max(left, MESSAGE_BEGINNING)) : MESSAGE_BEGINNING;
        if (commit.message.length <= most) read.push(commit);
        else {
          const message = commit.message.slice(0, most).toWellFormed();
          read.push({ ...commit, message, title: commit.title.slice(0, most), trailers: {}, extended_trailers: {} });
        }
        left -= Math.min(commit.message.length, most);
      }
    }
    return read;
  };

  const revList = async (
    path: string,
    flags: readonly string[],
    range: RevisionRange & ForeignOptions & CallOptions,
    extra = '',
  ) => {
    const { not = [], signal, timeoutMs } = range;
    const env = foreignObjects(runner, range.withObjectsOf);
    const from = typeof range.from === 'string' ? [range.from] : range.from;
    if (![...from, ...not].every((rev) => validOid(rev) || validFullRef(rev))) {
      throw new GitError('invalid', 'The revision is not valid');
    }
    const args = ['rev-list', ...flags, ...rangeFlags(range), '--stdin'];
    if (range.path !== undefined) args.push('--', range.path);
    const input = `${[...from, ...not.map((rev) => `^${rev}`)].join('\n')}\n${extra}`;
    return (await runner.run(path, args, { input, env, signal, timeoutMs })).stdout.toString('latin1').trim();
  };

  /** Returns the newest `limit` commits of a range without git, or undefined if only git could select them. */
  const ofLine = async (path: string, range: RevisionRange & ForeignOptions, limit?: number) => {
    const { from, not = [] } = range;
    if (typeof from !== 'string' || not.length > MAX_OTHERS || isSelective(range)) return undefined;
    // Few repositories are so short that a page of their history is all of it.
    if (not.length === 0 && limit !== undefined && limit > MAX_LINE) return undefined;
    return not.length === 0 ? linear.until(path, from, limit) : linear.between(path, from, not);
  };

  /** Returns the commits on no other branch. Returns undefined if only git could find out. */
  const ofCreatedBranch = async (path: string, oid: string, excludeRefs: readonly string[]) => {
    const directory = runner.directory(path);
    // Most branches start at the tip of the default branch, which is faster to read than all branches.
    const head = await readHead(directory);
    if (head?.oid === oid && !excludeRefs.includes(head.name)) return [];
    const refs = await readRefFiles(directory, 'refs/heads/');
    const others = refs?.filter(({ name }) => !excludeRefs.includes(name)).map((ref) => ref.oid);
    if (others?.includes(oid)) return [];
    return others && others.length <= MAX_OTHERS ? linear.between(path, oid, others) : undefined;
  };

  /** Returns the same as git for a few small changes, or null if git is faster. */
  const fewChangedFiles = async (
    path: string,
    oids: readonly string[],
  ): Promise<ReadonlyMap<string, ChangedFiles> | null> => {
    if (oids.length > MAX_LINE) return null;
    const changes = new Map<string, ChangedFiles>();
    for (const commit of await readCommits(path, oids)) {
      const changed = await fewChanges(trees, path, commit.parent_ids[0] ?? null, commit.id);
      if (changed === null) return null;
      changes.set(commit.id, changed);
    }
    return changes.size === oids.length ? changes : null;
  };

  return {
    readCommits,

    async listCommits(path, options) {
      const { limit, skip = 0 } = options;
      const few = await ofLine(path, options, skip + limit);
      if (few && !options.messages) return few.slice(skip, skip + limit);
      const output = few ? '' : await revList(path, [`--max-count=${limit}`, `--skip=${skip}`], options);
      const oids = few ? few.slice(skip, skip + limit).map(({ id }) => id) : output === '' ? [] : output.split('\n');
      return options.messages ? readBounded(path, oids, options.messages) : readCommits(path, oids);
    },

    async countCommits(path, range) {
      const few = await ofLine(path, range);
      return few ? few.length : Number(await revList(path, ['--count'], range));
    },

    async newCommits(path, newOid, oldOid, { limit = PUSHED_COMMITS, excludeRefs = [], ...call } = {}) {
      const few = await (oldOid === null
        ? ofCreatedBranch(path, newOid, excludeRefs)
        : linear.between(path, newOid, [oldOid]));
      if (few) return { commits: few.slice(0, limit), total: few.length };
      const range = { from: newOid, not: oldOid === null ? [] : [oldOid], ...call };
      // For a created branch, commits on other branches are not new.
      const others = [...excludeRefs.filter(validFullRef).map((ref) => `--exclude=${ref}`), '--glob=refs/heads/*'];
      const flags = oldOid === null ? ['--ignore-missing', '--not', ...others, '--not'] : ['--ignore-missing'];
      const found = await revList(path, [`--max-count=${limit + 1}`, ...flags], range);
      const oids = found === '' ? [] : found.split('\n');
      // Usually these are all the commits, so no count is needed.
      const total = oids.length <= limit ? oids.length : Number(await revList(path, ['--count', ...flags], range));
      return { commits: await readCommits(path, oids.slice(0, limit)), total };
    },

    async changedFiles(path, oids) {
      const valid = oids.filter(validOid);
      if (valid.length === 0) return new Map();
      const few = await fewChangedFiles(path, valid);
      if (few) return few;
      const args = [
        'diff-tree',
        '--stdin',
        '--root',
        '-r',
        '-z',
        '--no-renames',
        '--diff-merges=first-parent',
        '--name-status',
      ];
      const records = splitRecords(runner.stream(path, args, { input: `${valid.join('\n')}\n` }), 0);
      return readNameStatus(records, valid);
    },

    async commitStats(path, oids, call = {}) {
      const valid = oids.filter(validOid);
      if (valid.length === 0) return new Map();
      const args = ['diff-tree', '--stdin', '--root', '-r', '-M', '-z', '--diff-merges=first-parent', '--numstat'];
      const output = runner.stream(path, args, { ...call, input: `${valid.join('\n')}\n` });
      return readStats(splitRecords(output, 0), valid);
    },

    async lastCommitOf(path, commitOid, filePath, call = {}) {
      const recent = await linear.lastChange(path, commitOid, filePath);
      if (recent !== undefined) return recent;
      return (await revList(path, ['--max-count=1'], { ...call, from: commitOid, path: filePath })) || null;
    },

    async mergeBase(path, oids, { withObjectsOf, signal, timeoutMs } = {}) {
      requireOids(oids);
      const [one, other, ...more] = oids;
      if (withObjectsOf === undefined && one !== undefined && other !== undefined && more.length === 0) {
        const near = await linear.mergeBase(path, one, other);
        if (near !== undefined) return near;
      }
      const env = foreignObjects(runner, withObjectsOf);
      const { stdout } = await runner.run(path, ['merge-base', ...oids], { allow: [1], env, signal, timeoutMs });
      return stdout.toString('latin1').trim() || null;
    },

    async refsContaining(path, oid, prefix, call = {}) {
      requireOids([oid]);
      const args = ['for-each-ref', `--contains=${oid}`, '--format=%(refname)', prefix];
      const { stdout } = await runner.run(path, args, call);
      return stdout.toString('utf8').split('\n').filter(Boolean);
    },

    async authors(path, { from, signal, timeoutMs }) {
      const revisions = typeof from === 'string' ? [from] : from;
      requireOids(revisions);
      const args = ['shortlog', '--summary', '--numbered', '--email', '--no-merges', ...revisions];
      const { stdout } = await runner.run(path, args, { signal, timeoutMs });
      return parseAuthors(stdout);
    },

    async signatureOf(path, oid) {
      const object = validOid(oid) ? await objects.read(path, 'contents', `${oid}^{commit}`) : null;
      return object === null ? null : signatureIn(object.content);
    },
  };
};

/** Returns true if the range leaves out commits by more than where it ends, or includes those of another repository. */
const isSelective = ({ all, path, since, until, author, withObjectsOf }: RevisionRange & ForeignOptions): boolean =>
  all === true || [path, since, until, author, withObjectsOf].some((option) => option !== undefined);

/** git interprets years outside this range differently. */
const FIRST_TIME = Date.UTC(1970, 0, 2);
const LAST_TIME = Date.UTC(2099, 11, 30);
const dateOf = (time: Date): string =>
  new Date(Math.min(Math.max(time.getTime(), FIRST_TIME), LAST_TIME)).toISOString();

const rangeFlags = ({ since, until, author, firstParent, topological, all }: RevisionRange): string[] => [
  ...(all ? ['--glob=refs/heads/*', '--glob=refs/tags/*'] : []),
  ...(topological ? ['--topo-order'] : []),
  ...(since ? [`--since=${dateOf(since)}`] : []),
  ...(until ? [`--until=${dateOf(until)}`] : []),
  ...(author === undefined ? [] : ['--fixed-strings', '--regexp-ignore-case', `--author=${author}`]),
  ...(firstParent ? ['--first-parent'] : []),
];

/** NUL-separated: a commit id, then status and path in turn until the next id. */
const readNameStatus = async (
  records: AsyncIterable<Buffer>,
  oids: readonly string[],
): Promise<Map<string, ChangedFiles>> => {
  const lists = (): ChangedFilesDraft => ({ added: [], modified: [], removed: [] });
  const changes = new Map(oids.map((oid) => [oid, lists()]));
  let current = lists();
  let count = 0;
  let read = 0;
  let status: string | null = null;
  try {
    for await (const record of records) {
      read += 1;
      if (read > MAX_RECORDS) break;
      if (status === null) {
        const text = record.toString('latin1');
        const found = changes.get(text);
        if (!found) status = text;
        else {
          current = found;
          count = 0;
        }
        continue;
      }
      count += 1;
      if (count <= MAX_FILES) {
        const list = status === 'A' ? current.added : status === 'D' ? current.removed : current.modified;
        list.push(record.toString('utf8'));
      }
      status = null;
    }
  } catch (error) {
    // Changes that git cannot list within its limits are left out, like changes beyond our own limits.
    if (!(error instanceof GitError) || (error.reason !== 'too_large' && error.reason !== 'timeout')) throw error;
  }
  return changes;
};

const NUMBERS = /^(\d+|-)\t(\d+|-)\t/;

/**
 * NUL-separated: a commit id, then `added TAB removed TAB path` until the next id. For a renamed file, both paths
 * follow.
 */
const readStats = async (
  records: AsyncIterable<Buffer>,
  oids: readonly string[],
): Promise<ReadonlyMap<string, CommitStats>> => {
  const sums = new Map(oids.map((oid) => [oid, { additions: 0, deletions: 0 }]));
  let current = { additions: 0, deletions: 0 };
  let pathsToCome = 0;
  for await (const record of records) {
    const text = record.toString('latin1');
    if (pathsToCome > 0) {
      pathsToCome -= 1;
      continue;
    }
    const numbers = NUMBERS.exec(text);
    if (!numbers) {
      current = sums.get(text) ?? { additions: 0, deletions: 0 };
      continue;
    }
    const [whole, added, removed] = numbers;
    // Binary files have `-`.
    current.additions += Number(added) || 0;
    current.deletions += Number(removed) || 0;
    if (text.length === whole.length) pathsToCome = 2;
  }
  return new Map(
    [...sums].map(([oid, { additions, deletions }]) => [oid, { additions, deletions, total: additions + deletions }]),
  );
};

/** `   12\tAda <ada@example.com>` */
const parseAuthors = (output: Buffer): Author[] =>
  output
    .toString('utf8')
    .split('\n')
    .flatMap((line) => {
      const [, commits, name = '', email = ''] = /^\s*(\d+)\t(.*?) ?<([^<]*)>$/.exec(line) ?? [];
      return commits === undefined ? [] : [{ name, email, commits: Number(commits) }];
    });
