import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import type { StoredSettings } from './queries.ts';
import { settingsSchema } from './registry.ts';

/** All settings, including the aliases that some have. */
export const settingsRecord = z
  .object({
    id: z.int(),
    created_at: z.string(),
    updated_at: z.string(),
    ...settingsSchema.shape,
    allow_local_requests_from_hooks_and_services: settingsSchema.shape.allow_local_requests_from_web_hooks_and_services,
    throttle_unauthenticated_enabled: settingsSchema.shape.throttle_unauthenticated_web_enabled,
    throttle_unauthenticated_requests_per_period: settingsSchema.shape.throttle_unauthenticated_web_requests_per_period,
    throttle_unauthenticated_period_in_seconds: settingsSchema.shape.throttle_unauthenticated_web_period_in_seconds,
    outbound_local_requests_allowlist_raw: z.string().describe('The allow-list as text, one entry per line.'),
  })
  .meta({ id: 'ApplicationSettings' });

export const toSettings = (settings: StoredSettings): z.output<typeof settingsRecord> => ({
  ...settings,
  created_at: isoTime(settings.created_at),
  updated_at: isoTime(settings.updated_at),
  allow_local_requests_from_hooks_and_services: settings.allow_local_requests_from_web_hooks_and_services,
  throttle_unauthenticated_enabled: settings.throttle_unauthenticated_web_enabled,
  throttle_unauthenticated_requests_per_period: settings.throttle_unauthenticated_web_requests_per_period,
  throttle_unauthenticated_period_in_seconds: settings.throttle_unauthenticated_web_period_in_seconds,
  outbound_local_requests_allowlist_raw: settings.outbound_local_requests_whitelist.join('\n'),
});
