import { branchRoutes } from './rest/branches.ts';
import { commitRoutes } from './rest/commits.ts';
import { languageRoutes } from './rest/languages.ts';
import { protectedBranchRoutes } from './rest/protected-branches.ts';
import { tagRoutes } from './rest/tags.ts';
import { writingRoutes } from './rest/writing.ts';

export const routes = [
  ...languageRoutes,
  ...branchRoutes,
  ...protectedBranchRoutes,
  ...commitRoutes,
  ...tagRoutes,
  ...writingRoutes,
];
