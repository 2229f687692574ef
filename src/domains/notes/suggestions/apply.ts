import { sql } from 'kysely';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { requirePush } from '#domains/repositories/collaboration.ts';
import { createCommit } from '#domains/repositories/commit-changes.ts';
import { branchRef, type Commit } from '#domains/repositories/model.ts';
import { commitEmail } from '#domains/users/commit-email.ts';
import { getCurrentUser, usersByIds } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, DomainError, forbidden, invalid, notFound, tooLong, unauthenticated } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import type { Noteable } from '../noteable.ts';
import { getNoteById, type NoteRow } from '../queries.ts';
import { setResolved } from '../resolving.ts';
import { applicability, SOURCE_GONE } from './applicability.ts';
import { linesOf, readLines } from './file-lines.ts';
import { suggestionMessage } from './message.ts';
import { type SuggestionRow, suggestedOn } from './queries.ts';

/** Placeholders make a message longer. */
const MAX_MESSAGE = 65_536;

export interface AppliedSuggestions {
  readonly noteable: Noteable;
  readonly suggestions: readonly { readonly note: NoteRow; readonly row: SuggestionRow }[];
}

/**
 * Commits suggestions to the source branch of their merge request, all at once, and resolves their threads. Roles,
 * protection and push rules are as for a push.
 *
 * @throws DomainError `not_found`, `forbidden`, `invalid` for a long message, `bad_request` for suggestions that cannot
 *   be applied, overlap or belong to several merge requests
 */
export const applySuggestions = async (
  ctx: Context,
  ids: readonly number[],
  commitMessage?: string,
): Promise<AppliedSuggestions> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  if (isLongerThan(commitMessage ?? '', MAX_MESSAGE)) throw invalid({ commit_message: [tooLong(MAX_MESSAGE)] });
  const { noteable, suggestions } = await getSuggestions(ctx, [...new Set(ids)]);
  const { mergeRequest, project } = noteable;
  if (!mergeRequest) throw notFound('Suggestion');
  const sourceId = mergeRequest.source_project_id;
  if (sourceId === null) throw refusal(SOURCE_GONE);
  const source = sourceId === project.id ? project : await findProject(ctx, { id: sourceId });
  if (!source) throw forbidden();
  await requirePush(ctx, source);
  for (const { note, row } of suggestions) {
    const problem = applicability(noteable, note, row);
    if (problem !== null) throw refusal(problem);
  }
  const { source_branch } = mergeRequest;
  const head = await ctx.services.git.resolve(source.disk_path, branchRef(source_branch));
  if (head === null) throw refusal('The source branch of the merge request does not exist.');
  const files = await changedFiles(ctx, source, head, suggestions);
  const commit = await createCommit(
    ctx,
    source,
    { branch: source_branch, commit_message: await messageOf(ctx, source, source_branch, suggestions, commitMessage) },
    await Promise.all(
      files.map(async ({ path, content }) => ({
        action: 'update',
        file_path: path,
        content,
        // A push in between must not be undone.
        last_commit_id: (await ctx.services.git.lastCommitOf(source.disk_path, head, path)) ?? head,
      })),
    ),
  );
  await markApplied(ctx, noteable, suggestions, commit);
  const applied = suggestions.map(({ note, row }) => ({ note, row: { ...row, applied: true, commit_id: commit.id } }));
  return { noteable, suggestions: applied };
};

/** Clients show these messages as they are. */
const refusal = (message: string): DomainError => new DomainError('bad_request', message);

const MAX_AT_ONCE = 100;

/** @throws DomainError `not_found`, `bad_request` for suggestions of several merge requests */
const getSuggestions = async (ctx: Context, ids: readonly number[]): Promise<AppliedSuggestions> => {
  if (ids.length === 0 || ids.length > MAX_AT_ONCE) throw badRequest(`ids must name 1 to ${MAX_AT_ONCE} suggestions`);
  const rows = await ctx.db
    .selectFrom('suggestions')
    .selectAll()
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .orderBy('id')
    .execute();
  if (rows.length < ids.length) throw notFound('Suggestion');
  let noteable: Noteable | null = null;
  const suggestions: { note: NoteRow; row: SuggestionRow }[] = [];
  for (const [noteId, own] of Map.groupBy(rows, ({ note_id }) => note_id)) {
    const found = await getNoteById(ctx, noteId);
    noteable ??= found.noteable;
    if (found.noteable.kind !== noteable.kind || found.noteable.id !== noteable.id) {
      throw badRequest('Suggestions must all be on the same branch.');
    }
    suggestions.push(...own.map((row) => ({ note: found.note, row })));
  }
  if (!noteable) throw notFound('Suggestion');
  return { noteable, suggestions };
};

interface Edit {
  /** The first and the last line to replace, from 1. */
  readonly from: number;
  readonly to: number;
  readonly row: SuggestionRow;
}

const changedFiles = async (
  ctx: Context,
  { disk_path }: ProjectRow,
  sha: string,
  suggestions: AppliedSuggestions['suggestions'],
): Promise<{ readonly path: string; readonly content: string }[]> => {
  const edits = suggestions.flatMap(({ note, row }): (Edit & { readonly path: string })[] => {
    const on = suggestedOn(note.position);
    if (!on) return [];
    return [{ path: on.new_path, from: on.new_line - row.lines_above, to: on.new_line + row.lines_below, row }];
  });
  const files: { path: string; content: string }[] = [];
  for (const [path, own] of Map.groupBy(edits, (edit) => edit.path)) {
    const lines = await readLines(ctx, { disk_path, sha, path });
    if (!lines) throw refusal('A file has been changed.');
    files.push({ path, content: edited(lines, own) });
  }
  return files;
};

/** Replaces lines from the last edit to the first, so that the numbers stay right. */
const edited = (lines: readonly string[], edits: readonly Edit[]): string => {
  const result = [...lines];
  const fromLast = [...edits].sort((a, b) => b.from - a.from);
  for (const [index, { from, to, row }] of fromLast.entries()) {
    const next = fromLast[index + 1];
    if (next && next.to >= from) throw refusal('Suggestions are not applicable as their lines cannot overlap.');
    const current = lines.slice(from - 1, to);
    if (current.join('') !== row.from_content) throw refusal('A file has been changed.');
    result.splice(from - 1, to - from + 1, ...likeIn(current, linesOf(row.to_content)));
  }
  return result.join('');
};

/** New lines end as the lines that they replace. */
const likeIn = (current: readonly string[], lines: readonly string[]): string[] => {
  const isWindows = current.some((line) => line.endsWith('\r\n'));
  const isEnd = current.at(-1)?.endsWith('\n') === false;
  return lines.map((line, index) => {
    const text = line.replace(/\r?\n$/, '');
    if (isEnd && index === lines.length - 1) return text;
    return `${text}${isWindows ? '\r\n' : '\n'}`;
  });
};

const messageOf = async (
  ctx: Context,
  project: ProjectRow,
  branch: string,
  suggestions: AppliedSuggestions['suggestions'],
  given: string | undefined,
): Promise<string> => {
  const user = await getCurrentUser(ctx);
  const authors = await usersByIds(ctx, [...new Set(suggestions.flatMap(({ note }) => note.author_id ?? []))]);
  const paths = suggestions.flatMap(({ note }) => suggestedOn(note.position)?.new_path ?? []);
  return suggestionMessage(given ?? project.suggestion_commit_message, {
    branch_name: branch,
    project_path: project.path,
    project_name: project.name,
    username: user.username,
    user_full_name: user.name,
    file_paths: [...new Set(paths)],
    suggestions_count: suggestions.length,
    co_authors: await Promise.all(
      [...authors.values()]
        .filter(({ id }) => id !== user.id)
        .map(async (author) => `${author.name} <${await commitEmail(ctx, author)}>`),
    ),
  });
};

const markApplied = (
  ctx: Context,
  noteable: Noteable,
  suggestions: AppliedSuggestions['suggestions'],
  commit: Commit,
): Promise<void> =>
  ctx.transaction(async (tx) => {
    await tx.db
      .updateTable('suggestions')
      .set({ applied: true, commit_id: commit.id })
      .where(sql<boolean>`id = any (${suggestions.map(({ row }) => row.id)}::bigint[])`)
      .execute();
    const discussionIds = [...new Set(suggestions.map(({ note }) => note.discussion_id))];
    await setResolved(tx, noteable, { discussionIds }, true);
  });
