import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { GitError } from '../git-error.ts';
import type { Runner } from '../process/runner.ts';
import { streamOf } from '../process/stream.ts';
import type { Git } from '../types.ts';
import { readBundleHeader } from './bundle-header.ts';
import { buildAside, chooseRefs, takePack } from './fresh-repository.ts';

type BundleFunctions = Pick<Git, 'createBundle' | 'fetchBundle'>;

const TIMEOUT_MS = 60 * 60_000;
const EXPORTED = ['refs/heads/', 'refs/tags/', 'refs/merge-requests/', 'refs/keep-around/'];

export const createBundles = (
  runner: Runner,
  forget: (path: string) => void,
  git: Pick<Git, 'init' | 'isEmpty' | 'exists'>,
): BundleFunctions => {
  return {
    async createBundle(path, { signal, timeoutMs = TIMEOUT_MS } = {}) {
      const { stdout } = await runner.run(path, ['for-each-ref', '--count=1', '--format=%(refname)', ...EXPORTED]);
      if (stdout.length === 0) return null;
      // HEAD names the default branch for the importer. A branch without commits cannot be named.
      const head = await runner.run(path, ['rev-parse', '--verify', '--quiet', 'HEAD'], { allow: [1] });
      const revisions = [...(head.exitCode === 0 ? ['HEAD'] : []), ...EXPORTED.map((prefix) => `--glob=${prefix}*`)];
      const bundle = runner.launch(path, ['bundle', 'create', '--quiet', '--version=2', '-', ...revisions], {
        input: '',
      });
      return streamOf(bundle, { signal, timeoutMs });
    },

    async fetchBundle(path, bundle, options = {}) {
      const { signal, timeoutMs = TIMEOUT_MS, maxInputBytes = 0, maxFiles, replace = false, onProgress } = options;
      if (!replace && (await git.exists(path)) && !(await git.isEmpty(path))) {
        throw new GitError('conflict', 'The repository already has content');
      }
      const source = typeof bundle === 'string' ? createReadStream(bundle) : bundle;
      // The reader gets the error, even if the stream fails before the first read.
      source.on('error', () => {});
      try {
        return await buildAside(runner, forget, path, async (fresh) => {
          const header = await readBundleHeader(counted(source, onProgress));
          const chosen = chooseRefs(header.refs);
          await git.init(fresh, chosen.defaultBranch ?? 'main');
          const limits = { maxBytes: maxInputBytes, maxFiles, signal, timeoutMs };
          await takePack(runner, fresh, header.pack, chosen.refs, limits, 'The repository bundle');
          return chosen.summary;
        });
      } finally {
        source.destroy();
      }
    },
  };
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
