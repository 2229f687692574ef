import { badParameters } from '#platform/errors.ts';
import { RestError } from './errors.ts';
import type { Parameters } from './nested.ts';
import type { Route } from './route.ts';
import { type Mark, markOf, type Replacement, useOf } from './v5.ts';

/** The parameters of a route that differ in version 5. */
export type Watched = readonly (readonly [name: string, mark: Exclude<Mark, { kind: 'link' }>])[];

/** Returns the parameters of a route that differ in version 5. Most routes have none. */
export const watchedOf = ({ shape }: Pick<Route, 'shape'>): Watched =>
  Object.entries(shape).flatMap(([name, schema]) => {
    const mark = markOf(schema);
    return mark && mark.kind !== 'link' ? [[name, mark] as const] : [];
  });

/** A credential in the query, which section 9 of specification 2 removes. */
export const tokenInQuery: Replacement = { replacedBy: 'the header `Authorization: Bearer`' };

/** @throws DomainError `parameters` for an `access_token` in the query */
export const requireQueryOfV5 = ({ access_token }: Parameters): void => {
  if (access_token !== undefined) throw badParameters(removedText('access_token in the query', tokenInQuery));
};

/**
 * Refuses parameters that version 5 does not have, and values that it does not accept.
 * @throws DomainError `parameters`
 */
export const requireV5 = (watched: Watched, sent: Parameters): void => {
  const found = watched.flatMap(([name, mark]) => differing(name, mark, sent[name]));
  if (found.length > 0) throw badParameters(found.map(({ problem }) => problem).join(', '));
};

/** Returns the deprecated parameters that a request of version 4 sends, such as `tag_list` or `override_params[tag_list]`. */
export const deprecatedIn = (watched: Watched, sent: Parameters): readonly string[] =>
  watched.flatMap(([name, mark]) => differing(name, mark, sent[name]).map((each) => each.name));

interface Difference {
  readonly name: string;
  readonly problem: string;
}

const differing = (name: string, mark: Watched[number][1], value: unknown): readonly Difference[] => {
  if (value === undefined) return [];
  if (mark.kind === 'removed') return [{ name, problem: removedText(name, mark) }];
  if (mark.kind === 'changed') {
    return mark.schema.safeParse(value).success ? [] : [{ name, problem: `${name} ${mark.note}` }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(mark.names).flatMap(([key, replacement]) => {
    const inside = `${name}[${key}]`;
    return Object.hasOwn(value, key) ? [{ name: inside, problem: removedText(inside, replacement) }] : [];
  });
};

/** The answer of version 5 to a route that it does not have. */
export const routeRemoved = ({ method, path }: Pick<Route, 'method' | 'path'>, replacement: Replacement): RestError =>
  new RestError(404, { error: `404 Not Found: ${method} ${path} ${GONE}: ${useOf(replacement)}` });

const removedText = (name: string, replacement: Replacement): string => `${name} ${GONE}: ${useOf(replacement)}`;

const GONE = 'was removed in version 5 of the API';
