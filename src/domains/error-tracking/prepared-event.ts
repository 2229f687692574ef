import { userHash } from './digest/affected-user.ts';
import { type Grouping, groupingOf } from './digest/grouping.ts';
import { packEvent } from './digest/payload.ts';
import type { NormalizedEvent } from './event.ts';

/** An event as it is recorded. Everything that takes time to compute has been computed. */
export interface PreparedEvent
  extends Pick<
      NormalizedEvent,
      | 'project_id'
      | 'event_id'
      | 'received_at'
      | 'timestamp'
      | 'level'
      | 'platform'
      | 'release'
      | 'environment'
      | 'tags'
    >,
    Grouping {
  /** Identifies the affected user. Null if the event names none. */
  readonly user: bigint | null;
  /** The whole event, packed. */
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Prepares an event for `recordEvents`. It is pure, so it can run in another thread. */
export const prepareEvent = (event: NormalizedEvent): PreparedEvent => {
  const { project_id, event_id, received_at, timestamp, level, platform, release, environment, tags } = event;
  return {
    ...{ project_id, event_id, received_at, timestamp, level, platform, release, environment, tags },
    ...groupingOf(event),
    user: userHash(project_id, event.user),
    payload: packEvent(event),
  };
};
