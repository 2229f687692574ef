import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
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
