import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import type { AttemptRow } from './deliveries.ts';
import { ALERT_STATUSES, alertStatus, BRANCH_FILTER_STRATEGIES } from './model.ts';
import type { HookRow } from './queries.ts';
import { eachTrigger, triggerInfo } from './triggers.ts';

const keys = z.array(z.object({ key: z.string() }));

const toggles = eachTrigger(({ says }) => z.boolean().describe(says));

/** A group hook (specification 3 §2.2). Secrets are never in it. */
export const hookRecord = z
  .object({
    id: z.int(),
    url: z.string().describe('Credentials are masked, and URL variables stand by name.'),
    name: z.string(),
    description: z.string(),
    group_id: z.int(),
    ...toggles,
    push_events_branch_filter: z.string().nullable(),
    branch_filter_strategy: z.enum(BRANCH_FILTER_STRATEGIES),
    enable_ssl_verification: z.boolean(),
    alert_status: z.enum(ALERT_STATUSES),
    disabled_until: z.string().nullable(),
    url_variables: keys,
    custom_headers: keys,
    custom_webhook_template: z.string().nullable(),
    created_at: z.string(),
  })
  .meta({ id: 'GroupHook' });

export const createdHookRecord = hookRecord
  .extend({
    signing_token: z.string().optional().describe('The only time it is told; absent where the caller gave it himself.'),
  })
  .meta({ id: 'CreatedGroupHook' });

export const signingTokenRecord = z.object({ signing_token: z.string() }).meta({ id: 'SigningToken' });

const stringMap = z.record(z.string(), z.string());

/** One attempt to deliver, with secrets masked (reference: webhooks §4). */
export const hookEventRecord = z
  .object({
    id: z.int(),
    url: z.string(),
    trigger: z.string(),
    request_headers: stringMap,
    request_data: z.json(),
    response_headers: stringMap,
    response_body: z.string().nullable(),
    execution_duration: z.number().describe('Seconds.'),
    response_status: z.string().describe('The status code, or `internal error` where there was no answer.'),
    internal_error_message: z.string().nullable(),
    attempt: z.int(),
    idempotency_key: z.string(),
    created_at: z.string(),
  })
  .meta({ id: 'HookEvent' });

export const toHook = (hook: HookRow): z.output<typeof hookRecord> => ({
  id: hook.id,
  url: hook.url,
  name: hook.name,
  description: hook.description,
  group_id: hook.namespace_id ?? 0,
  ...eachTrigger(({ name }) => hook.triggers.includes(name)),
  push_events_branch_filter: hook.push_events_branch_filter,
  branch_filter_strategy:
    BRANCH_FILTER_STRATEGIES.find((strategy) => strategy === hook.branch_filter_strategy) ?? 'wildcard',
  enable_ssl_verification: hook.enable_ssl_verification,
  alert_status: alertStatus(hook),
  disabled_until: isoTime(hook.disabled_until),
  url_variables: hook.variable_keys.map((key) => ({ key })),
  custom_headers: hook.header_keys.map((key) => ({ key })),
  custom_webhook_template: hook.custom_webhook_template,
  created_at: isoTime(hook.created_at),
});

export const toHookEvent = (row: AttemptRow): z.output<typeof hookEventRecord> => ({
  id: row.id,
  url: row.request_url,
  trigger: triggerInfo(row.trigger)?.event ?? row.trigger,
  request_headers: stringMap.parse(row.request_headers),
  request_data: row.request_body ? z.json().parse(JSON.parse(row.request_body)) : {},
  response_headers: stringMap.parse(row.response_headers),
  response_body: row.response_body,
  execution_duration: row.duration_ms / 1_000,
  response_status: row.response_status === null ? 'internal error' : String(row.response_status),
  internal_error_message: row.error,
  attempt: row.attempt,
  idempotency_key: row.delivery_id,
  created_at: isoTime(row.created_at),
});
