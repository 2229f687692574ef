import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Commit } from '#domains/repositories/model.ts';
import { codeAudience } from '#domains/repositories/policy.ts';
import { getCommit } from '#domains/repositories/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { badRequest } from '#platform/errors.ts';
import { payloadOf, readBody } from './commands.ts';
import { noteCreated } from './events.ts';
import { noteIsVisible } from './policy.ts';
import { type NoteRow, noteColumns } from './queries.ts';

/** A line of a file: as the commit left it (`new`), or as its first parent had it (`old`). */
export interface CommentedLine {
  readonly path: string;
  readonly line: number;
  readonly line_type: 'new' | 'old';
}

export interface NewCommitComment {
  readonly note: string;
  /** Null for a comment on the commit as a whole. */
  readonly on: CommentedLine | null;
}

/** The comments on a commit that the caller may read, the oldest first. @throws DomainError `forbidden`, `not_found` (Commit) */
export const listCommitComments = async (ctx: Context, project: ProjectRow, sha: string): Promise<List<NoteRow>> => {
  const { id } = await getCommit(ctx, project, sha);
  const query = ctx.db
    .selectFrom('notes')
    .select(noteColumns)
    .where('notes.project_id', '=', project.id)
    .where('notes.noteable_type', '=', 'Commit')
    .where('notes.commit_id', '=', id)
    .where('notes.system', '=', false)
    .where(noteIsVisible(ctx.actor));
  const keys = [
    { by: sql.ref('notes.created_at'), of: (row: NoteRow) => row.created_at },
    { by: sql.ref('notes.id'), of: (row: NoteRow) => row.id },
  ];
  return listOf(ctx.db, query, keys, 'asc');
};

/**
 * Comments on a commit, or on a line of a file in it. Whoever may read the code and comment may.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `not_found` (Commit), `invalid`, `bad_request` for a file that is not there
 */
export const createCommitComment = async (
  ctx: Context,
  project: ProjectRow,
  sha: string,
  { note, on }: NewCommitComment,
): Promise<NoteRow> => {
  requireAbility(ctx, project, 'read_code');
  requireAbility(ctx, project, 'create_note');
  const commit = await getCommit(ctx, project, sha);
  const body = readBody(note);
  const position = on && (await positionIn(ctx, project, commit, on));
  return ctx.transaction(async (tx) => {
    const row = await tx.db
      .insertInto('notes')
      .values({
        project_id: project.id,
        noteable_type: 'Commit',
        commit_id: commit.id,
        type: position ? 'DiffNote' : null,
        note: body,
        author_id: tx.actor.userId,
        discussion_id: randomBytes(20).toString('hex'),
        position: position ? JSON.stringify(position) : null,
      })
      .returning(noteColumns)
      .executeTakeFirstOrThrow();
    tx.emit(noteCreated, {
      ...projectScope(project),
      subject: { type: 'Note', id: row.id },
      min_access_level: codeAudience(project),
      payload: payloadOf({ kind: 'commit', id: null, iid: null, issue: null }, row),
    });
    return row;
  });
};

/** As positions of merge requests are written, whose readers know them. */
const positionIn = async (
  ctx: Context,
  project: ProjectRow,
  commit: Commit,
  { path, line, line_type }: CommentedLine,
) => {
  const [parent = null] = commit.parent_ids;
  const holder = line_type === 'new' ? commit.id : parent;
  const entry = holder === null ? null : await ctx.services.git.findFile(project.disk_path, holder, path);
  if (entry?.type !== 'blob') {
    throw badRequest(`path is not a file of the commit${line_type === 'old' ? "'s parent" : ''}`);
  }
  return {
    position_type: 'text',
    base_sha: parent,
    start_sha: parent,
    head_sha: commit.id,
    old_path: path,
    new_path: path,
    old_line: line_type === 'old' ? line : null,
    new_line: line_type === 'new' ? line : null,
  };
};

const placed = z.object({
  new_path: z.string().nullish(),
  old_path: z.string().nullish(),
  new_line: z.int().nullish(),
  old_line: z.int().nullish(),
});

/** The line that a comment stands on; null on the whole commit, and where what was imported does not tell. */
export const commentedLine = ({ position }: Pick<NoteRow, 'position'>): CommentedLine | null => {
  const found = placed.safeParse(position);
  if (!found.success) return null;
  const { new_path, old_path, new_line, old_line } = found.data;
  const path = new_path ?? old_path;
  const line = new_line ?? old_line;
  return path == null || line == null ? null : { path, line, line_type: new_line == null ? 'old' : 'new' };
};
