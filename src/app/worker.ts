import { startDeliveryEngine } from '#domains/hooks/delivery/engine.ts';
import type { Services } from '#platform/context.ts';
import type { CreateContext } from '#platform/create-context.ts';
import type { Listener } from '#platform/db/listener.ts';
import type { EventLog } from '#platform/event-log/event-log.ts';
import { startFollowers } from '#platform/event-log/followers.ts';
import { startJobRunner } from '#platform/job-runner/job-runner.ts';
import type { Processes } from '#platform/process/processes.ts';
import { followers } from './events.ts';
import { jobs } from './jobs.ts';

export interface WorkerOptions {
  readonly services: Services;
  readonly createContext: CreateContext;
  readonly eventLog: EventLog;
  readonly listener: Listener;
  readonly processes: Processes;
  readonly crons: boolean;
  /** The most connections of the job runner. */
  readonly connections: number;
}

/** The part of a process that works without requests. */
export interface Worker {
  /** Waits until all events are followed and all due jobs have run. */
  settle(): Promise<void>;
  stop(): Promise<void>;
}

const JOB_CONCURRENCY = 8;
const JOB_CONNECTIONS = 10;

/** Starts the followers of events, the job runner and the deliveries to webhooks. */
export const startWorker = async ({
  services,
  createContext,
  eventLog: { sequencer },
  listener,
  processes,
  crons,
  connections,
}: WorkerOptions): Promise<Worker> => {
  const running = await startFollowers({ services, sequencer, createContext, followers });
  const runner = await startJobRunner({
    services,
    jobs: crons ? jobs : jobs.map(({ cron: _, ...job }) => job),
    createContext,
    concurrency: JOB_CONCURRENCY,
    connections: Math.min(JOB_CONNECTIONS, connections),
    processes,
  });
  const deliveries = await startDeliveryEngine({ services, createContext, notifications: listener, processes });
  return {
    settle: async () => {
      // Jobs emit events and followers add jobs, so repeat until a round emits no new event.
      let followed: number;
      do {
        await running.drain();
        followed = sequencer.position;
        await runner.drain();
        await deliveries.drain();
      } while (followed !== (await sequencer.sequence()));
    },
    stop: async () => {
      await Promise.all([running.stop(), runner.stop(), deliveries.stop()]);
    },
  };
};
