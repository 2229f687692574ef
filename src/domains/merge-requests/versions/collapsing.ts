import type { DiffFile, DiffOptions } from '#platform/git/reading.ts';

/** Frontends fold files from this share of each limit on (reference: merge-requests §2). */
const SHARE = 10;
/** The allowance for each file that the limit allows. */
const FILE_BYTES = 5 * 1024;
const MAX_FILES = 1_000;
const MAX_LINES = 50_000;
const MAX_PATCH_BYTES = 200 * 1024;

/**
 * Returns which files of a diff are to be folded, in their order: large ones, and those after a tenth of the files, lines
 * or bytes that the limits allow.
 */
export const collapsedFiles = (
  files: readonly Pick<DiffFile, 'diff' | 'collapsed'>[],
  { maxFiles = MAX_FILES, maxLines = MAX_LINES, maxPatchBytes = MAX_PATCH_BYTES }: DiffOptions,
): boolean[] => {
  let lines = 0;
  let bytes = 0;
  return files.map(({ diff, collapsed }, index) => {
    const size = Buffer.byteLength(diff);
    lines += countLines(diff);
    bytes += size;
    return (
      collapsed ||
      index >= maxFiles / SHARE ||
      lines > maxLines / SHARE ||
      bytes > (maxFiles * FILE_BYTES) / SHARE ||
      size > maxPatchBytes / SHARE
    );
  });
};

const countLines = (text: string): number => {
  let count = 0;
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
};
