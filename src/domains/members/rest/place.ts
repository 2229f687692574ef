import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { MemberSource } from '../model.ts';

/** Groups or projects: the routes of both differ by nothing but where they are. */
export interface Place {
  readonly path: '/groups/:id' | '/projects/:id';
  readonly noun: string;
  source(ctx: Context, id: IdOrPath): Promise<MemberSource>;
}

/** What is wrong with the request as a whole, not with one of the people named. */
export const FOR_ALL: ReadonlySet<string> = new Set([
  'forbidden',
  'parameters',
  'unauthenticated',
  'too_many_requests',
]);

export const splitCommas = (list: string): string[] =>
  list
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
