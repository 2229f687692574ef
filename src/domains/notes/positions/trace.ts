import type { Context } from '#platform/context.ts';
import { type Hunk, hunksOf, otherLine } from './line-map.ts';
import type { Position, RangeEnd, TextPosition } from './model.ts';

// A comment is on a line of the diff A..B. After a push the diff is C..D. The changes A..C and B..D tell where the line
// went, and C..D whether it is still an added, removed or unchanged line.

export interface Version {
  readonly base_sha: string;
  readonly start_sha: string;
  readonly head_sha: string;
}

/** The new place of a comment, or the change that has made it outdated. */
export type Traced = { readonly position: Position } | { readonly change: Position };

interface FileChange {
  readonly old_path: string;
  readonly new_path: string;
  readonly isDeleted: boolean;
  /** Null if it is not known which lines changed: binary or very large files. */
  readonly hunks: readonly Hunk[] | null;
}

/** The changes between two commits. A file that is in neither map has not changed. */
interface Changes {
  readonly byOld: ReadonlyMap<string, FileChange>;
  readonly byNew: ReadonlyMap<string, FileChange>;
}

const MAX_PATCH_BYTES = 10 * 1024 * 1024;
const MAX_LINES = 1_000_000;

/** Finds the place of positions of one diff (`from`) in another (`to`). All commits are in the repository. */
export const tracePositions = async (
  ctx: Context,
  diskPath: string,
  { from, to }: { readonly from: Version; readonly to: Version },
  positions: readonly Position[],
): Promise<Traced[]> => {
  const oldPaths = new Set(positions.map(({ old_path }) => old_path));
  const newPaths = new Set(positions.map(({ new_path }) => new_path));
  const [ac, bd] = await Promise.all([
    changesOf(ctx, diskPath, from.base_sha, to.base_sha, oldPaths),
    changesOf(ctx, diskPath, from.head_sha, to.head_sha, newPaths),
  ]);
  const paths = new Set([...oldPaths, ...newPaths]);
  for (const { new_path } of [...ac.byOld.values(), ...bd.byOld.values()]) paths.add(new_path);
  const cd = await changesOf(ctx, diskPath, to.base_sha, to.head_sha, paths);
  return positions.map((position) => trace({ from, to, ac, bd, cd }, position));
};

const changesOf = async (
  ctx: Context,
  diskPath: string,
  from: string,
  to: string,
  paths: ReadonlySet<string>,
): Promise<Changes> => {
  if (from === to) return { byOld: new Map(), byNew: new Map() };
  const { git } = ctx.services;
  const wanted = new Set(paths);
  for (const [old, now] of await git.renames(diskPath, from, to, { signal: ctx.signal })) {
    if (paths.has(old)) wanted.add(now);
    if (paths.has(now)) wanted.add(old);
  }
  const { files } = await git.diff(diskPath, from, to, {
    context: 0,
    paths: [...wanted],
    maxPatchBytes: MAX_PATCH_BYTES,
    maxLines: MAX_LINES,
    signal: ctx.signal,
  });
  const changes = files.map((file): FileChange => {
    const isKnown = !file.collapsed && !file.too_large && !file.diff.startsWith('Binary files ');
    return {
      old_path: file.old_path,
      new_path: file.new_path,
      isDeleted: file.deleted_file,
      hunks: isKnown ? hunksOf(file.diff) : null,
    };
  });
  return {
    byOld: new Map(changes.map((change) => [change.old_path, change])),
    byNew: new Map(changes.map((change) => [change.new_path, change])),
  };
};

interface Diffs {
  readonly from: Version;
  readonly to: Version;
  readonly ac: Changes;
  readonly bd: Changes;
  readonly cd: Changes;
}

const trace = (diffs: Diffs, position: Position): Traced => {
  if (position.position_type !== 'text') return traceFile(diffs, position);
  const moved = traceLine(diffs, position);
  if ('change' in moved || !position.line_range) return moved;
  const start = movedEnd(diffs, position, position.line_range.start);
  const end = movedEnd(diffs, position, position.line_range.end);
  return start && end ? { position: { ...moved.position, line_range: { start, end } } } : moved;
};

/** A comment on a whole file or a place in a picture follows renames. A new picture makes it outdated. */
const traceFile = ({ from, to, bd, cd }: Diffs, position: Exclude<Position, TextPosition>): Traced => {
  const changed = bd.byOld.get(position.new_path);
  const new_path = changed?.new_path ?? position.new_path;
  const inDiff = cd.byNew.get(new_path);
  const isSame = !changed || (!changed.isDeleted && (position.position_type === 'file' || isUntouched(changed)));
  if (isSame && inDiff) return { position: { ...position, ...to, old_path: inDiff.old_path, new_path } };
  return { change: { ...position, ...between(from.head_sha, to.head_sha), old_path: position.new_path, new_path } };
};

const isUntouched = ({ hunks }: FileChange): boolean => hunks !== null && hunks.length === 0;

const traceLine = (
  diffs: Diffs,
  position: TextPosition,
): { readonly position: TextPosition } | { readonly change: Position } => {
  const { from, to, ac, bd, cd } = diffs;
  const { line_range: _range, ...rest } = position;
  const { old_line, new_line } = position;
  if (new_line === null) {
    // A removed line.
    const moved = follow(ac, position.old_path, old_line ?? 0);
    if (moved.line === null)
      return { change: { ...rest, ...between(from.base_sha, to.base_sha), new_path: moved.path } };
    const inDiff = cd.byOld.get(moved.path);
    const back = inDiff ? lineIn(inDiff, moved.line, 'old') : moved.line;
    if (inDiff && back === null && inDiff.hunks) {
      return { position: { ...rest, ...to, old_path: moved.path, new_path: inDiff.new_path, old_line: moved.line } };
    }
    const path = inDiff?.new_path ?? moved.path;
    const change = { ...between(from.head_sha, to.head_sha), old_path: position.new_path, new_path: path };
    return { change: { ...rest, ...change, old_line: null, new_line: back } };
  }
  // An added or unchanged line.
  const moved = follow(bd, position.new_path, new_line);
  const inDiff = cd.byNew.get(moved.path);
  if (moved.line === null || !inDiff?.hunks) {
    const change = { ...between(from.head_sha, to.head_sha), old_path: position.new_path, new_path: moved.path };
    return { change: { ...rest, ...change, old_line: new_line, new_line: moved.line } };
  }
  const lines = { old_line: lineIn(inDiff, moved.line, 'new'), new_line: moved.line };
  return { position: { ...rest, ...to, old_path: inDiff.old_path, new_path: moved.path, ...lines } };
};

const between = (from: string, to: string): Version => ({ base_sha: from, start_sha: from, head_sha: to });

/** Returns the path and number of the line after the changes. The line is null if they have replaced it. */
const follow = (changes: Changes, path: string, line: number) => {
  const file = changes.byOld.get(path);
  if (!file) return { path, line };
  return { path: file.new_path, line: file.isDeleted ? null : lineIn(file, line, 'old') };
};

const lineIn = ({ hunks }: FileChange, line: number, side: 'old' | 'new'): number | null =>
  hunks === null ? null : otherLine(hunks, line, side);

/** Null if the end of the range has not survived. Its line code keeps the form that clients parse. */
const movedEnd = ({ ac, bd }: Diffs, { old_path, new_path }: TextPosition, end: RangeEnd): RangeEnd | null => {
  const old = end.old_line === null ? null : follow(ac, old_path, end.old_line).line;
  const now = end.new_line === null ? null : follow(bd, new_path, end.new_line).line;
  if ((end.old_line !== null && old === null) || (end.new_line !== null && now === null)) return null;
  if (old === null && now === null) return null;
  const [prefix = ''] = end.line_code.split('_');
  return { ...end, old_line: old, new_line: now, line_code: `${prefix}_${old ?? now}_${now ?? old}` };
};
