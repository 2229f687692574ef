import { z } from 'zod';
import type { ContainerKind } from '#domains/planning/container.ts';
import { badParameters } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, dateTime, exclusive, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { ATTEMPT_CLASSES, type AttemptStatus, getAttempt, listAttempts } from '../history/attempts.ts';
import { DELIVERY_ID, getHookDelivery, listDeliveries } from '../history/deliveries.ts';
import { getHookStatistics } from '../history/statistics.ts';
import { cancelDelivery, type ReplayRange, replayDeliveries } from '../manual/replay.ts';
import { resendAttempt } from '../manual/resend.ts';
import { DELIVERY_STATES } from '../model.ts';
import { getHookContainer } from '../policy.ts';
import { getHook } from '../queries.ts';
import {
  hookDeliveryRecord,
  hookEventRecord,
  hookStatisticsRecord,
  toHookDelivery,
  toHookEvent,
  toHookStatistics,
} from '../record.ts';
import { TRIGGERS, triggerNamed } from '../triggers.ts';

const readStatus = (status: string | undefined): AttemptStatus | undefined => {
  if (status === undefined || status === '') return undefined;
  const named = ATTEMPT_CLASSES.find((each) => each === status);
  if (named) return named;
  if (/^[1-5]\d\d$/.test(status)) return Number(status);
  throw badParameters(
    `status does not have a valid value (allowed: a code from 100 to 599, ${ATTEMPT_CLASSES.join(', ')})`,
  );
};

const readTrigger = (trigger: string | undefined): string | undefined => {
  if (trigger === undefined || trigger === '') return undefined;
  if (triggerNamed(trigger) === null) {
    throw badParameters(
      `trigger does not have a valid value (allowed: ${TRIGGERS.map(({ name }) => name).join(', ')}, or as in the records)`,
    );
  }
  return trigger;
};

const readRange = (after?: string, before?: string, failedSince?: string): ReplayRange => {
  if (failedSince !== undefined) return { failed_since: failedSince };
  return { created_after: after ?? '-infinity', created_before: before ?? null };
};

const filters = {
  status: text({ max: 20 }).optional().describe('A status code, `successful`, `client_failure` or `server_failure`.'),
  trigger: text({ max: 50 }).optional().describe('A trigger, such as `push_hooks` or `push_events`.'),
  created_after: dateTime().optional(),
  created_before: dateTime().optional(),
};

/** The routes for deliveries and attempts of a hook. */
export const deliveryRoutes = (kind: ContainerKind, at: '/groups/:id' | '/projects/:id'): Route[] => {
  const tag = kind === 'group' ? 'Group hooks' : 'Project hooks';
  const path = `${at}/hooks/:hook_id` as const;
  const hookInput = { id: idOrPath(), hook_id: integer() };
  const one = { ...hookInput, delivery_id: text({ max: 36, pattern: DELIVERY_ID }) };
  return [
    listRoute({
      path: `${path}/events`,
      tag,
      summary: 'List the attempts to deliver to a hook, newest first',
      input: { ...hookInput, ...filters },
      paging: 'offset',
      item: hookEventRecord,
      run: async (ctx, { id, hook_id, status, trigger, created_after, created_before }, page) => {
        const filter = { status: readStatus(status), trigger: readTrigger(trigger), created_after, created_before };
        const hook = await getHook(ctx, await getHookContainer(ctx, { kind, id }), hook_id);
        const found = await readPage(listAttempts(ctx, hook.id, filter), page);
        return { ...found, items: found.items.map(toHookEvent) };
      },
    }),
    route({
      method: 'GET',
      path: `${path}/events/:hook_event_id`,
      tag,
      summary: 'Get an attempt to deliver',
      description: 'Secrets are masked. Specific to Millrace.',
      input: { ...hookInput, hook_event_id: integer() },
      response: hookEventRecord,
      run: async (ctx, { id, hook_id, hook_event_id }) => {
        const hook = await getHook(ctx, await getHookContainer(ctx, { kind, id }), hook_id);
        return toHookEvent(await getAttempt(ctx, hook.id, hook_event_id));
      },
    }),
    route({
      method: 'POST',
      path: `${path}/events/:hook_event_id/resend`,
      tag,
      summary: 'Send the request of an attempt again',
      input: { ...hookInput, hook_event_id: integer() },
      response: z.object({ response_status: z.union([z.int(), z.literal('internal error')]) }).meta({ id: 'Resent' }),
      run: async (ctx, { id, hook_id, hook_event_id }) => {
        const outcome = await resendAttempt(ctx, { kind, id }, hook_id, hook_event_id);
        return { response_status: outcome.status ?? ('internal error' as const) };
      },
    }),
    listRoute({
      path: `${path}/deliveries`,
      tag,
      summary: 'List all deliveries to a hook, newest first',
      description: 'Includes deliveries that are waiting, held or never sent. Specific to Millrace.',
      input: { ...hookInput, ...filters, state: oneOf(DELIVERY_STATES).optional() },
      paging: 'offset',
      item: hookDeliveryRecord,
      run: async (ctx, { id, hook_id, state, status, trigger, created_after, created_before }, page) => {
        const filter = { status: readStatus(status), trigger: readTrigger(trigger), created_after, created_before };
        const hook = await getHook(ctx, await getHookContainer(ctx, { kind, id }), hook_id);
        const states = state === undefined ? undefined : [state];
        const found = await readPage(listDeliveries(ctx, hook.id, { ...filter, states }), page);
        return { ...found, items: found.items.map(toHookDelivery) };
      },
    }),
    route({
      method: 'GET',
      path: `${path}/deliveries/:delivery_id`,
      tag,
      summary: 'Get a delivery by its idempotency key',
      description: 'Specific to Millrace.',
      input: one,
      response: hookDeliveryRecord,
      run: async (ctx, { id, hook_id, delivery_id }) => {
        const hook = await getHook(ctx, await getHookContainer(ctx, { kind, id }), hook_id);
        return toHookDelivery(await getHookDelivery(ctx, hook.id, delivery_id));
      },
    }),
    route({
      method: 'POST',
      path: `${path}/deliveries/:delivery_id/cancel`,
      tag,
      summary: 'Cancel a delivery that is waiting or held',
      description: 'Returns 409 if it is being sent or is finished. Specific to Millrace.',
      status: 200,
      input: one,
      response: hookDeliveryRecord,
      run: async (ctx, { id, hook_id, delivery_id }) =>
        toHookDelivery(await cancelDelivery(ctx, { kind, id }, hook_id, delivery_id)),
    }),
    route({
      method: 'POST',
      path: `${path}/deliveries/replay`,
      tag,
      summary: 'Replay deliveries',
      description:
        'Sends all finished deliveries of a time range again, whatever their outcome; with `failed_since` only those that failed since then. Uses the same idempotency keys. Specific to Millrace.',
      status: 202,
      input: {
        ...hookInput,
        created_after: dateTime().optional(),
        created_before: dateTime().optional(),
        failed_since: dateTime().optional(),
      },
      rules: [
        atLeastOneOf('created_after', 'failed_since'),
        exclusive('created_after', 'failed_since'),
        exclusive('created_before', 'failed_since'),
      ],
      response: z.object({ count: z.int() }).meta({ id: 'HookReplay' }),
      run: async (ctx, { id, hook_id, created_after, created_before, failed_since }) => {
        const range = readRange(created_after, created_before, failed_since);
        return { count: await replayDeliveries(ctx, { kind, id }, hook_id, range) };
      },
    }),
    route({
      method: 'GET',
      path: `${path}/statistics`,
      tag,
      summary: 'Get delivery statistics of a hook for the last seven days',
      description: 'Over at most the newest 10,000 attempts. Specific to Millrace.',
      input: hookInput,
      response: hookStatisticsRecord,
      run: async (ctx, { id, hook_id }) => {
        const hook = await getHook(ctx, await getHookContainer(ctx, { kind, id }), hook_id);
        return toHookStatistics(await getHookStatistics(ctx, hook.id));
      },
    }),
  ];
};
