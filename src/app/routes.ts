import type { Route } from '#rest/route.ts';

/** Every REST endpoint, a line per domain. */
export const routes: readonly Route[] = [];
