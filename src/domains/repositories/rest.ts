import { branchRoutes } from './rest/branches.ts';
import { commitRoutes } from './rest/commits.ts';
import { protectedBranchRoutes } from './rest/protected-branches.ts';
import { tagRoutes } from './rest/tags.ts';

export const routes = [...branchRoutes, ...protectedBranchRoutes, ...commitRoutes, ...tagRoutes];
