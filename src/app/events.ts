import * as aliases from '#domains/aliases/events.ts';
import * as ci from '#domains/ci/events.ts';
import * as customAttributes from '#domains/custom-attributes/events.ts';
import * as directory from '#domains/directory/events.ts';
import * as emoji from '#domains/emoji/events.ts';
import * as groups from '#domains/groups/events.ts';
import { dispatchToHooks } from '#domains/hooks/dispatch.ts';
import * as hooks from '#domains/hooks/events.ts';
import { disableWithGrants } from '#domains/hooks/followers.ts';
import * as issues from '#domains/issues/events.ts';
import * as labels from '#domains/labels/events.ts';
import { acceptInvitations } from '#domains/members/acceptance.ts';
import * as members from '#domains/members/events.ts';
import * as mergeRequests from '#domains/merge-requests/events.ts';
import { followPushes } from '#domains/merge-requests/followers.ts';
import * as milestones from '#domains/milestones/events.ts';
import * as notes from '#domains/notes/events.ts';
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
import * as serviceAccounts from '#domains/service-accounts/events.ts';
import { removeOfDeletedGroups } from '#domains/service-accounts/followers.ts';
import * as settings from '#domains/settings/events.ts';
import * as signIn from '#domains/sign-in/events.ts';
import * as tokens from '#domains/tokens/events.ts';
import * as transfers from '#domains/transfers/events.ts';
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
  members,
  uploads,
  saml,
  directory,
  ci,
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
].flatMap(definitionsIn);

/** Durable readers of the event log. */
export const followers: readonly Follower[] = [
  projectActivity,
  projectContributions,
  followProjects,
  followPushes,
  acceptInvitations,
  removeOfDeletedGroups,
  removeOfDeletedPlaces,
  removeOfDeletedTags,
  endOfRemovedAccounts,
  endWithGrants,
  disableWithGrants,
  dispatchToHooks(eventDefinitions),
];
