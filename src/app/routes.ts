import { routes as aliases } from '#domains/aliases/rest.ts';
import { managedLicenseRoutes } from '#domains/approvals/rest/managed-licenses.ts';
import { routes as approvals } from '#domains/approvals/rest.ts';
import { runnerRoutes } from '#domains/artifacts/rest/runner.ts';
import { testReportRoutes } from '#domains/artifacts/rest/test-reports.ts';
import { routes as artifacts } from '#domains/artifacts/rest.ts';
import { jobTokenRoutes } from '#domains/ci/rest/job-tokens.ts';
import { jobRoutes } from '#domains/ci/rest/jobs.ts';
import { lintRoutes } from '#domains/ci/rest/lint.ts';
import { pipelineRoutes } from '#domains/ci/rest/pipelines.ts';
import { resourceGroupRoutes } from '#domains/ci/rest/resource-groups.ts';
import { runnerJobRoutes } from '#domains/ci/rest/runner-jobs.ts';
import { routes as ci } from '#domains/ci/rest.ts';
import { routes as ciVariables } from '#domains/ci-variables/rest.ts';
import { routes as directory } from '#domains/directory/rest.ts';
import { routes as emoji } from '#domains/emoji/rest.ts';
import { routes as environments } from '#domains/environments/rest.ts';
import { routes as errorIngest } from '#domains/error-ingest/rest.ts';
import { routes as errorTracking } from '#domains/error-tracking/rest.ts';
import { routes as groups } from '#domains/groups/rest.ts';
import { routes as hooks } from '#domains/hooks/rest.ts';
import { routes as issues } from '#domains/issues/rest.ts';
import { routes as labels } from '#domains/labels/rest.ts';
import { routes as members } from '#domains/members/rest.ts';
import { routes as mergeRequests } from '#domains/merge-requests/rest.ts';
import { geoRoutes } from '#domains/metadata/rest/geo-sites.ts';
import { routes as metadata } from '#domains/metadata/rest.ts';
import { routes as milestones } from '#domains/milestones/rest.ts';
import { routes as notes } from '#domains/notes/rest.ts';
import { routes as oauth } from '#domains/oauth/rest.ts';
import { followingMoves, routes as projects } from '#domains/projects/rest.ts';
import { routes as pushRules } from '#domains/push-rules/rest.ts';
import { routes as references } from '#domains/references/rest.ts';
import { routes as releases } from '#domains/releases/rest.ts';
import { branchRoutes } from '#domains/repositories/rest/branches.ts';
import { commitRoutes } from '#domains/repositories/rest/commits.ts';
import { compareRoutes } from '#domains/repositories/rest/compare.ts';
import { descriptionTemplateRoutes } from '#domains/repositories/rest/description-templates.ts';
import { fileRoutes } from '#domains/repositories/rest/files.ts';
import { languageRoutes } from '#domains/repositories/rest/languages.ts';
import { protectedBranchRoutes } from '#domains/repositories/rest/protected-branches.ts';
import { protectedTagRoutes } from '#domains/repositories/rest/protected-tags.ts';
import { tagRoutes } from '#domains/repositories/rest/tags.ts';
import { treeRoutes } from '#domains/repositories/rest/trees.ts';
import { upkeepRoutes } from '#domains/repositories/rest/upkeep.ts';
import { writingRoutes } from '#domains/repositories/rest/writing.ts';
import { routes as runnerProtocol } from '#domains/runner-protocol/rest.ts';
import { runnerManagementRoutes } from '#domains/runners/rest/management.ts';
import { runnerRegistrationRoutes } from '#domains/runners/rest/registration.ts';
import { routes as runners } from '#domains/runners/rest.ts';
import { routes as saml } from '#domains/saml/rest.ts';
import { routes as schedules } from '#domains/schedules/rest.ts';
import { routes as serviceAccounts } from '#domains/service-accounts/rest.ts';
import { routes as settings } from '#domains/settings/rest.ts';
import { routes as signIn } from '#domains/sign-in/rest.ts';
import { routes as tokens } from '#domains/tokens/rest.ts';
import { routes as topics } from '#domains/topics/rest.ts';
import { routes as traces } from '#domains/traces/rest.ts';
import { routes as tracking } from '#domains/tracking/rest.ts';
import { routes as transfers } from '#domains/transfers/rest.ts';
import { routes as triggers } from '#domains/triggers/rest.ts';
import { routes as uploads } from '#domains/uploads/rest.ts';
import { routes as users } from '#domains/users/rest.ts';
import type { Route } from '#rest/route.ts';

/** Every REST endpoint, a line per domain. */
export const routes: readonly Route[] = [
  ...metadata,
  ...geoRoutes,
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
  ...approvals,
  ...managedLicenseRoutes,
  ...languageRoutes,
  ...upkeepRoutes,
  ...branchRoutes,
  ...protectedBranchRoutes,
  ...commitRoutes,
  ...descriptionTemplateRoutes,
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
  ...traces,
  ...runnerProtocol,
  ...pipelineRoutes,
  ...jobRoutes,
  ...lintRoutes,
  ...ciVariables,
  ...resourceGroupRoutes,
  ...environments,
  ...schedules,
  ...triggers,
  ...jobTokenRoutes,
  ...runnerJobRoutes,
  ...artifacts,
  ...runnerRoutes,
  ...testReportRoutes,
  ...mergeRequests,
  ...notes,
  ...tracking,
  ...emoji,
  ...releases,
  ...references,
  ...runners,
  ...runnerManagementRoutes,
  ...runnerRegistrationRoutes,
  ...errorIngest,
  ...errorTracking,
].map(followingMoves);
