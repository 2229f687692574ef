import type { Commentable } from '../noteable.ts';
import type { NoteRow } from '../queries.ts';
import { type SuggestionRow, suggestedOn } from './queries.ts';

export const SOURCE_GONE = "Can't apply as the source branch was deleted.";

/** Returns why a suggestion cannot be applied, or null. Says nothing about the caller's role. */
export const applicability = (
  { mergeRequest }: Pick<Commentable, 'mergeRequest'>,
  note: Pick<NoteRow, 'position' | 'change_position'>,
  { applied, outdated, from_content, to_content }: SuggestionRow,
): string | null => {
  if (applied) return "Can't apply as this suggestion was already applied.";
  if (mergeRequest?.state !== 'opened') return "Can't apply as this merge request was merged or closed.";
  if (mergeRequest.source_project_id === null) return SOURCE_GONE;
  const on = suggestedOn(note.position);
  if (!on || outdated || note.change_position !== null || on.head_sha !== mergeRequest.diff_head_sha) {
    return "Can't apply as this line was changed in a more recent version.";
  }
  return from_content === to_content ? 'This suggestion already matches its content.' : null;
};
