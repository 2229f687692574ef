import { branchRef } from '#domains/repositories/model.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import type { DiffFile } from '#platform/git/reading.ts';
import { type DiffExcerpt, excerptOf } from './excerpt.ts';
import { counterpart, type Hunk, hunksOf, otherLine } from './line-map.ts';
import {
  type GivenPosition,
  type GivenRange,
  type GivenRangeEnd,
  lineCode,
  type Position,
  type RangeEnd,
} from './model.ts';

/** A position that exists in the diff, and what is stored with it. */
export interface PlacedPosition {
  readonly position: Position;
  /** Null for positions without a line. */
  readonly line_code: string | null;
  /** The part of the diff that leads to the line. */
  readonly excerpt: DiffExcerpt | null;
}

/** The owner of a position: a merge request, or a commit of it. */
export interface Reviewed {
  readonly disk_path: string;
  readonly merge_request_id: number;
  readonly commit_id?: string | undefined;
}

/** A patch of one file without context lines. Longer ones take no comments on lines. */
const MAX_PATCH_BYTES = 10 * 1024 * 1024;
const MAX_LINES = 1_000_000;
/** Larger files take no comments on their unchanged lines. */
const MAX_FILE_BYTES = 20 * 1024 * 1024;
const MAX_LINE = 2 ** 31 - 1;

/** The attributes that only pictures have, and those that only texts have. */
const COORDINATES = ['width', 'height', 'x', 'y'] as const;
const LINES = ['old_line', 'new_line', 'line_range'] as const;

/** The messages of upstream, which clients look for (reference: merge-requests §7). */
const wrongLine = () => badRequest(`Note {:line_code=>["can't be blank", "must be a valid line code"]}`);
const wrongPosition = (problem: string) => badRequest(`Note {:position=>["${problem}"]}`);

/**
 * Finds the position in a version of the merge request, or in a commit of it. An added line has only `new_line`, a
 * removed one only `old_line`, an unchanged one both.
 *
 * @throws DomainError `bad_request` for an incomplete position, another diff, or a line that is not there
 */
export const placePosition = async (
  ctx: Context,
  reviewed: Reviewed,
  given: GivenPosition,
): Promise<PlacedPosition> => {
  const { head_sha, position_type } = given;
  const paths = { new: given.new_path || given.old_path, old: given.old_path || given.new_path };
  if (!paths.new || !paths.old) throw wrongPosition('is incomplete');
  if (![given.base_sha, given.start_sha, head_sha].every((sha) => /^[0-9a-f]{40}$/.test(sha)))
    throw wrongPosition('is invalid');
  const foreign =
    position_type === 'text' ? COORDINATES : position_type === 'image' ? LINES : [...COORDINATES, ...LINES];
  if (foreign.some((name) => given[name] != null)) throw wrongPosition('is invalid');
  const { id: diffId, base_sha, start_sha } = await requireDiff(ctx, reviewed, given);
  const stored = diffId === null ? null : await storedFile(ctx, diffId, paths.new, paths.old);
  const [old_path, new_path] = [stored?.old_path ?? paths.old, stored?.new_path ?? paths.new];
  const file = await fileIn(ctx, reviewed.disk_path, { base_sha, head_sha, old_path, new_path });
  if (!file) throw wrongLine();
  const place = { base_sha, start_sha, head_sha, old_path, new_path };
  if (position_type === 'file') return { position: { ...place, position_type }, line_code: null, excerpt: null };
  if (position_type === 'image') {
    const { width, height, x, y } = given;
    if (width == null || height == null || x == null || y == null) throw wrongPosition('is incomplete');
    if ([width, height, x, y].some((pixels) => pixels < 0)) throw wrongPosition('is invalid');
    return { position: { ...place, position_type, width, height, x, y }, line_code: null, excerpt: null };
  }
  if (file.collapsed || file.too_large || file.diff.startsWith('Binary files ')) throw wrongLine();
  const old_line = given.old_line ?? null;
  const new_line = given.new_line ?? null;
  const hunks = hunksIn(file);
  const inFile = { disk_path: reviewed.disk_path, head_sha, new_path };
  const [oldNumber, newNumber] = await requireLine(ctx, inFile, hunks, old_line, new_line);
  const line_range = given.line_range ? rangeIn(new_path, hunks, given.line_range) : null;
  return {
    position: { ...place, position_type, old_line, new_line, ...(line_range ? { line_range } : {}) },
    line_code: lineCode(new_path, oldNumber, newNumber),
    excerpt: stored ? excerptOf(stored, oldNumber, newNumber) : null,
  };
};

/** Returns whether the commit is one of a version of the merge request. */
export const hasCommit = async (
  { db }: Pick<Context, 'db'>,
  merge_request_id: number,
  sha: string,
): Promise<boolean> => {
  const found = await db
    .selectFrom('merge_request_diff_commits')
    .innerJoin('merge_request_diffs', 'merge_request_diffs.id', 'merge_request_diff_commits.diff_id')
    .select('sha')
    .where('merge_request_id', '=', merge_request_id)
    .where('sha', '=', sha)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
};

/** The diff that a position belongs to. The id is null for a commit. */
interface OwnDiff {
  readonly id: number | null;
  readonly base_sha: string;
  readonly start_sha: string;
}

/** @throws DomainError `bad_request` if the position belongs to no version and to no commit of the merge request */
const requireDiff = async (
  ctx: Context,
  { disk_path, merge_request_id, commit_id }: Reviewed,
  { base_sha, start_sha, head_sha }: GivenPosition,
): Promise<OwnDiff> => {
  if (commit_id === undefined) {
    const versions = await ctx.db
      .selectFrom('merge_request_diffs')
      .innerJoin('merge_requests', 'merge_requests.id', 'merge_request_diffs.merge_request_id')
      .select(['merge_request_diffs.id', 'base_commit_sha', 'start_commit_sha', 'target_branch'])
      .where('merge_request_id', '=', merge_request_id)
      .where('head_commit_sha', '=', head_sha)
      .orderBy('merge_request_diffs.id', 'desc')
      .limit(100)
      .execute();
    const version = versions.find(({ base_commit_sha }) => base_commit_sha === base_sha);
    if (version && [version.start_commit_sha, base_sha].includes(start_sha)) {
      return { id: version.id, base_sha, start_sha };
    }
    // Linters name the head of the target branch as base and start, and mean the lines of the newest version.
    const [newest] = versions;
    if (!newest?.base_commit_sha || !newest.start_commit_sha || base_sha !== start_sha) {
      throw wrongPosition('is invalid');
    }
    const isTarget =
      base_sha === newest.start_commit_sha ||
      base_sha === (await ctx.services.git.resolve(disk_path, branchRef(newest.target_branch)));
    if (!isTarget) throw wrongPosition('is invalid');
    return { id: newest.id, base_sha: newest.base_commit_sha, start_sha: newest.start_commit_sha };
  }
  const isListed = await hasCommit(ctx, merge_request_id, commit_id);
  const [commit] = isListed ? await ctx.services.git.readCommits(disk_path, [commit_id]) : [];
  const parent = commit?.parent_ids[0];
  if (!commit || head_sha !== commit.id || base_sha !== parent || start_sha !== parent) {
    throw wrongPosition('is invalid');
  }
  return { id: null, base_sha, start_sha };
};

/** Clients name a renamed file by either path. */
const storedFile = async ({ db }: Context, diffId: number, newPath: string, oldPath: string) => {
  const files = await db
    .selectFrom('merge_request_diff_files')
    .select(['old_path', 'new_path', 'a_mode', 'b_mode', 'new_file', 'renamed_file', 'deleted_file', 'diff'])
    .where('diff_id', '=', diffId)
    .where(({ or, eb }) => or([eb('new_path', '=', newPath), eb('old_path', '=', oldPath)]))
    .orderBy('relative_order')
    .limit(10)
    .execute();
  return files.find(({ new_path }) => new_path === newPath) ?? files[0] ?? null;
};

const fileIn = async (
  ctx: Context,
  diskPath: string,
  {
    base_sha,
    head_sha,
    old_path,
    new_path,
  }: Pick<Position, 'old_path' | 'new_path' | 'head_sha'> & {
    readonly base_sha: string;
  },
): Promise<DiffFile | null> => {
  const diff = await ctx.services.git
    .diff(diskPath, base_sha, head_sha, {
      context: 0,
      paths: [...new Set([old_path, new_path])],
      maxPatchBytes: MAX_PATCH_BYTES,
      maxLines: MAX_LINES,
      signal: ctx.signal,
    })
    .catch(missingCommit);
  return diff?.files.find((file) => file.new_path === new_path && file.old_path === old_path) ?? null;
};

/** The commits of an imported merge request may be missing. */
const missingCommit = (error: unknown): null => {
  if (error instanceof GitError && (error.reason === 'missing' || error.reason === 'failed')) return null;
  throw error;
};

interface InFile {
  readonly disk_path: string;
  readonly head_sha: string;
  readonly new_path: string;
}

/** Returns the hunks of the file. A file that was added or deleted has no line on one side, so that side stays at 0. */
const hunksIn = ({ diff, new_file, deleted_file }: DiffFile): Hunk[] =>
  hunksOf(diff).map((hunk) => ({
    ...hunk,
    ...(new_file ? { oldStart: 0 } : {}),
    ...(deleted_file ? { newStart: 0 } : {}),
  }));

/** Returns the numbers of the line in its line code. @throws DomainError `bad_request` */
const requireLine = async (
  ctx: Context,
  file: InFile,
  hunks: readonly Hunk[],
  oldLine: number | null,
  newLine: number | null,
): Promise<readonly [number, number]> => {
  const found = numbersOf(hunks, oldLine, newLine);
  if (!found) throw wrongLine();
  const isUnchanged = oldLine !== null && newLine !== null;
  if (isUnchanged && newLine > (await countLines(ctx, file))) throw wrongLine();
  return found;
};

const numbersOf = (
  hunks: readonly Hunk[],
  oldLine: number | null,
  newLine: number | null,
): readonly [number, number] | null => {
  if (oldLine !== null && newLine !== null) {
    return otherLine(hunks, oldLine, 'old') === newLine ? [oldLine, newLine] : null;
  }
  if (newLine !== null) {
    const other = counterpart(hunks, newLine, 'new');
    return other === null ? null : [other, newLine];
  }
  if (oldLine === null) return null;
  const other = counterpart(hunks, oldLine, 'old');
  return other === null ? null : [oldLine, other];
};

const countLines = async (ctx: Context, { disk_path, head_sha, new_path }: InFile): Promise<number> => {
  const { git } = ctx.services;
  const entry = await git.findFile(disk_path, head_sha, new_path);
  if (entry?.type !== 'blob' || (entry.size ?? 0) > MAX_FILE_BYTES) return 0;
  const content = await git.readBytes(disk_path, entry.oid, MAX_FILE_BYTES, { signal: ctx.signal });
  if (!content || content.length === 0) return 0;
  let count = content.at(-1) === 0x0a ? 0 : 1;
  for (let at = content.indexOf(0x0a); at !== -1; at = content.indexOf(0x0a, at + 1)) count += 1;
  return count;
};

/** Both ends must be lines of this file. @throws DomainError `bad_request` */
const rangeIn = (path: string, hunks: readonly Hunk[], { start, end }: GivenRange) => ({
  start: rangeEnd(path, hunks, start),
  end: rangeEnd(path, hunks, end),
});

const RANGE_TYPES: readonly (string | null)[] = ['new', 'old', 'expanded', null];

const rangeEnd = (path: string, hunks: readonly Hunk[], given: GivenRangeEnd): RangeEnd => {
  const [, prefix, oldNumber, newNumber] = /^([0-9a-f]{40})_(\d{1,10})_(\d{1,10})$/.exec(given.line_code ?? '') ?? [];
  const old_line = given.old_line ?? null;
  const new_line = given.new_line ?? null;
  const numbers = numbersOf(hunks, old_line, new_line);
  const code = given.line_code ?? (numbers && lineCode(path, ...numbers));
  const type = given.type ?? null;
  const isOwn =
    given.line_code == null ||
    lineCode(path, Number(oldNumber), Number(newNumber)) === `${prefix}_${oldNumber}_${newNumber}`;
  const fits = [oldNumber, newNumber].every((number) => Number(number ?? 0) <= MAX_LINE);
  if (!code || !isOwn || !fits || !RANGE_TYPES.includes(type)) throw wrongPosition('is invalid');
  return { line_code: code, type, old_line, new_line };
};
