import type { Route } from '#rest/route.ts';
import { routes as applications } from './rest/applications.ts';

export const routes: readonly Route[] = [...applications];
