import type { Context } from './context.ts';

/** An absolute URL of the hub, as its users reach it: `webUrl(ctx, 'group/project')`. */
export const webUrl = ({ services }: Pick<Context, 'services'>, path: string): string =>
  `${services.urls.base}/${path}`;

/** An absolute URL of the REST interface: `apiUrl(ctx, 'projects/1')`. */
export const apiUrl = (ctx: Pick<Context, 'services'>, path: string): string => webUrl(ctx, `api/v4/${path}`);

/**
 * Splits a request's target at its first `?`; the query comes without it. Unlike `new URL`, this never throws: strangers
 * write the target.
 */
export const splitTarget = (target: string): { readonly path: string; readonly query: string } => {
  const mark = target.indexOf('?');
  return mark < 0 ? { path: target, query: '' } : { path: target.slice(0, mark), query: target.slice(mark + 1) };
};
