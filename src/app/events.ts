import * as aliases from '#domains/aliases/events.ts';
import * as approvals from '#domains/approvals/events.ts';
import * as artifacts from '#domains/artifacts/events.ts';
import { followLocks } from '#domains/artifacts/locking.ts';
import { followPushes as createPipelinesOfPushes } from '#domains/ci/creation/pushes.ts';
import * as ci from '#domains/ci/events.ts';
import { followJobs, followPipelines } from '#domains/ci/followers.ts';
import * as ciVariables from '#domains/ci-variables/events.ts';
import * as customAttributes from '#domains/custom-attributes/events.ts';
import * as directory from '#domains/directory/events.ts';
import * as emoji from '#domains/emoji/events.ts';
import * as environments from '#domains/environments/events.ts';
import { followDeployments } from '#domains/environments/followers.ts';
import { followEnds } from '#domains/environments/stopping.ts';
import * as errorTracking from '#domains/error-tracking/events.ts';
import * as groups from '#domains/groups/events.ts';
import { dispatchToHooks } from '#domains/hooks/delivery/dispatch.ts';
import * as hooks from '#domains/hooks/events.ts';
import { disableWithGrants } from '#domains/hooks/followers.ts';
import * as issues from '#domains/issues/events.ts';
import * as labels from '#domains/labels/events.ts';
import { acceptInvitations } from '#domains/members/acceptance.ts';
import * as members from '#domains/members/events.ts';
import { followBlocks } from '#domains/merge-requests/blocking/unblocking.ts';
import * as mergeRequests from '#domains/merge-requests/events.ts';
import { followPushes } from '#domains/merge-requests/followers.ts';
import { followClosings } from '#domains/merge-requests/merging/closing.ts';
import { followAutoMerges } from '#domains/merge-requests/merging/follow-auto-merges.ts';
import { followMerges } from '#domains/merge-requests/versions/merged.ts';
import * as milestones from '#domains/milestones/events.ts';
import * as notes from '#domains/notes/events.ts';
import { followVersions } from '#domains/notes/following.ts';
import { endOfRemovedAccounts } from '#domains/oauth/ending.ts';
import * as oauth from '#domains/oauth/events.ts';
import { projectActivity } from '#domains/projects/activity.ts';
import { projectContributions } from '#domains/projects/contributions.ts';
import * as projects from '#domains/projects/events.ts';
import * as pushRules from '#domains/push-rules/events.ts';
import * as releases from '#domains/releases/events.ts';
import { removeOfDeletedTags } from '#domains/releases/followers.ts';
import * as repositories from '#domains/repositories/events.ts';
import { followProjects } from '#domains/repositories/followers.ts';
import * as runners from '#domains/runners/events.ts';
import { endWithGrants } from '#domains/runners/followers.ts';
import * as saml from '#domains/saml/events.ts';
import * as schedules from '#domains/schedules/events.ts';
import * as serviceAccounts from '#domains/service-accounts/events.ts';
import { removeOfDeletedGroups } from '#domains/service-accounts/followers.ts';
import * as settings from '#domains/settings/events.ts';
import * as signIn from '#domains/sign-in/events.ts';
import * as tokens from '#domains/tokens/events.ts';
import * as traces from '#domains/traces/events.ts';
import { followImports } from '#domains/tracking/imported.ts';
import { followTexts } from '#domains/tracking/references.ts';
import * as transfers from '#domains/transfers/events.ts';
import * as triggers from '#domains/triggers/events.ts';
import * as uploads from '#domains/uploads/events.ts';
import { removeOfDeletedPlaces } from '#domains/uploads/followers.ts';
import * as users from '#domains/users/events.ts';
import type { Follower } from '#platform/event-log/followers.ts';
import { type AnyEventDefinition, definitionsIn } from '#platform/events.ts';

/** Every event kind, a line per domain. */
export const eventDefinitions: readonly AnyEventDefinition[] = [
  settings,
  customAttributes,
  users,
  signIn,
  tokens,
  oauth,
  groups,
  serviceAccounts,
  projects,
  aliases,
  pushRules,
  repositories,
  approvals,
  members,
  uploads,
  saml,
  directory,
  ci,
  traces,
  ciVariables,
  artifacts,
  environments,
  schedules,
  triggers,
  labels,
  milestones,
  issues,
  mergeRequests,
  notes,
  emoji,
  releases,
  hooks,
  transfers,
  runners,
  errorTracking,
].flatMap(definitionsIn);

/** Durable readers of the event log. */
export const followers: readonly Follower[] = [
  // The first gets the first connection, and receivers wait for it.
  dispatchToHooks(eventDefinitions),
  projectActivity,
  projectContributions,
  followProjects,
  followJobs,
  followPipelines,
  createPipelinesOfPushes,
  followPushes,
  followMerges,
  followBlocks,
  followVersions,
  followAutoMerges,
  followTexts,
  followImports,
  followClosings,
  followDeployments,
  followEnds,
  acceptInvitations,
  removeOfDeletedGroups,
  removeOfDeletedPlaces,
  removeOfDeletedTags,
  endOfRemovedAccounts,
  endWithGrants,
  disableWithGrants,
  followLocks,
];
