import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { MemberSource } from '../model.ts';

/** Groups or projects. Their routes differ only in their place. */
export interface SourceKind {
  readonly path: '/groups/:id' | '/projects/:id';
  readonly noun: string;
  source(ctx: Context, id: IdOrPath): Promise<MemberSource>;
}

/** Errors that concern the request as a whole, not one of the given users. */
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
