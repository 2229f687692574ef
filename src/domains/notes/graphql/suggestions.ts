import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { NoteRef } from '../graphql.ts';
import { applySuggestions } from '../suggestions/apply.ts';
import { type SuggestionRow, suggestedOn, suggestionsByNoteIds } from '../suggestions/queries.ts';

const loadSuggestions = loader(suggestionsByNoteIds);

interface Suggested {
  readonly row: SuggestionRow;
  readonly position: unknown;
}

const lineOf = ({ position, row }: Suggested, side: 'from' | 'to'): number | null => {
  const line = suggestedOn(position)?.new_line;
  if (line === undefined) return null;
  return side === 'from' ? line - row.lines_above : line + row.lines_below;
};

const Suggestion = builder.objectRef<Suggested>('Suggestion').implement({
  description: 'New text for lines of the source branch, suggested in a comment.',
  fields: (t) => ({
    id: t.field({ type: 'SuggestionID', nullable: false, resolve: ({ row }) => row.id }),
    fromLine: t.int({ resolve: (suggested) => lineOf(suggested, 'from') }),
    toLine: t.int({ resolve: (suggested) => lineOf(suggested, 'to') }),
    fromContent: t.string({ nullable: false, resolve: ({ row }) => row.from_content }),
    toContent: t.string({ nullable: false, resolve: ({ row }) => row.to_content }),
    applied: t.boolean({ nullable: false, resolve: ({ row }) => row.applied }),
    commitId: t.string({ description: 'The commit that applied it.', resolve: ({ row }) => row.commit_id }),
  }),
});

builder.objectField(NoteRef, 'suggestions', (t) =>
  t.field({
    type: [Suggestion],
    nullable: false,
    resolve: async ({ id, position }, _args, ctx) => {
      if (position === null) return [];
      return ((await loadSuggestions(ctx, id)) ?? []).map((row) => ({ row, position }));
    },
  }),
);

mutationField('applySuggestions', {
  description: 'Commits suggestions to the source branch of their merge request, all in one commit.',
  input: (t) => ({
    ids: t.field({ type: ['SuggestionID'], required: true }),
    commitMessage: t.string({ description: 'By default, the message of the project.' }),
  }),
  payload: { suggestions: [Suggestion] },
  run: async (ctx, { ids, commitMessage }) => {
    const { suggestions } = await applySuggestions(ctx, ids, commitMessage ?? undefined);
    return { suggestions: suggestions.map(({ note, row }) => ({ row, position: note.position })) };
  },
});
