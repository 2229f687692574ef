import type { Context } from './context.ts';

/** An absolute URL of the hub, as its users reach it: `webUrl(ctx, 'group/project')`. */
export const webUrl = ({ services }: Pick<Context, 'services'>, path: string): string =>
  `${services.urls.base}/${path}`;

/** An absolute URL of the REST interface: `apiUrl(ctx, 'projects/1')`. */
export const apiUrl = (ctx: Pick<Context, 'services'>, path: string): string => webUrl(ctx, `api/v4/${path}`);
