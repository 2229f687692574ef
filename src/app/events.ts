import { settingsUpdated } from '#domains/settings/events.ts';
import type { Follower } from '#platform/event-log/followers.ts';
import { type AnyEventDefinition, registered } from '#platform/events.ts';

/** Every event kind, a line per domain. */
export const eventDefinitions: readonly AnyEventDefinition[] = [registered(settingsUpdated)];

/** Durable readers of the event log. */
export const followers: readonly Follower[] = [];
