import type { ModelId } from '#graphql/ids.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { getNoteableById, type Noteable } from '../noteable.ts';

/** Returns the issue or merge request with this id. @throws DomainError `not_found`, `bad_request` for other models */
export const noteableByModel = async (ctx: Context, { model, id }: ModelId): Promise<Noteable> => {
  if (model !== 'Issue' && model !== 'MergeRequest') throw badRequest(`comments on ${model} are not supported`);
  return getNoteableById(ctx, model === 'Issue' ? 'issue' : 'merge_request', id);
};
