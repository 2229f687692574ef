import { flag, setting, storable, whole } from './define.ts';

const requestsPerPeriod = (usual: number) =>
  whole(1, 10_000_000, usual, 'Number of these requests that are allowed in a period.');
const requestsOfWeb = (usual: number) =>
  whole(1, 10_000_000, usual, 'Number of these requests that are allowed in a period.', {
    otherNames: ['throttle_unauthenticated_requests_per_period'],
  });
const period = 'Length of that period, in seconds.';

/** Rate limits. */
export const limits = {
  throttle_unauthenticated_api_enabled: flag(
    false,
    'Whether REST and GraphQL requests without a valid credential are throttled, by client address.',
  ),
  throttle_unauthenticated_api_requests_per_period: requestsPerPeriod(3_600),
  throttle_unauthenticated_api_period_in_seconds: whole(1, 10_000_000, 3_600, period),
  throttle_authenticated_api_enabled: flag(
    false,
    'Whether REST and GraphQL requests of signed-in callers are throttled, by user.',
  ),
  throttle_authenticated_api_requests_per_period: requestsPerPeriod(7_200),
  throttle_authenticated_api_period_in_seconds: whole(1, 10_000_000, 3_600, period),
  throttle_unauthenticated_web_enabled: flag(
    false,
    'Whether page and git requests of anonymous callers are throttled, by client address.',
    { otherNames: ['throttle_unauthenticated_enabled'] },
  ),
  throttle_unauthenticated_web_requests_per_period: requestsOfWeb(3_600),
  throttle_unauthenticated_web_period_in_seconds: whole(1, 10_000_000, 3_600, period, {
    otherNames: ['throttle_unauthenticated_period_in_seconds'],
  }),
  throttle_authenticated_web_enabled: flag(
    false,
    'Whether page and git requests of signed-in callers are throttled, by user.',
  ),
  throttle_authenticated_web_requests_per_period: requestsPerPeriod(7_200),
  throttle_authenticated_web_period_in_seconds: whole(1, 10_000_000, 3_600, period),
  rate_limiting_response_text: setting(
    storable(1_000).default('Retry later'),
    'The response to a throttled request, as plain text.',
  ),
  projects_api_rate_limit_unauthenticated: whole(
    0,
    1_000_000,
    0,
    'How often a client address without a credential can list all projects in ten minutes. 0 is unlimited.',
  ),
  project_jobs_api_rate_limit: whole(
    0,
    1_000_000,
    0,
    "How often a user can list a project's jobs in a minute. 0 is unlimited.",
  ),
  issues_create_limit: whole(0, 1_000_000, 0, 'Number of issues that a user can create in a minute. 0 is unlimited.'),
  raw_blob_request_limit: whole(
    0,
    1_000_000,
    0,
    'How often all callers together can read the same file or blob of a project raw (`.../raw`) in a minute over REST. 0 is unlimited.',
  ),
  project_export_limit: whole(0, 1_000_000, 0, 'Number of exports that a user can start in a minute. 0 is unlimited.'),
  project_download_export_limit: whole(
    0,
    1_000_000,
    0,
    'How often a user can download the export of a project in a minute. 0 is unlimited.',
  ),
  project_import_limit: whole(0, 1_000_000, 0, 'Number of imports that a user can start in a minute. 0 is unlimited.'),
  max_attachment_size: whole(0, 100_000, 100, 'Maximum size of an attachment, in MiB. 0 is unlimited.'),
};
