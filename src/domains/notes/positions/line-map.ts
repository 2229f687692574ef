/** A change in a file: lines of the old file that were replaced by lines of the new one. Either may be none. */
export interface Hunk {
  /** The first line of the change, from 1. For an empty side, the line that would follow. */
  readonly oldStart: number;
  readonly oldLines: number;
  readonly newStart: number;
  readonly newLines: number;
}

const HEADER = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/gm;

/** Reads the hunks of a patch without context lines (`git diff --unified=0`). */
export const hunksOf = (patch: string): Hunk[] =>
  [...patch.matchAll(HEADER)].map(([, oldStart, oldLines = '1', newStart, newLines = '1']) => {
    // git names the line before an empty side.
    const start = (line: string | undefined, count: string) => Number(line) + (count === '0' ? 1 : 0);
    return {
      oldStart: start(oldStart, oldLines),
      oldLines: Number(oldLines),
      newStart: start(newStart, newLines),
      newLines: Number(newLines),
    };
  });

/** The way to look at hunks: from the old file to the new one, or back. */
type Side = 'old' | 'new';

const sides = ({ oldStart, oldLines, newStart, newLines }: Hunk, from: Side) =>
  from === 'old'
    ? { start: oldStart, count: oldLines, otherStart: newStart, otherCount: newLines }
    : { start: newStart, count: newLines, otherStart: oldStart, otherCount: oldLines };

/** Returns the same line in the other file, or null if the change has replaced it. */
export const otherLine = (hunks: readonly Hunk[], line: number, from: Side): number | null => {
  let shift = 0;
  for (const hunk of hunks) {
    const { start, count, otherStart, otherCount } = sides(hunk, from);
    if (line < start) break;
    if (line < start + count) return null;
    shift = otherStart + otherCount - (start + count);
  }
  return line + shift;
};

/**
 * Returns where a changed line stands in the listing of the diff: its own number, and the next number of the other file.
 * Null for a line that did not change.
 */
export const counterpart = (hunks: readonly Hunk[], line: number, from: Side): number | null => {
  for (const hunk of hunks) {
    const { start, count, otherStart, otherCount } = sides(hunk, from);
    // The listing shows the removed lines first.
    if (line >= start && line < start + count) return from === 'old' ? otherStart : otherStart + otherCount;
  }
  return null;
};
