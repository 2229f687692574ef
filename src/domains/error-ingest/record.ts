import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import type { Failure, Usage } from './queries.ts';

export const usageRecord = z
  .object({
    client_key_id: z.int(),
    start: z.string().describe('The hour.'),
    events: z.int(),
    others: z.int().describe('Sessions and reports.'),
    refused: z.int().describe('Above a quota.'),
    invalid: z.int().describe('No envelope, or too large.'),
    failed: z.int().describe('Stored, but not understood.'),
    dropped: z.int().describe('Items of accepted envelopes that nothing uses, such as attachments.'),
  })
  .meta({ id: 'ErrorTrackingUsage' });

export const toUsage = ({ project_id: _, ...usage }: Usage): z.output<typeof usageRecord> => ({
  ...usage,
  start: isoTime(usage.start),
});

export const failureRecord = z
  .object({
    id: z.int(),
    client_key_id: z.int(),
    event_id: z.string().nullable(),
    received_at: z.string(),
    reason: z.string(),
  })
  .meta({ id: 'ErrorTrackingFailure' });

export const toFailure = ({ id, key_id, event_id, received_at, reason }: Failure): z.output<typeof failureRecord> => ({
  id,
  client_key_id: key_id,
  event_id: event_id?.replaceAll('-', '') ?? null,
  received_at: isoTime(received_at),
  reason,
});
