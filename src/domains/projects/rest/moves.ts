import { findGroupByOldPath } from '#domains/groups/queries.ts';
import { DomainError } from '#platform/errors.ts';
import { RestError } from '#rest/errors.ts';
import type { Route } from '#rest/route.ts';
import { findMovedProject } from '../queries.ts';

/**
 * Wraps a route so that GET requests for the old path of a project or group are redirected to its id (reference:
 * conventions §3). For every route below `/projects/:id` and `/groups/:id`.
 */
export const followingMoves = (declared: Route): Route => {
  const [, kind] = /^\/(projects|groups)\/:id(?:\/|$)/.exec(declared.path) ?? [];
  if (declared.method !== 'GET' || kind === undefined) return declared;
  const findMoved = kind === 'groups' ? findGroupByOldPath : findMovedProject;
  return {
    ...declared,
    handle: async (ctx, sent, http) => {
      try {
        return await declared.handle(ctx, sent, http);
      } catch (error) {
        if (!(error instanceof DomainError) || error.code !== 'not_found') throw error;
        const given = sent.id;
        if (typeof given !== 'string' || /^\d+$/.test(given)) throw error;
        const id = await findMoved(ctx, given);
        if (id === null) throw error;
        const Location = http.externalUrl + http.url.replace(/^(.*?\/(?:projects|groups)\/)[^/?]+/, `$1${id}`);
        throw new RestError(301, `This resource has been moved permanently to ${Location}`, { Location });
      }
    },
  };
};
