import { createReadStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type BundleHeader, readBundleHeader } from './bundle-header.ts';
import { GitError } from './git-error.ts';
import type { ObjectReader } from './object-reader.ts';
import type { Runner } from './process.ts';
import { streamOf } from './process-stream.ts';
import { shortName, validRefName } from './ref-names.ts';
import { transaction } from './refs.ts';
import { incomingPath, removeIncoming } from './repositories.ts';
import { FSCK_TOLERATED } from './smart-http.ts';
import type { FetchedBundle, Git } from './types.ts';

type BundleFunctions = Pick<Git, 'createBundle' | 'fetchBundle'>;

const TIMEOUT_MS = 60 * 60_000;
const EXPORTED = ['refs/heads/', 'refs/tags/', 'refs/merge-requests/', 'refs/keep-around/'];

export const createBundles = (
  runner: Runner,
  objects: ObjectReader,
  git: Pick<Git, 'init' | 'isEmpty' | 'exists'>,
): BundleFunctions => {
  const receivePack = async (
    path: string,
    pack: AsyncIterable<Buffer>,
    options: { maxBytes: number; signal: AbortSignal | undefined; timeoutMs: number },
  ) => {
    // `git fetch` from a bundle checks objects only since git 2.46; index-pack always has, and finds what is missing too.
    const strict = `--strict=${FSCK_TOLERATED.map((problem) => `${problem}=ignore`).join(',')}`;
    const limit = options.maxBytes > 0 ? [`--max-input-size=${options.maxBytes}`] : [];
    const { signal, timeoutMs } = options;
    await runner.run(path, ['index-pack', '--stdin', strict, ...limit], { input: pack, signal, timeoutMs });
  };

  return {
    async createBundle(path, { signal, timeoutMs = TIMEOUT_MS } = {}) {
      const { stdout } = await runner.run(path, ['for-each-ref', '--count=1', '--format=%(refname)', ...EXPORTED]);
      if (stdout.length === 0) return null;
      // HEAD tells the importer the default branch; an unborn one cannot be named.
      const head = await runner.run(path, ['rev-parse', '--verify', '--quiet', 'HEAD'], { allow: [1] });
      const revisions = [...(head.exitCode === 0 ? ['HEAD'] : []), ...EXPORTED.map((prefix) => `--glob=${prefix}*`)];
      const bundle = runner.launch(path, ['bundle', 'create', '--quiet', '--version=2', '-', ...revisions]);
      bundle.stdin.end();
      return streamOf(bundle, { signal, timeoutMs });
    },

    async fetchBundle(path, bundle, options = {}) {
      const { signal, timeoutMs = TIMEOUT_MS, maxInputBytes = 0, replace = false, onProgress } = options;
      if (!replace && (await git.exists(path)) && !(await git.isEmpty(path))) {
        throw new GitError('conflict', 'The repository has content already');
      }
      await removeIncoming(runner, path);
      const fresh = incomingPath(path);
      const source = typeof bundle === 'string' ? createReadStream(bundle) : bundle;
      try {
        const header = await readBundleHeader(counted(source, onProgress));
        const chosen = choose(header);
        await git.init(fresh, chosen.defaultBranch ?? 'main');
        await asBroken(receivePack(fresh, header.pack, { maxBytes: maxInputBytes, signal, timeoutMs }));
        const input = transaction(chosen.refs.map(({ name, oid }) => ({ ref: name, oldOid: null, newOid: oid })));
        // Written to disk for good by pack-refs, all at once.
        await asBroken(
          runner.run(fresh, ['update-ref', '--stdin', '-z'], { input, signal, config: ['core.fsync=objects'] }),
        );
        await runner.run(fresh, ['pack-refs', '--all'], { signal });
        await moveInto(runner, objects, fresh, path);
        return chosen.summary;
      } finally {
        source.destroy();
        await rm(runner.directory(fresh), { recursive: true, force: true });
      }
    },
  };
};

interface Chosen {
  readonly refs: BundleHeader['refs'];
  readonly defaultBranch: string | null;
  readonly summary: FetchedBundle;
}

const choose = ({ refs }: BundleHeader): Chosen => {
  const taken = new Map<string, string>();
  const skipped: string[] = [];
  const others: { name: string; oid: string }[] = [];
  let headOid: string | null = null;
  for (const { name, oid } of refs) {
    const short = shortName(name);
    if (name === 'HEAD') headOid ??= oid;
    else if (short === null) others.push({ name, oid });
    else if (!validRefName(short)) skipped.push(name);
    else if (!taken.has(name)) taken.set(name, oid);
  }
  const chosen = [...taken].map(([name, oid]) => ({ name, oid }));
  const branches = chosen.filter(({ name }) => name.startsWith('refs/heads/'));
  const defaultBranch = suggestDefault(branches, headOid);
  return {
    refs: chosen,
    defaultBranch,
    summary: { branches: branches.length, tags: chosen.length - branches.length, skipped, others, defaultBranch },
  };
};

/** A bundle gives HEAD only as an object id: the branch is one that stands there, by preference the usual ones. */
const suggestDefault = (branches: BundleHeader['refs'], headOid: string | null): string | null => {
  const standing = branches
    .filter(({ oid }) => headOid === null || oid === headOid)
    .map(({ name }) => name.slice('refs/heads/'.length));
  const usual = ['main', 'master'].find((name) => standing.includes(name));
  if (usual !== undefined) return usual;
  return headOid !== null || standing.length === 1 ? (standing[0] ?? null) : null;
};

/** From here on a failure is the bundle's fault, unless we gave up on it ourselves. */
const asBroken = async (call: Promise<unknown>): Promise<void> => {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    if (/exceeds maximum allowed size/.test(error.stderr))
      throw new GitError('too_large', 'The repository bundle is too large', error);
    if (error.reason === 'failed' || error.reason === 'conflict') {
      throw new GitError('invalid', 'The repository bundle is broken: its objects or references are not valid', error);
    }
    throw error;
  }
};

const counted = async function* (
  source: Readable,
  onProgress: ((bytes: number) => void) | undefined,
): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of source) {
    if (!Buffer.isBuffer(chunk)) throw new GitError('invalid', 'The repository bundle is broken: it is not binary');
    bytes += chunk.length;
    onProgress?.(bytes);
    yield chunk;
  }
};

/** Puts the finished repository in its place; what stood there goes. */
const moveInto = async (runner: Runner, objects: ObjectReader, fresh: string, path: string): Promise<void> => {
  const target = runner.directory(path);
  const old = runner.directory(incomingPath(path));
  objects.forget(path);
  await rename(target, old).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  await rename(runner.directory(fresh), target);
  await rm(old, { recursive: true, force: true });
};
