import { wholeNumber } from './setting-infos.ts';

/** The resource limits for connections and subscribers of this process; docs/reliability.md lists them. */
export const edgeSettings = {
  connections: wholeNumber([10, 1_000_000], 10_000, {
    variable: 'MILLRACE_CONNECTIONS',
    flag: 'connections',
    value: 'NUMBER',
    description: 'Connections that may be open at once',
  }),
  connectionsPerAddress: wholeNumber([1, 1_000_000], 6_000, {
    variable: 'MILLRACE_CONNECTIONS_PER_ADDRESS',
    flag: 'connections-per-address',
    value: 'NUMBER',
    description: 'The same limit for one address (for IPv6, one /64); it does not apply to trusted proxies',
  }),
  requestGrace: wholeNumber([1, 3_600], 30, {
    variable: 'MILLRACE_REQUEST_GRACE',
    flag: 'request-grace',
    value: 'SECONDS',
    description:
      'Time that every request has to arrive, in addition to the time that the minimum rate allows for its bytes',
  }),
  requestMinimumRate: wholeNumber([1, 1_000_000], 1_024, {
    variable: 'MILLRACE_REQUEST_MINIMUM_RATE',
    flag: 'request-minimum-rate',
    value: 'BYTES',
    description: 'Bytes per second at which the body of a request must arrive; slower requests get a 408',
  }),
  streamsPerUser: wholeNumber([1, 1_000_000], 200, {
    variable: 'MILLRACE_STREAMS_PER_USER',
    flag: 'streams-per-user',
    value: 'NUMBER',
    description: 'GraphQL WebSockets and event streams that one user may have open',
  }),
  streamsPerAddress: wholeNumber([1, 1_000_000], 6_000, {
    variable: 'MILLRACE_STREAMS_PER_ADDRESS',
    flag: 'streams-per-address',
    value: 'NUMBER',
    description: 'The same limit for one address (for IPv6, one /64); it does not apply to trusted proxies',
  }),
  subscriptionsPerUser: wholeNumber([1, 1_000_000], 1_000, {
    variable: 'MILLRACE_SUBSCRIPTIONS_PER_USER',
    flag: 'subscriptions-per-user',
    value: 'NUMBER',
    description: 'GraphQL subscriptions that one user may have open',
  }),
  subscriptionsPerAddress: wholeNumber([1, 1_000_000], 10_000, {
    variable: 'MILLRACE_SUBSCRIPTIONS_PER_ADDRESS',
    flag: 'subscriptions-per-address',
    value: 'NUMBER',
    description: 'The same limit for one address',
  }),
  streamMemoryPerUser: wholeNumber([1, 1_000_000], 32, {
    variable: 'MILLRACE_STREAM_MEMORY_PER_USER',
    flag: 'stream-memory-per-user',
    value: 'MEBIBYTES',
    description:
      'Memory for the streams of one user: their subscriptions, and results that the client has not read yet',
  }),
  streamMemoryPerAddress: wholeNumber([1, 1_000_000], 64, {
    variable: 'MILLRACE_STREAM_MEMORY_PER_ADDRESS',
    flag: 'stream-memory-per-address',
    value: 'MEBIBYTES',
    description: 'The same limit for one address',
  }),
  streamMemory: wholeNumber([1, 1_000_000], 128, {
    variable: 'MILLRACE_STREAM_MEMORY',
    flag: 'stream-memory',
    value: 'MEBIBYTES',
    description: 'The same limit for all streams of this process',
  }),
  runnerPollSeconds: wholeNumber([0, 50], 50, {
    variable: 'MILLRACE_RUNNER_POLL_SECONDS',
    flag: 'runner-poll-seconds',
    value: 'SECONDS',
    description: 'Time that the request of a runner waits for a job; 0 answers at once',
  }),
};
