import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { BRANCHES } from './watched.ts';

/** Number of commits on the default branch. */
const HISTORY = 500;
const FILES = 50;
const KINDS = ['feature', 'fix', 'chore', 'release'];
const START = 1_700_000_000;

/**
 * Creates a bare repository of 500 commits with 10,000 branches, 3,000 of them merged, unless it exists. References are
 * packed, as repository maintenance leaves them.
 */
export const fillBranches = async (repository: string): Promise<void> => {
  if (existsSync(repository)) return;
  const fresh = `${repository}.filling`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(dirname(repository), { recursive: true });
  await git(['init', '--quiet', '--bare', '--template=', '--initial-branch=main', fresh]);
  await git(['-C', fresh, 'fast-import', '--quiet', '--done'], history());
  await git(['-C', fresh, 'pack-refs', '--all']);
  await git(['-C', fresh, 'repack', '-a', '-d', '-q']);
  await rename(fresh, repository);
};

export const repositoryIn = (dataDir: string, diskPath: string): string => join(dataDir, 'repositories', diskPath);

/** Yields the input of `git fast-import`. */
function* history(): Generator<string> {
  for (let commit = 1; commit <= HISTORY; commit++) {
    yield `${commitOf('main', commit, commit, `Change number ${commit}`)}${commit > 1 ? `from :${commit - 1}\n` : ''}`;
    yield `M 100644 inline src/file-${commit % FILES}.ts\n${data(`export const version = ${commit};\n`)}`;
  }
  for (let branch = 1; branch <= BRANCHES.total - 1; branch++) {
    const name = `${KINDS[branch % KINDS.length]}/${branch}-${branch % 41 === 0 ? 'quokka' : 'work'}`;
    const from = 1 + ((branch * 7) % HISTORY);
    if (branch <= BRANCHES.merged) {
      yield `reset refs/heads/${name}\nfrom :${from}\n\n`;
    } else {
      yield `${commitOf(name, HISTORY + branch, HISTORY + branch, `Work on ${branch}`)}from :${from}\n`;
      yield `M 100644 inline work/${branch}.md\n${data(`Work on ${branch}\n`)}`;
    }
  }
  yield 'done\n';
}

const commitOf = (branch: string, mark: number, minute: number, message: string): string =>
  `commit refs/heads/${branch}\nmark :${mark}\ncommitter Person <person-1@example.com> ${START + minute * 60} +0000\n${data(message)}`;

const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;

const git = async (args: readonly string[], input: Iterable<string> = []): Promise<void> => {
  const child = spawn('git', args, { stdio: ['pipe', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4_000);
  });
  // If git ends early, its error output is reported below.
  child.stdin.on('error', () => {});
  const closed = once(child, 'close');
  for (const part of input) if (!child.stdin.write(part)) await Promise.race([once(child.stdin, 'drain'), closed]);
  child.stdin.end();
  const [code] = await closed;
  if (code !== 0) throw new Error(`git ${args.join(' ')} failed (${code}): ${errors}`);
};
