import { type Selectable, sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import type { Suggestions } from '#platform/db/tables.ts';
import type { Commentable } from '../noteable.ts';
import { readPosition, type TextPosition } from '../positions/model.ts';
import { readLines } from './file-lines.ts';
import { parseSuggestions } from './parse.ts';

export type SuggestionRow = Selectable<Suggestions>;
export type NewSuggestion = Pick<
  SuggestionRow,
  'relative_order' | 'lines_above' | 'lines_below' | 'from_content' | 'to_content'
>;

/** Returns the suggestions of these comments by comment, in their order. */
export const suggestionsByNoteIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, SuggestionRow[]>> => {
  const rows = await ctx.db
    .selectFrom('suggestions')
    .selectAll()
    .where(sql<boolean>`note_id = any (${ids}::bigint[])`)
    .orderBy('note_id')
    .orderBy('relative_order')
    .execute();
  return Map.groupBy(rows, ({ note_id }) => note_id);
};

/** Returns the line that suggestions of a comment are about, or null if the comment is on no line of the new file. */
export const suggestedOn = (position: unknown): (TextPosition & { readonly new_line: number }) | null => {
  const on = readPosition(position);
  if (on?.position_type !== 'text' || on.new_line === null) return null;
  return { ...on, new_line: on.new_line };
};

/** Characters that the suggestions of a comment may replace in all. Beyond that it has none: lines can be very long. */
const MAX_REPLACED = 1_000_000;

/** Reads the suggestions in the body of a comment, with the lines that they replace. */
export const suggestionsIn = async (
  ctx: Context,
  noteable: Commentable,
  body: string,
  position: unknown,
): Promise<NewSuggestion[]> => {
  const on = noteable.kind === 'merge_request' ? suggestedOn(position) : null;
  const changes = on ? parseSuggestions(body) : [];
  if (!on || changes.length === 0) return [];
  const { disk_path } = noteable.project;
  const lines = await readLines(ctx, { disk_path, sha: on.head_sha, path: on.new_path });
  if (!lines || on.new_line > lines.length) return [];
  let size = 0;
  const found = changes.map(({ to_content, ...wanted }, relative_order) => {
    const lines_above = Math.min(wanted.lines_above, on.new_line - 1);
    const lines_below = Math.min(wanted.lines_below, lines.length - on.new_line);
    const from_content = lines.slice(on.new_line - 1 - lines_above, on.new_line + lines_below).join('');
    size += from_content.length;
    return { relative_order, lines_above, lines_below, from_content, to_content };
  });
  return size > MAX_REPLACED ? [] : found;
};

/** Replaces the suggestions of a comment. */
export const setSuggestions = async (
  tx: Tx,
  note_id: number,
  suggestions: readonly NewSuggestion[],
  isNew = false,
): Promise<void> => {
  if (!isNew) await tx.db.deleteFrom('suggestions').where('note_id', '=', note_id).execute();
  if (suggestions.length === 0) return;
  await tx.db
    .insertInto('suggestions')
    .values(suggestions.map((suggestion) => ({ ...suggestion, note_id })))
    .execute();
};
