import { branchRoutes } from './rest/branches.ts';
import { commitRoutes } from './rest/commits.ts';
import { compareRoutes } from './rest/compare.ts';
import { fileRoutes } from './rest/files.ts';
import { languageRoutes } from './rest/languages.ts';
import { protectedBranchRoutes } from './rest/protected-branches.ts';
import { protectedTagRoutes } from './rest/protected-tags.ts';
import { tagRoutes } from './rest/tags.ts';
import { treeRoutes } from './rest/trees.ts';
import { upkeepRoutes } from './rest/upkeep.ts';
import { writingRoutes } from './rest/writing.ts';

export const routes = [
  ...languageRoutes,
  ...upkeepRoutes,
  ...branchRoutes,
  ...protectedBranchRoutes,
  ...commitRoutes,
  ...fileRoutes,
  ...treeRoutes,
  ...compareRoutes,
  ...tagRoutes,
  ...protectedTagRoutes,
  ...writingRoutes,
];
