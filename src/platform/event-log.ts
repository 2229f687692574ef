import type { Services } from './context.ts';
import { type EventFeed, Feed } from './event-log/feed.ts';
import { type Notifications, Sequencer } from './event-log/sequencer.ts';

/** The event log as one process sees it. Durable followers are started on it with event-log/followers.ts. */
export interface EventLog {
  readonly sequencer: Sequencer;
  readonly feed: EventFeed;
  stop(): Promise<void>;
}

/** Starts following the log: every process that reads events does so. `notifications` is the process's listener, started. */
export const startEventLog = async (
  services: Pick<Services, 'pool' | 'db' | 'log'>,
  notifications: Notifications,
): Promise<EventLog> => {
  const sequencer = new Sequencer(services.pool, services.log);
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
