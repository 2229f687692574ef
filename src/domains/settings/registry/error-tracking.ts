import { whole } from './define.ts';

/** Error events of applications. */
export const errorTracking = {
  error_tracking_key_limit: whole(
    0,
    100_000_000,
    0,
    'Own setting: number of error events that a client key can send in a minute. Its sessions and reports are limited to the same number. 0 is unlimited.',
  ),
  error_tracking_project_limit: whole(
    0,
    100_000_000,
    0,
    'Own setting: number of error events that all client keys of a project together can send in a minute, and as many sessions and reports. 0 is unlimited.',
  ),
  error_tracking_backlog_limit: whole(
    0,
    1_000_000_000,
    1_000_000,
    'Own setting: number of envelopes that can wait to be digested. Further ones are refused until there are fewer. 0 is unlimited.',
  ),
};
