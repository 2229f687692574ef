import { z } from 'zod';
import { originShape, toOrigin } from '#domains/tokens/record.ts';
import { isoTime } from '#platform/time.ts';
import type { AttemptRow } from './history/attempts.ts';
import type { DeliveryRow } from './history/deliveries.ts';
import type { HookStatistics } from './history/statistics.ts';
import { ALERT_STATUSES, alertStatus, BRANCH_FILTER_STRATEGIES, DELIVERY_STATES } from './model.ts';
import type { HookRow } from './queries.ts';
import { eachTrigger, triggerInfo } from './triggers.ts';

const keys = z.array(z.object({ key: z.string() }));

const hookShape = {
  id: z.int(),
  url: z.string().describe('Credentials are masked. URL variables appear as placeholders.'),
  name: z.string(),
  description: z.string(),
  ...eachTrigger(({ says }) => z.boolean().describe(says)),
  push_events_branch_filter: z.string().nullable(),
  branch_filter_strategy: z.enum(BRANCH_FILTER_STRATEGIES),
  enable_ssl_verification: z.boolean(),
  alert_status: z.enum(ALERT_STATUSES),
  disabled_until: z.string().nullable(),
  url_variables: keys,
  custom_headers: keys,
  custom_webhook_template: z.string().nullable(),
  created_at: z.string(),
  ...originShape,
};
const onceShape = {
  signing_token: z.string().optional().describe('Shown only once. Absent if the caller chose it.'),
};
/** The triggers that a project hook does not have. */
const groupsOnly = { subgroup_events: true, member_events: true, project_events: true } as const;

/** A group hook (specification 3 §2.2), without secrets. */
const groupHook = z.object({ ...hookShape, group_id: z.int() });
const projectHook = z.object({ ...hookShape, project_id: z.int() }).omit(groupsOnly);

/** For each kind of container: the record, the record of a new hook, and the function that builds them. */
export const hookRecords = {
  group: {
    record: groupHook.meta({ id: 'GroupHook' }),
    created: groupHook.extend(onceShape).meta({ id: 'CreatedGroupHook' }),
    of: (hook: HookRow): z.output<typeof groupHook> => ({ ...toHook(hook), group_id: hook.namespace_id ?? 0 }),
  },
  project: {
    record: projectHook.meta({ id: 'ProjectHook' }),
    created: projectHook.extend(onceShape).meta({ id: 'CreatedProjectHook' }),
    of: (hook: HookRow): z.output<typeof projectHook> => {
      const { subgroup_events: _s, member_events: _m, project_events: _p, ...record } = toHook(hook);
      return { ...record, project_id: hook.project_id ?? 0 };
    },
  },
} as const;

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
    response_status: z.string().describe('The status code, or `internal error` if there was no response.'),
    internal_error_message: z.string().nullable(),
    attempt: z.int(),
    idempotency_key: z.string(),
    created_at: z.string(),
  })
  .meta({ id: 'HookEvent' });

const toHook = (hook: HookRow) => ({
  id: hook.id,
  url: hook.url,
  name: hook.name,
  description: hook.description,
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
  ...toOrigin(hook),
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

/** The delivery of one event to a hook. Specific to Millrace. */
export const hookDeliveryRecord = z
  .object({
    id: z.string().describe('The idempotency key of its attempts.'),
    trigger: z.string(),
    kind: z.string().describe('The kind of the event.'),
    state: z.enum(DELIVERY_STATES),
    attempts: z.int(),
    next_attempt_at: z.string().nullable(),
    last_response_status: z.int().nullable(),
    last_error: z.string().nullable(),
    request_data: z.json(),
    created_at: z.string(),
    finished_at: z.string().nullable(),
  })
  .meta({ id: 'HookDelivery' });

export const toHookDelivery = (row: DeliveryRow): z.output<typeof hookDeliveryRecord> => ({
  id: row.id,
  trigger: triggerInfo(row.trigger)?.event ?? row.trigger,
  kind: row.kind,
  state: row.state,
  attempts: row.attempts,
  next_attempt_at: row.state === 'waiting' ? isoTime(row.next_attempt_at) : null,
  last_response_status: row.last_response_status,
  last_error: row.last_error,
  request_data: row.body ? z.json().parse(JSON.parse(row.body)) : {},
  created_at: isoTime(row.created_at),
  finished_at: isoTime(row.finished_at),
});

export const hookStatisticsRecord = z
  .object({
    since: z.string(),
    attempts: z.int(),
    successes: z.int(),
    success_rate: z.number().nullable().describe('From 0 to 1.'),
    p50_duration: z.number().nullable().describe('Seconds.'),
    p95_duration: z.number().nullable().describe('Seconds.'),
    last_failure: z
      .object({ event_id: z.int(), at: z.string(), response_status: z.int().nullable(), error: z.string().nullable() })
      .nullable(),
    waiting: z.int().describe('Deliveries to be sent, counted up to 10,000.'),
    held: z.int().describe('Deliveries held until the hook is enabled, counted up to 10,000.'),
  })
  .meta({ id: 'HookStatistics' });

export const toHookStatistics = (found: HookStatistics): z.output<typeof hookStatisticsRecord> => ({
  since: isoTime(found.since),
  attempts: found.attempts,
  successes: found.successes,
  success_rate: found.success_rate,
  p50_duration: found.p50_ms === null ? null : found.p50_ms / 1_000,
  p95_duration: found.p95_ms === null ? null : found.p95_ms / 1_000,
  last_failure: found.last_failure && {
    event_id: found.last_failure.attempt_id,
    at: isoTime(found.last_failure.at),
    response_status: found.last_failure.response_status,
    error: found.last_failure.error,
  },
  waiting: found.waiting,
  held: found.held,
});
