import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { GitError } from '../git-error.ts';
import type { Runner } from '../process/runner.ts';
import { streamOf } from '../process/stream.ts';
import type { ArchiveFormat, GitReading } from '../reading.ts';
import { requireOids } from '../ref-names.ts';

type ArchiveFunctions = Pick<GitReading, 'archive' | 'archiveFormats'>;

const TIMEOUT_MS = 15 * 60_000;
const BZIP2 = 'bzip2';

// Prevents git from starting a signature check for files marked `export-subst`.
const CONFIG = ['gpg.program=/bin/false', 'gpg.x509.program=/bin/false', 'gpg.ssh.program=/bin/false'];

export const createArchives = (runner: Runner): ArchiveFunctions => {
  let formats: readonly ArchiveFormat[] | null = null;
  return {
    archiveFormats: () => {
      formats ??= findBzip2() === null ? ['zip', 'tar.gz', 'tar'] : ['zip', 'tar.gz', 'tar.bz2', 'tar'];
      return formats;
    },

    archive(path, { commit, format, prefix, folder, signal, timeoutMs = TIMEOUT_MS }) {
      requireOids([commit]);
      const packed = format === 'tar.bz2';
      const args = ['archive', `--format=${packed ? 'tar' : format}`, `--prefix=${prefix}`, commit];
      if (folder !== undefined) args.push('--', folder);
      const release = runner.bounds.archives.takeNow();
      const git = runner.launch(path, args, { config: CONFIG, input: '' });
      const stream = streamOf(git, { signal, timeoutMs });
      stream.once('close', release);
      if (!packed) return stream;
      const output = Readable.from(bzip2(stream), { objectMode: false });
      // If the reader leaves before its first read, the generator never runs.
      output.once('close', () => stream.destroy());
      return output;
    },
  };
};

const findBzip2 = (): string | null => {
  const files = (process.env.PATH ?? '')
    .split(delimiter)
    .filter(Boolean)
    .map((folder) => join(folder, BZIP2));
  return files.find(isExecutable) ?? null;
};

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Compresses with bzip2. git itself only supports gzip. */
async function* bzip2(source: Readable): AsyncGenerator<Buffer> {
  const file = findBzip2();
  if (file === null) throw new GitError('failed', 'bzip2 is not installed');
  const child = spawn(file, ['-c'], { stdio: ['pipe', 'pipe', 'ignore'], env: {} });
  const exited = once(child, 'close');
  const fed = pipeline(source, child.stdin);
  // Both promises are awaited below. This prevents an unhandled rejection before that.
  exited.catch(() => {});
  fed.catch(() => {});
  try {
    for await (const chunk of child.stdout) if (Buffer.isBuffer(chunk)) yield chunk;
    await fed;
    const [code] = await exited;
    if (code !== 0) throw new GitError('failed', 'The archive could not be packed');
  } finally {
    child.kill();
    source.destroy();
  }
}
