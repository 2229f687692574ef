import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median } from './compare.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PERFORMANCE = `${ROOT}docs/performance/`;

/** The outcome of a bench. */
export interface Outcome {
  /** The required result. */
  readonly target: string;
  readonly reached: boolean;
  readonly lines: readonly string[];
}

/** Formats the ratios of interleaved windows. */
export const ratioText = (ratios: readonly number[]): string =>
  `${median(ratios).toFixed(2)} (median; min ${Math.min(...ratios).toFixed(2)}, max ${Math.max(...ratios).toFixed(2)})`;

export const describe = (name: string, { target, reached, lines }: Outcome): string =>
  [`${reached ? 'reached' : 'MISSED '} ${name}: ${target}`, ...lines.map((line) => `          ${line}`)].join('\n');

/** Writes the outcome to `docs/performance/results/<name>.json`, with date, commit and load. */
export const saveResult = async (name: string, outcome: Outcome): Promise<void> => {
  const date = new Date().toISOString();
  const load = loadavg().map((each) => Number(each.toFixed(1)));
  const result = { bench: name, date, commit: await commit(), load, node: process.version, ...outcome };
  await mkdir(`${PERFORMANCE}results`, { recursive: true });
  await writeFile(`${PERFORMANCE}results/${name}.json`, `${JSON.stringify(result, null, 2)}\n`);
};

/** Writes `docs/performance/plans.md`. Each plan is a Markdown section under the name of its list. */
export const savePlans = (plans: readonly string[]): Promise<void> =>
  writeFile(`${PERFORMANCE}plans.md`, [PLANS_TITLE, ...plans].join('\n\n'));

/** Writes `docs/performance/plans-scale.md`, likewise. */
export const saveScalePlans = (projects: number, plans: readonly string[]): Promise<void> =>
  writeFile(`${PERFORMANCE}plans-scale.md`, [scaleTitle(projects), ...plans].join('\n\n'));

const scaleTitle = (projects: number): string => `# Plans of the slowest pages

Written by \`npm run bench -- scale\` at ${projects} projects: the fifty pages that cost Postgres most, each with its
statements of 2 ms and more.`;

const PLANS_TITLE = `# Plans of the lists of projects

Written by \`npm run bench -- projects-at-scale --plans\` at 1,000,000 projects: each statement of a list with its time
and the pages it read, and below it its scans and sorts. Compare the pages: times vary with other load on the machine.`;

/** Returns the checked-out commit, with `-dirty` if measured files have changed since. Null outside of git. */
const commit = async (): Promise<string | null> => {
  const git = async (...args: string[]) => (await promisify(execFile)('git', args, { cwd: ROOT })).stdout.trim();
  try {
    const changed = await git('status', '--porcelain', '--', 'src', 'bench', 'migrations', 'package-lock.json');
    return `${await git('rev-parse', '--short', 'HEAD')}${changed === '' ? '' : '-dirty'}`;
  } catch {
    return null;
  }
};
