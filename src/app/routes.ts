import { routes as aliases } from '#domains/aliases/rest.ts';
import { routes as ci } from '#domains/ci/rest.ts';
import { routes as directory } from '#domains/directory/rest.ts';
import { routes as emoji } from '#domains/emoji/rest.ts';
import { routes as groups } from '#domains/groups/rest.ts';
import { routes as hooks } from '#domains/hooks/rest.ts';
import { routes as issues } from '#domains/issues/rest.ts';
import { routes as labels } from '#domains/labels/rest.ts';
import { routes as members } from '#domains/members/rest.ts';
import { routes as mergeRequests } from '#domains/merge-requests/rest.ts';
import { routes as metadata } from '#domains/metadata/rest.ts';
import { routes as milestones } from '#domains/milestones/rest.ts';
import { routes as notes } from '#domains/notes/rest.ts';
import { routes as oauth } from '#domains/oauth/rest.ts';
import { followingMoves, routes as projects } from '#domains/projects/rest.ts';
import { routes as pushRules } from '#domains/push-rules/rest.ts';
import { routes as releases } from '#domains/releases/rest.ts';
import { branchRoutes } from '#domains/repositories/rest/branches.ts';
import { commitRoutes } from '#domains/repositories/rest/commits.ts';
import { compareRoutes } from '#domains/repositories/rest/compare.ts';
import { fileRoutes } from '#domains/repositories/rest/files.ts';
import { languageRoutes } from '#domains/repositories/rest/languages.ts';
import { protectedBranchRoutes } from '#domains/repositories/rest/protected-branches.ts';
import { protectedTagRoutes } from '#domains/repositories/rest/protected-tags.ts';
import { tagRoutes } from '#domains/repositories/rest/tags.ts';
import { treeRoutes } from '#domains/repositories/rest/trees.ts';
import { upkeepRoutes } from '#domains/repositories/rest/upkeep.ts';
import { writingRoutes } from '#domains/repositories/rest/writing.ts';
import { routes as runners } from '#domains/runners/rest.ts';
import { routes as saml } from '#domains/saml/rest.ts';
import { routes as serviceAccounts } from '#domains/service-accounts/rest.ts';
import { routes as settings } from '#domains/settings/rest.ts';
import { routes as signIn } from '#domains/sign-in/rest.ts';
import { routes as tokens } from '#domains/tokens/rest.ts';
import { routes as topics } from '#domains/topics/rest.ts';
import { routes as transfers } from '#domains/transfers/rest.ts';
import { routes as uploads } from '#domains/uploads/rest.ts';
import { routes as users } from '#domains/users/rest.ts';
import type { Route } from '#rest/route.ts';

/** Every REST endpoint, a line per domain. */
export const routes: readonly Route[] = [
  ...metadata,
  ...settings,
  ...users,
  ...signIn,
  ...tokens,
  ...oauth,
  ...groups,
  ...serviceAccounts,
  ...topics,
  ...projects,
  ...aliases,
  ...pushRules,
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
  ...members,
  ...uploads,
  ...saml,
  ...directory,
  ...transfers,
  ...labels,
  ...milestones,
  ...issues,
  ...hooks,
  ...ci,
  ...mergeRequests,
  ...notes,
  ...emoji,
  ...releases,
  ...runners,
].map(followingMoves);
