import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGzip } from 'node:zlib';
import { pack } from 'tar-stream';

export const ISSUES = 50_000;
const DESCRIPTION_CHARS = 1_750;

/**
 * Writes an export archive of 50,000 issues with about 100 MB of lines, packed as any tool would pack it. Returns the
 * size of the lines in bytes.
 */
export const writeIssueArchive = async (file: string): Promise<number> => {
  const lines: string[] = [];
  for (let iid = 1; iid <= ISSUES; iid++) lines.push(JSON.stringify(issue(iid)));
  const issues = Buffer.from(`${lines.join('\n')}\n`);
  const tar = pack();
  const written = pipeline(tar, createGzip({ level: 6 }), createWriteStream(file));
  tar.entry({ name: 'VERSION' }, '0.2.4\n');
  tar.entry({ name: 'tree/project.json' }, JSON.stringify({ description: 'Made by the bench', visibility_level: 0 }));
  tar.entry({ name: 'tree/project/issues.ndjson' }, issues);
  tar.finalize();
  await written;
  return issues.length;
};

export interface LargeProject {
  readonly issues: number;
  readonly notesPerIssue: number;
  /** The size of the repository, which does not compress. */
  readonly repositoryMiB: number;
}

/** Writes an export archive of a project with notes and a repository, at constant memory. */
export const writeLargeArchive = async (file: string, project: LargeProject): Promise<void> => {
  const lines = `${file}.ndjson`;
  const bundle = `${file}.bundle`;
  await pipeline(largeLines(project), createWriteStream(lines));
  await writeBundle(bundle, project.repositoryMiB);
  const tar = pack();
  const written = pipeline(tar, createGzip({ level: 1 }), createWriteStream(file));
  tar.entry({ name: 'VERSION' }, '0.2.4\n');
  tar.entry({ name: 'tree/project.json' }, JSON.stringify({ description: 'Made by the bench', visibility_level: 0 }));
  for (const [name, from] of [
    ['tree/project/issues.ndjson', lines],
    ['project.bundle', bundle],
  ] as const) {
    const { size } = await stat(from);
    await pipeline(createReadStream(from), tar.entry({ name, size }));
    await rm(from);
  }
  tar.finalize();
  await written;
};

function* largeLines({ issues, notesPerIssue }: LargeProject): Generator<string> {
  for (let iid = 1; iid <= issues; iid++) {
    const notes = Array.from({ length: notesPerIssue }, (_, index) => ({
      note: text(iid * notesPerIssue + index).slice(0, 200),
      noteable_type: 'Issue',
      author_id: 1 + (index % 50),
      system: false,
      created_at: '2024-02-03T04:05:06.789Z',
      updated_at: '2024-02-03T04:05:06.789Z',
    }));
    yield `${JSON.stringify({ ...issue(iid), notes })}\n`;
  }
}

/** Bundles a repository of files of 1 MiB that do not compress. */
const writeBundle = async (file: string, mebibytes: number): Promise<void> => {
  const directory = `${file}.git`;
  const git = (...args: string[]) => promisify(execFile)('git', args, { env: GIT_ENV });
  await git('init', '--bare', '--initial-branch=main', directory);
  const importing = spawn('git', ['-C', directory, 'fast-import', '--quiet'], {
    env: GIT_ENV,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const ended = once(importing, 'close');
  await pipeline(commits(mebibytes), importing.stdin);
  const [code] = await ended;
  if (code !== 0) throw new Error(`git fast-import ended with ${String(code)}`);
  await git('-C', directory, 'bundle', 'create', file, '--all');
  await rm(directory, { recursive: true });
};

const GIT_ENV = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
const MIB = 1024 * 1024;

function* commits(mebibytes: number): Generator<Buffer | string> {
  for (let index = 1; index <= mebibytes; index++) {
    yield `commit refs/heads/main\ncommitter Bench <bench@example.com> ${1_700_000_000 + index} +0000\ndata 3\nAdd\n`;
    yield `M 100644 inline file-${index}.bin\ndata ${MIB}\n`;
    yield randomBytes(MIB);
    yield '\n';
  }
}

const issue = (iid: number) => ({
  iid,
  title: `Issue number ${iid} about ${WORDS[iid % WORDS.length]}`,
  description: text(iid),
  state: iid % 3 === 0 ? 'closed' : 'opened',
  author_id: 1 + (iid % 50),
  confidential: false,
  discussion_locked: null,
  issue_type: 'issue',
  due_date: null,
  weight: null,
  relative_position: iid * 512,
  time_estimate: 0,
  closed_at: iid % 3 === 0 ? '2024-03-04T05:06:07.000Z' : null,
  created_at: '2024-01-02T03:04:05.678Z',
  updated_at: '2024-02-03T04:05:06.789Z',
});

const WORDS =
  'the of pipeline merge branch when fails after commit runner project should display error user group page token returns value list empty request timeout and'.split(
    ' ',
  );

/** Returns words in an order that does not repeat, so that the text compresses like prose. */
const text = (seed: number): string => {
  let state = seed;
  let written = '';
  while (written.length < DESCRIPTION_CHARS) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    written += `${WORDS[(state >> 8) % WORDS.length]}${state % 13 === 0 ? `-${state}` : ''} `;
  }
  return written;
};
