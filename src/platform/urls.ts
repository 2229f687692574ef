import type { Context } from './context.ts';

/** Returns an absolute URL of the hub for its users: `webUrl(ctx, 'group/project')`. */
export const webUrl = ({ services }: Pick<Context, 'services'>, path: string): string =>
  `${services.urls.base}/${path}`;

/** Returns an absolute URL of the REST interface: `apiUrl(ctx, 'projects/1')`. */
export const apiUrl = (ctx: Pick<Context, 'services'>, path: string): string => webUrl(ctx, `api/v4/${path}`);

/** Encodes a path for a URL, and keeps its slashes. */
export const encodePath = (path: string): string => path.split('/').map(encodeURIComponent).join('/');

/** Returns whether the text is an http or https URL. Other URLs could be scripts, and are not shown as links. */
export const isWebAddress = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? '');

/**
 * Splits a request target at its first `?`. The query excludes the `?`. Unlike `new URL`, this never throws, because
 * the target is untrusted.
 */
export const splitTarget = (target: string): { readonly path: string; readonly query: string } => {
  const mark = target.indexOf('?');
  return mark < 0 ? { path: target, query: '' } : { path: target.slice(0, mark), query: target.slice(mark + 1) };
};
