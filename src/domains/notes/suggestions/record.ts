import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import type { Commentable } from '../noteable.ts';
import type { NoteRow } from '../queries.ts';
import { applicability } from './applicability.ts';
import { type SuggestionRow, suggestedOn, suggestionsByNoteIds } from './queries.ts';

export const suggestionRecord = z
  .object({
    id: z.int(),
    from_line: z.int().nullable(),
    to_line: z.int().nullable(),
    appliable: z.boolean(),
    applied: z.boolean(),
    from_content: z.string(),
    to_content: z.string(),
  })
  .meta({ id: 'Suggestion' });

export const toSuggestion = (
  noteable: Commentable,
  note: Pick<NoteRow, 'position' | 'change_position'>,
  row: SuggestionRow,
): z.output<typeof suggestionRecord> => {
  const line = suggestedOn(note.position)?.new_line ?? null;
  return {
    id: row.id,
    from_line: line === null ? null : line - row.lines_above,
    to_line: line === null ? null : line + row.lines_below,
    appliable: applicability(noteable, note, row) === null,
    applied: row.applied,
    from_content: row.from_content,
    to_content: row.to_content,
  };
};

/** Returns the records of the suggestions in these comments, by comment. */
export const suggestionRecords = async (
  ctx: Context,
  noteable: Commentable,
  notes: readonly NoteRow[],
): Promise<Map<number, z.output<typeof suggestionRecord>[]>> => {
  const onLines = notes.filter(({ position, merge_request_id }) => position !== null && merge_request_id !== null);
  if (onLines.length === 0) return new Map();
  const rows = await suggestionsByNoteIds(
    ctx,
    onLines.map(({ id }) => id),
  );
  return new Map(
    onLines.map((note) => [note.id, (rows.get(note.id) ?? []).map((row) => toSuggestion(noteable, note, row))]),
  );
};
