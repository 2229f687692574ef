import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { createNote, type NewNote } from './commands.ts';
import type { NoteableCommit } from './noteable.ts';
import { requireCreateNote } from './policy.ts';
import type { TextPosition } from './positions/model.ts';
import type { NoteRow } from './queries.ts';

/** A line of a file: in the commit (`new_*`), in its first parent (`old_*`), or unchanged (both). */
export interface LineOfCommit {
  readonly new_path?: string | undefined;
  readonly new_line?: number | undefined;
  readonly old_path?: string | undefined;
  readonly old_line?: number | undefined;
  /** The ids of the commit and of its first parent, if the caller sends them. */
  readonly head_sha?: string | undefined;
  readonly start_sha?: string | undefined;
  readonly base_sha?: string | undefined;
}

export interface NewCommitComment extends Omit<NewNote, 'place' | 'commit_id' | 'internal'> {
  /** Null for a comment on the whole commit. */
  readonly on: LineOfCommit | null;
}

/**
 * Comments on a commit, or on a line of one of its files. Requires access to the code and the right to comment.
 *
 * @throws DomainError as `createNote`, `bad_request` for a missing file or for the position of another commit
 */
export const createCommitComment = async (
  ctx: Context,
  noteable: NoteableCommit,
  { on, ...note }: NewCommitComment,
): Promise<NoteRow> => {
  requireCreateNote(ctx, noteable, false);
  const position = on && (await positionIn(ctx, noteable, on));
  return createNote(ctx, noteable, { ...note, place: position && { position, line_code: null, excerpt: null } });
};

/** Builds a position in the format of merge requests, which clients already support. */
const positionIn = async (
  ctx: Context,
  { project, commit }: NoteableCommit,
  given: LineOfCommit,
): Promise<TextPosition> => {
  const [parent = null] = commit.parent_ids;
  const new_path = given.new_path ?? given.old_path ?? '';
  const old_path = given.old_path ?? new_path;
  const { new_line, old_line } = given;
  if (new_line === undefined && old_line === undefined) throw badRequest('position needs new_line or old_line');
  if ((given.head_sha ?? commit.id) !== commit.id) throw badRequest("head_sha is not the commit's id");
  for (const sha of [given.base_sha, given.start_sha]) {
    if ((sha ?? parent ?? ZERO_OID) !== (parent ?? ZERO_OID)) throw badRequest("base_sha is not the commit's parent");
  }
  const holds = async (oid: string | null, path: string) =>
    oid !== null && (await ctx.services.git.findFile(project.disk_path, oid, path))?.type === 'blob';
  if (new_line !== undefined && !(await holds(commit.id, new_path)))
    throw badRequest('path is not a file of the commit');
  if (old_line !== undefined && !(await holds(parent, old_path))) {
    throw badRequest("path is not a file of the commit's parent");
  }
  return {
    position_type: 'text',
    base_sha: parent,
    start_sha: parent,
    head_sha: commit.id,
    old_path,
    new_path,
    old_line: old_line ?? null,
    new_line: new_line ?? null,
  };
};

/** One line of one side, as shown in the comments of commits. */
export interface CommentedLine {
  readonly path: string;
  readonly line: number;
  readonly line_type: 'new' | 'old';
}

const placed = z.object({
  new_path: z.string().nullish(),
  old_path: z.string().nullish(),
  new_line: z.int().nullish(),
  old_line: z.int().nullish(),
});

/** Returns the line of a comment; null for the whole commit, or if an imported position has no line. */
export const commentedLine = ({ position }: Pick<NoteRow, 'position'>): CommentedLine | null => {
  const found = placed.safeParse(position);
  if (!found.success) return null;
  const { new_path, old_path, new_line, old_line } = found.data;
  const path = new_path ?? old_path;
  const line = new_line ?? old_line;
  return path == null || line == null ? null : { path, line, line_type: new_line == null ? 'old' : 'new' };
};
