import { z } from 'zod';
import { only } from '#platform/values/only.ts';
import { integer, list, text } from '#rest/params.ts';
import { type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { type AppliedSuggestions, applySuggestions } from '../suggestions/apply.ts';
import { suggestionRecord, toSuggestion } from '../suggestions/record.ts';

const tag = 'Notes';
const commit_message = text({ max: 65_536 });

const records = ({ noteable, suggestions }: AppliedSuggestions) =>
  suggestions.map(({ note, row }) => toSuggestion(noteable, note, row));

export const suggestionRoutes = [
  route({
    method: 'PUT',
    path: '/suggestions/:id/apply',
    tag,
    summary: 'Apply a suggestion',
    description:
      'Commits the suggested lines to the source branch of the merge request and resolves the thread. `commit_message` may have the placeholders of `suggestion_commit_message`.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { id: integer(), commit_message: commit_message.optional() },
    response: suggestionRecord,
    run: async (ctx, { id, commit_message }) => only(records(await applySuggestions(ctx, [id], commit_message))),
  }),
  route({
    method: 'PUT',
    path: '/suggestions/batch_apply',
    tag,
    summary: 'Apply several suggestions in one commit',
    description: 'They must be on the same merge request, and their lines must not overlap.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { ids: list(integer(), { max: 100, commas: true }), commit_message: commit_message.optional() },
    response: z.array(suggestionRecord),
    run: async (ctx, { ids, commit_message }) => records(await applySuggestions(ctx, ids, commit_message)),
  }),
] satisfies readonly Route[];
