import type { Services } from '../context.ts';
import { type EventFeed, Feed } from './feed.ts';
import { type Notifications, Sequencer } from './sequencer.ts';

/** The event log in one process. event-log/followers.ts starts durable followers on it. */
export interface EventLog {
  readonly sequencer: Sequencer;
  readonly feed: EventFeed;
  stop(): Promise<void>;
}

/**
 * Starts following the log. Every process that reads events does this. `notifications` is the started listener.
 * `pollMs` is how often to look for events without a notification.
 */
export const startEventLog = async (
  services: Pick<Services, 'pool' | 'db' | 'log'>,
  notifications: Notifications,
  { pollMs }: { readonly pollMs?: number } = {},
): Promise<EventLog> => {
  const sequencer = new Sequencer(services.pool, services.log, pollMs);
  await sequencer.start(notifications);
  const feed = new Feed(services.db, sequencer, services.log);
  return {
    sequencer,
    feed,
    stop: async () => {
      await feed.stop();
      await sequencer.stop();
    },
  };
};
