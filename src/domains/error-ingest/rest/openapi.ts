import { z } from 'zod';
import { COLLECTOR } from '#domains/error-tracking/model.ts';
import { text } from '#rest/params.ts';
import { type Endpoint, endpoint } from '#rest/route.ts';

const accepted = z
  .object({ id: z.string().optional().describe('The id of the event. Absent if the report has none.') })
  .meta({ id: 'ErrorTrackingAccepted' });

/** Describes what Sentry SDKs send to (specification 1 §4.6). The mount in `endpoints.ts` serves it. */
export const endpoints: readonly Endpoint[] = [
  { path: '/api/:project_id/envelope/', summary: 'Report an envelope of events, sessions and other items' },
  { path: '/api/:project_id/store/', summary: 'Report a single event' },
].map(({ path, summary }) =>
  endpoint({
    method: 'POST',
    path,
    root: true,
    server: COLLECTOR,
    tag: 'Error tracking',
    summary,
    description:
      'For Sentry SDKs. The client key comes in the query, in `X-Sentry-Auth`, in `Authorization`, or as `dsn` in the header of the envelope. Bodies may be compressed with gzip, deflate, br or zstd. Errors have the form `{"detail", "causes"}`, and 429 has no body.',
    auth: 'own',
    rawBody: true,
    input: {
      project_id: text(),
      sentry_key: text().optional().describe('The client key.'),
      sentry_version: text().optional(),
      sentry_client: text().optional(),
    },
    response: accepted,
  }),
);
