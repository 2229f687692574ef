import { GitError } from '../git-error.ts';
import type { BlamedLines, GitHistory } from '../history.ts';
import type { Runner } from '../process/runner.ts';
import { requireOids } from '../ref-names.ts';

const TIMEOUT_MS = 60_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const HEADER = /^([0-9a-f]{40,64}) \d+ \d+(?: \d+)?$/;

/** Reads `git blame --porcelain`: for each line a header, details of its commit, and the line itself after a tab. */
export const createBlame =
  (runner: Runner): GitHistory['blame'] =>
  async (path, commitOid, filePath, { range, signal, timeoutMs = TIMEOUT_MS } = {}) => {
    requireOids([commitOid]);
    const lines = range ? [`-L${range.start},${range.end}`] : [];
    const args = ['blame', '--porcelain', ...lines, commitOid, '--', filePath];
    try {
      const { stdout } = await runner.run(path, args, { signal, timeoutMs, maxOutputBytes: MAX_OUTPUT_BYTES });
      return parse(stdout);
    } catch (error) {
      // The range starts after the end of the file.
      if (error instanceof GitError && /has only \d+ lines?/.test(error.stderr)) return [];
      throw error;
    }
  };

const parse = (output: Buffer): BlamedLines[] => {
  const groups: { oid: string; lines: string[] }[] = [];
  let oid = '';
  let at = 0;
  while (at < output.length) {
    const end = output.indexOf(0x0a, at);
    const line = output.toString('utf8', at, end === -1 ? output.length : end);
    at = end === -1 ? output.length : end + 1;
    if (!line.startsWith('\t')) {
      oid = HEADER.exec(line)?.[1] ?? oid;
      continue;
    }
    const last = groups.at(-1);
    if (last?.oid === oid) last.lines.push(line.slice(1));
    else groups.push({ oid, lines: [line.slice(1)] });
  }
  return groups;
};
