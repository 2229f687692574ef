import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';

/** The refs of the bench's repository, beside `main`. */
export const PROPOSALS = {
  /** Commits on `main`. */
  history: 10_000,
  /** Branches `merge/1` and so on, each one commit ahead. */
  merges: 20,
  /** Branches `open/1` and so on, each one commit ahead. Every tenth changes the file `shared`. */
  open: 500,
  /** Files that the branch `wide` changes. */
  files: 3_000,
} as const;

const START = 1_700_000_000;
const FILES = 200;

/** Fills an existing bare repository. */
export const fillProposals = async (repository: string): Promise<void> => {
  await git(repository, ['fast-import', '--quiet', '--done', '--force'], history());
  await git(repository, ['pack-refs', '--all']);
  await git(repository, ['repack', '-a', '-d', '-q']);
  await git(repository, ['commit-graph', 'write', '--reachable']);
};

/** Makes an independent copy for the bare git commands. */
export const copyRepository = async (from: string, to: string): Promise<void> => {
  await rm(to, { recursive: true, force: true });
  await git(from, ['clone', '--quiet', '--bare', '--no-hardlinks', '.', to]);
};

/** Runs git and returns what it prints. @throws Error if it fails with a status that is not in `allow` */
export const git = async (
  repository: string,
  args: readonly string[],
  input: Iterable<string> = [],
  allow: readonly number[] = [0],
): Promise<string> => {
  const child = spawn('git', ['-C', repository, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  let [output, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4_000);
  });
  const exited = once(child, 'close');
  for (const text of input) if (!child.stdin.write(text)) await once(child.stdin, 'drain');
  child.stdin.end();
  const [code] = await exited;
  if (!allow.includes(code)) throw new Error(`git ${args.join(' ')} ended with ${code}: ${errors}`);
  return output.trim();
};

/** Yields the input of `git fast-import`. */
function* history(): Generator<string> {
  const { history: commits, merges, open, files } = PROPOSALS;
  for (let commit = 1; commit <= commits; commit++) {
    yield `${commitOf('main', commit, `Change number ${commit}`)}${commit > 1 ? `from :${commit - 1}\n` : ''}`;
    yield fileOf(`src/folder-${commit % 20}/file-${commit % FILES}.ts`, `export const version = ${commit};\n`);
    if (commit === 1) yield fileOf('shared', 'first\n');
  }
  const from = `from :${commits}\n`;
  for (let branch = 1; branch <= merges; branch++)
    yield `${commitOf(`merge/${branch}`, commits + branch, `Merge ${branch}`)}${from}${fileOf(`merged/${branch}.md`, 'text\n')}`;
  for (let branch = 1; branch <= open; branch++) {
    const file = branch % 10 === 0 ? 'shared' : `open/${branch}.md`;
    yield `${commitOf(`open/${branch}`, commits + merges + branch, `Open ${branch}`)}${from}${fileOf(file, `${branch}\n`)}`;
  }
  yield `${commitOf('wide', commits + merges + open + 1, 'Change many files')}${from}`;
  for (let file = 1; file <= files; file++)
    yield fileOf(`wide/folder-${file % 50}/file-${file}.ts`, `export const value = ${file};\n`.repeat(5));
  yield 'done\n';
}

const commitOf = (branch: string, mark: number, message: string): string =>
  `commit refs/heads/${branch}\nmark :${mark}\ncommitter Person <person-1@example.com> ${START + mark * 60} +0000\n${data(message)}`;

const fileOf = (path: string, content: string): string => `M 100644 inline ${path}\n${data(content)}`;

const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;
