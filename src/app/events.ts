import { groupCreated, groupDeleted, groupShared, groupUnshared, groupUpdated } from '#domains/groups/events.ts';
import { projectActivity } from '#domains/projects/activity.ts';
import {
  projectArchived,
  projectCreated,
  projectDeleted,
  projectStarred,
  projectUnarchived,
  projectUnstarred,
  projectUpdated,
} from '#domains/projects/events.ts';
import { settingsUpdated } from '#domains/settings/events.ts';
import { tokenCreated, tokenRevoked } from '#domains/tokens/events.ts';
import { userCreated, userDeleted, userUpdated } from '#domains/users/events.ts';
import type { Follower } from '#platform/event-log/followers.ts';
import { type AnyEventDefinition, registered } from '#platform/events.ts';

/** Every event kind, a line per domain. */
export const eventDefinitions: readonly AnyEventDefinition[] = [
  registered(settingsUpdated),
  registered(userCreated),
  registered(userUpdated),
  registered(userDeleted),
  registered(tokenCreated),
  registered(tokenRevoked),
  registered(groupCreated),
  registered(groupUpdated),
  registered(groupDeleted),
  registered(groupShared),
  registered(groupUnshared),
  registered(projectCreated),
  registered(projectUpdated),
  registered(projectDeleted),
  registered(projectArchived),
  registered(projectUnarchived),
  registered(projectStarred),
  registered(projectUnstarred),
];

/** Durable readers of the event log. */
export const followers: readonly Follower[] = [projectActivity];
