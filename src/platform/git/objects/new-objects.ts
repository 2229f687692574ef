import type { Readable } from 'node:stream';
import type { CallOptions } from '../call-options.ts';
import { GitError } from '../git-error.ts';
import type { NewBlob, NewCommit, NewFile, NewObjects } from '../objects.ts';
import type { GitProcess, Runner } from '../process/runner.ts';
import { streamOf } from '../process/stream.ts';
import { requireOids, validOid } from '../ref-names.ts';
import { parseCommit, signatureIn } from './commit.ts';
import type { ObjectReader } from './reader.ts';
import { tipBeyond } from './tree-sizes.ts';

/** Limit for the content of one commit. A longer commit is returned without its content. */
const MAX_COMMIT_BYTES = 1024 * 1024;
const MAX_PATH_BYTES = 64 * 1024;
const TIMEOUT_MS = 60_000;

export interface Reach {
  /** Only branches and tags count. Refs of merge requests reach commits of forks that nobody has judged. */
  readonly branchesOnly?: boolean;
  /** Commits that count as reached too. */
  readonly known?: readonly string[];
}

type Environment = Readonly<Record<string, string>>;

/**
 * Reads the objects that the tips add and no ref of the repository reaches, as streams. They belong to a push whose
 * objects are in quarantine (`env` lets git see them), or to the repository itself.
 */
export const createNewObjects = (
  runner: Runner,
  objects: Pick<ObjectReader, 'read'>,
  path: string,
  env: Environment = {},
  { branchesOnly = false, known = [] }: Reach = {},
): NewObjects => {
  requireOids(known);
  const refs = branchesOnly ? ['--branches', '--tags'] : ['--all'];
  /** All objects that the refs do not reach yet. */
  const unreached = ['--not', ...refs, ...known, '--not', '--stdin'];

  /** Passes each revision that the tips add to a second git process, and returns its output. */
  const walk = async function* (
    tips: readonly string[],
    flags: readonly string[],
    reader: readonly string[],
    call: CallOptions,
  ): AsyncGenerator<Buffer> {
    requireOids(tips);
    const list = await runner.launch(path, ['rev-list', ...flags, ...unreached], {
      env,
      input: `${tips.join('\n')}\n`,
    });
    const reading = runner.launch(path, reader, { env }).then((read) => {
      list.stdout.pipe(read.stdin);
      return read;
    });
    yield* untilBothEnd(list, streamOf(reading, { timeoutMs: TIMEOUT_MS, ...call }));
  };

  /** A commit of a fork has its blobs in the repository before they are reviewed. */
  const isOld = async (oid: string): Promise<boolean> => {
    if (!branchesOnly) return (await objects.read(path, 'info', oid)) !== null;
    const { stdout } = await runner.run(path, ['log', '-1', '--format=%H', `--find-object=${oid}`, ...refs], { env });
    return stdout.length > 0;
  };

  return {
    commits: (tips, call = {}) => readCommits(walk(tips, [], ['cat-file', '--batch', '--buffer'], call)),

    files: (tips, call = {}) =>
      readFiles(
        // For a merge, only files that differ from every parent.
        walk(tips, [], ['diff-tree', '--stdin', '--root', '-r', '-c', '-z', '--no-renames', '--name-status'], call),
      ),

    async *blobsOver(tips, bytes, call = {}) {
      const format = '--batch-check=%(objecttype) %(objectsize) %(objectname) %(rest)';
      const lines = walk(tips, ['--objects'], ['cat-file', format, '--buffer'], call);
      for await (const blob of readBlobs(lines)) {
        // A revert may bring back a blob that old history contained.
        if (blob.size > bytes && !(await isOld(blob.oid))) yield blob;
      }
    },

    async holderOf(tips, oid, call = {}) {
      requireOids([oid]);
      for (const tip of tips.filter(validOid)) {
        const args = ['merge-base', '--is-ancestor', oid, tip];
        // 128: the tag does not point at a commit.
        if ((await runner.run(path, args, { env, allow: [1, 128], ...call })).exitCode === 0) return tip;
      }
      return null;
    },

    tipBeyond: (tips, atMost, call = {}) => tipBeyond(runner, path, env, tips, atMost, call),

    async commitWith(tips, oid, call = {}) {
      requireOids([oid, ...tips]);
      const args = ['log', '--format=%H', '-m', `--find-object=${oid}`, ...unreached];
      const { stdout } = await runner.run(path, args, { env, input: `${tips.join('\n')}\n`, ...call });
      // Newest first: the last commit added the object, the others changed or removed it.
      return stdout.toString('latin1').trim().split('\n').at(-1) || null;
    },
  };
};

/** Also waits for the listing process, so that a partial list never counts as complete. */
async function* untilBothEnd(list: GitProcess, stream: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of stream) if (Buffer.isBuffer(chunk)) yield chunk;
    const exitCode = await list.exited;
    if (exitCode !== 0) throw list.failure(exitCode);
  } finally {
    list.kill('aborted');
  }
}

async function* readCommits(source: AsyncGenerator<Buffer>): AsyncGenerator<NewCommit> {
  const reader = createReader(source);
  try {
    for (let line = await reader.line(); line !== null; line = await reader.line()) {
      const [oid = '', type = '', size = ''] = line.split(' ');
      const length = Number(size);
      if (type !== 'commit') throw new GitError('failed', 'The commits could not be read');
      const isWhole = length <= MAX_COMMIT_BYTES;
      const content = await reader.bytes(length, isWhole ? length : 0);
      await reader.bytes(1, 0); // the line break after it
      yield { ...parseCommit(oid, content), isWhole, isSigned: signatureIn(content) !== null };
    }
  } finally {
    await reader.close();
  }
}

/** NUL-separated: a commit id, then status (a letter for each parent) and path in turn until the next id. */
async function* readFiles(source: AsyncGenerator<Buffer>): AsyncGenerator<NewFile> {
  let commit = '';
  let status = '';
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of source) {
    const buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    for (let end = buffer.indexOf(0, at); end !== -1; end = buffer.indexOf(0, at)) {
      const token = buffer.toString('utf8', at, end);
      at = end + 1;
      if (status !== '') {
        if (/^A+$/.test(status)) yield { commit, path: token };
        status = '';
      } else if (validOid(token)) commit = token;
      else status = token;
    }
    rest = buffer.subarray(at);
    if (rest.length > MAX_PATH_BYTES) throw new GitError('too_large', 'The path of a file is too long');
  }
}

async function* readBlobs(source: AsyncGenerator<Buffer>): AsyncGenerator<NewBlob> {
  const reader = createReader(source);
  try {
    for (let line = await reader.line(); line !== null; line = await reader.line()) {
      const [type, size, oid = '', ...path] = line.split(' ');
      if (type === 'blob') yield { oid, size: Number(size), path: path.join(' ') };
    }
  } finally {
    await reader.close();
  }
}

/** Reads a stream by lines and by lengths. */
const createReader = (source: AsyncGenerator<Buffer>) => {
  let chunk: Buffer = Buffer.alloc(0);
  const more = async (): Promise<boolean> => {
    const step = await source.next();
    if (step.done) return false;
    chunk = chunk.length === 0 ? step.value : Buffer.concat([chunk, step.value]);
    return true;
  };
  return {
    /** Returns the next line, or null at the end. */
    async line(): Promise<string | null> {
      let end = chunk.indexOf(0x0a);
      while (end === -1) {
        if (chunk.length > MAX_PATH_BYTES * 2) throw new GitError('too_large', 'The path of a file is too long');
        if (!(await more())) return null;
        end = chunk.indexOf(0x0a);
      }
      const line = chunk.toString('utf8', 0, end);
      chunk = chunk.subarray(end + 1);
      return line;
    },
    /** Reads `length` bytes and returns the first `keep` of them. */
    async bytes(length: number, keep: number): Promise<Buffer> {
      const parts: Buffer[] = [];
      let kept = 0;
      for (let left = length; left > 0; ) {
        if (chunk.length === 0 && !(await more())) throw new GitError('failed', 'The commits could not be read');
        const part = chunk.subarray(0, left);
        chunk = chunk.subarray(part.length);
        left -= part.length;
        if (kept < keep) parts.push(part.subarray(0, keep - kept));
        kept += part.length;
      }
      return Buffer.concat(parts);
    },
    /** Closes the source. */
    close: () => source.return(undefined),
  };
};
