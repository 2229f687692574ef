import { parseCommit } from './commit-object.ts';
import { GitError } from './git-error.ts';
import type { ObjectReader } from './object-reader.ts';
import type { Runner } from './process.ts';
import { validFullRef, validOid } from './ref-names.ts';
import type { CallOptions, ChangedFiles, Commit, Git, RevisionRange } from './types.ts';

type HistoryFunctions = Pick<Git, 'readCommits' | 'listCommits' | 'countCommits' | 'newCommits' | 'changedFiles'>;

const PUSHED_COMMITS = 20;
const MAX_FILES = 5_000;

export const createHistory = (runner: Runner, objects: ObjectReader): HistoryFunctions => {
  const readCommits = async (path: string, oids: readonly string[]): Promise<Commit[]> => {
    const found = await Promise.all(
      // Peeled by git: an id that is a blob of a gigabyte is not read to find that out.
      oids.filter(validOid).map((oid) => objects.read(path, 'contents', `${oid}^{commit}`)),
    );
    return found.flatMap((object) => (object === null ? [] : [parseCommit(object.oid, object.content)]));
  };

  const revList = async (path: string, flags: readonly string[], range: RevisionRange & CallOptions, extra = '') => {
    const { from, not = [], signal, timeoutMs } = range;
    if (![from, ...not].every((rev) => validOid(rev) || validFullRef(rev))) {
      throw new GitError('invalid', 'The revision is not valid');
    }
    const args = ['rev-list', ...flags, ...rangeFlags(range), '--stdin'];
    if (range.path !== undefined) args.push('--', range.path);
    const input = `${[from, ...not.map((rev) => `^${rev}`)].join('\n')}\n${extra}`;
    return (await runner.run(path, args, { input, signal, timeoutMs })).stdout.toString('latin1').trim();
  };

  return {
    readCommits,

    async listCommits(path, options) {
      const flags = [`--max-count=${options.limit}`, `--skip=${options.skip ?? 0}`];
      const output = await revList(path, flags, options);
      return output === '' ? [] : readCommits(path, output.split('\n'));
    },

    countCommits: async (path, range) => Number(await revList(path, ['--count'], range)),

    async newCommits(path, newOid, oldOid, { limit = PUSHED_COMMITS, excludeRefs = [], ...call } = {}) {
      const range = { from: newOid, not: oldOid === null ? [] : [oldOid], ...call };
      // A created branch: what the other branches have is not new.
      const others = [...excludeRefs.filter(validFullRef).map((ref) => `--exclude=${ref}`), '--glob=refs/heads/*'];
      const flags = oldOid === null ? ['--ignore-missing', '--not', ...others, '--not'] : ['--ignore-missing'];
      const [total, newest] = await Promise.all([
        revList(path, ['--count', ...flags], range),
        revList(path, [`--max-count=${limit}`, ...flags], range),
      ]);
      return { commits: newest === '' ? [] : await readCommits(path, newest.split('\n')), total: Number(total) };
    },

    async changedFiles(path, oids) {
      const valid = oids.filter(validOid);
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
      const { stdout } =
        valid.length === 0
          ? { stdout: Buffer.alloc(0) }
          : await runner.run(path, args, { input: `${valid.join('\n')}\n` });
      return parseNameStatus(stdout, valid);
    },
  };
};

const rangeFlags = ({ since, until, author, firstParent }: RevisionRange): string[] => [
  ...(since ? [`--since=${since.toISOString()}`] : []),
  ...(until ? [`--until=${until.toISOString()}`] : []),
  ...(author === undefined ? [] : ['--fixed-strings', '--regexp-ignore-case', `--author=${author}`]),
  ...(firstParent ? ['--first-parent'] : []),
];

/** NUL-separated: a commit id, then status and path in turn until the next id. */
const parseNameStatus = (output: Buffer, oids: readonly string[]): Map<string, ChangedFiles> => {
  const lists = () => ({ added: [] as string[], modified: [] as string[], removed: [] as string[] });
  const changes = new Map(oids.map((oid) => [oid, lists()]));
  const tokens = output.toString('utf8').split('\0');
  let current = lists();
  let count = 0;
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at] ?? '';
    if (validOid(token)) {
      current = changes.get(token) ?? lists();
      count = 0;
    } else if (token !== '') {
      at += 1; // the path
      count += 1;
      if (count > MAX_FILES) continue;
      const list = token === 'A' ? current.added : token === 'D' ? current.removed : current.modified;
      list.push(tokens[at] ?? '');
    }
  }
  return changes;
};
