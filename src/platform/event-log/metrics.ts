import { Counter, Gauge } from 'prom-client';

export const followedEvents = new Counter({
  name: 'millrace_follower_events_total',
  help: 'Events handled by durable followers.',
  labelNames: ['follower'],
});

export const followerFailures = new Counter({
  name: 'millrace_follower_failures_total',
  help: 'Batches that a durable follower failed to handle.',
  labelNames: ['follower'],
});

export const eventsSetAside = new Counter({
  name: 'millrace_follower_events_set_aside_total',
  help: 'Events given up after repeated failures, listed in event_failures.',
  labelNames: ['follower'],
});

export const followerLag = new Gauge({
  name: 'millrace_follower_lag_events',
  help: 'Events committed but not yet handled by a durable follower.',
  labelNames: ['follower'],
});
