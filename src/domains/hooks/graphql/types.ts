import type { ArgBuilder } from '@pothos/core';
import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import type { ContainerKind } from '#domains/planning/container.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { CredentialOriginRef } from '#domains/tokens/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { ATTEMPT_CLASSES, type AttemptRow, type AttemptStatus, listAttemptsBelow } from '../history/attempts.ts';
import { type DeliveryRow, listDeliveriesBelow } from '../history/deliveries.ts';
import { type HookStatistics, hookStatisticsByIds } from '../history/statistics.ts';
import {
  ALERT_STATUSES,
  alertStatus,
  BRANCH_FILTER_STRATEGIES,
  DELIVERY_STATES,
  type DeliveryState,
} from '../model.ts';
import { type HookRow, listHooksBelow } from '../queries.ts';
import { isTrigger, TRIGGERS, type Trigger, triggerInfo } from '../triggers.ts';

/** Defines an enum whose names are the values in capitals. */
export const enumOf = <const Value extends string>(
  name: string,
  values: readonly Value[],
  describe?: (value: Value) => string,
) =>
  builder.enumType(name, {
    values: Object.fromEntries(
      values.map((value) => [
        value.toUpperCase(),
        { value, ...(describe === undefined ? {} : { description: describe(value) }) },
      ]),
    ),
  });

export const WebhookEvent = enumOf(
  'WebhookEvent',
  TRIGGERS.map(({ name }): Trigger => name),
  (name) => triggerInfo(name)?.says ?? '',
);
export const AlertStatusEnum = enumOf('WebhookAlertStatus', ALERT_STATUSES);
export const BranchFilterStrategyEnum = enumOf('WebhookBranchFilterStrategy', BRANCH_FILTER_STRATEGIES);
const DeliveryStateEnum = enumOf('WebhookDeliveryState', DELIVERY_STATES);
const DeliveryStatusEnum = enumOf('WebhookDeliveryStatus', ATTEMPT_CLASSES);

/** Everyone who can read a hook administers it, so its fields are the same for all of them. */
const extensions = { viewerIndependent: true } as const;

const KeyRef = builder.objectRef<{ readonly key: string }>('WebhookKey').implement({
  description: 'The name of a secret. Its value is never returned.',
  extensions,
  fields: (t) => ({ key: t.exposeString('key', { nullable: false }) }),
});

export const WebhookDelivery = builder.objectRef<AttemptRow>('WebhookDelivery').implement({
  description: 'One attempt to deliver, with secrets masked.',
  extensions,
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (row) => gid('WebHookLog', row.id) }),
    idempotencyKey: t.exposeString('delivery_id', {
      nullable: false,
      description: 'The same for all attempts to deliver the same event.',
    }),
    attempt: t.exposeInt('attempt', { nullable: false }),
    trigger: t.string({ nullable: false, resolve: (row) => triggerInfo(row.trigger)?.event ?? row.trigger }),
    requestUrl: t.exposeString('request_url', { nullable: false }),
    requestHeaders: t.field({ type: 'JSON', nullable: false, resolve: (row) => row.request_headers ?? {} }),
    requestBody: t.exposeString('request_body', { nullable: true }),
    responseStatus: t.exposeInt('response_status', { nullable: true, description: 'Null if there was no response.' }),
    responseHeaders: t.field({ type: 'JSON', nullable: false, resolve: (row) => row.response_headers ?? {} }),
    responseBody: t.exposeString('response_body', { nullable: true }),
    executionDuration: t.float({
      nullable: false,
      description: 'Seconds.',
      resolve: (row) => row.duration_ms / 1_000,
    }),
    internalErrorMessage: t.exposeString('error', { nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
  }),
});

export const WebhookOutboxEntry = builder.objectRef<DeliveryRow>('WebhookOutboxEntry').implement({
  description: 'The delivery of one event to the hook, until it is delivered or given up.',
  extensions,
  fields: (t) => ({
    idempotencyKey: t.exposeString('id', { nullable: false }),
    trigger: t.string({ nullable: false, resolve: (row) => triggerInfo(row.trigger)?.event ?? row.trigger }),
    kind: t.exposeString('kind', { nullable: false, description: 'The kind of the event.' }),
    state: t.expose('state', { type: DeliveryStateEnum, nullable: false }),
    attempts: t.exposeInt('attempts', { nullable: false }),
    nextAttemptAt: t.field({
      type: 'Time',
      nullable: true,
      resolve: (row) => (row.state === 'waiting' ? row.next_attempt_at : null),
    }),
    lastResponseStatus: t.exposeInt('last_response_status', { nullable: true }),
    lastError: t.exposeString('last_error', { nullable: true }),
    requestBody: t.exposeString('body', { nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    finishedAt: t.expose('finished_at', { type: 'Time', nullable: true }),
  }),
});

const DeliveryConnection = builder.connectionObject(
  { type: WebhookDelivery, name: 'WebhookDeliveryConnection' },
  { name: 'WebhookDeliveryEdge' },
);
const OutboxConnection = builder.connectionObject(
  { type: WebhookOutboxEntry, name: 'WebhookOutboxConnection' },
  { name: 'WebhookOutboxEdge' },
);

interface FilterArguments extends ConnectionArguments {
  readonly status?: AttemptStatus | null | undefined;
  readonly responseStatus?: number | null | undefined;
  readonly event?: Trigger | null | undefined;
  readonly createdAfter?: string | null | undefined;
  readonly createdBefore?: string | null | undefined;
}

const filterOf = ({ status, responseStatus, event, createdAfter, createdBefore }: FilterArguments) => ({
  status: responseStatus ?? status ?? undefined,
  trigger: event ?? undefined,
  created_after: createdAfter ?? undefined,
  created_before: createdBefore ?? undefined,
});

const filterArguments = (arg: ArgBuilder<Types>) => ({
  status: arg({ type: DeliveryStatusEnum }),
  responseStatus: arg.int(),
  event: arg({ type: WebhookEvent }),
  createdAfter: arg({ type: 'Time' }),
  createdBefore: arg({ type: 'Time' }),
});

const hookDeliveries = batchedConnection((ctx, args: FilterArguments) => listAttemptsBelow(ctx, filterOf(args)));

interface OutboxArguments extends FilterArguments {
  readonly states?: readonly DeliveryState[] | null | undefined;
}
const hookOutbox = batchedConnection((ctx, { states, ...args }: OutboxArguments) =>
  listDeliveriesBelow(ctx, { ...filterOf(args), states: states ?? undefined }),
);

const FailureRef = builder.objectRef<NonNullable<HookStatistics['last_failure']>>('WebhookFailure').implement({
  extensions,
  fields: (t) => ({
    deliveryId: t.id({ nullable: false, resolve: (row) => gid('WebHookLog', row.attempt_id) }),
    at: t.expose('at', { type: 'Time', nullable: false }),
    responseStatus: t.exposeInt('response_status', { nullable: true }),
    error: t.exposeString('error', { nullable: true }),
  }),
});

const StatisticsRef = builder.objectRef<HookStatistics>('WebhookStatistics').implement({
  description: 'Statistics of the last seven days, over at most the newest 10,000 attempts.',
  extensions,
  fields: (t) => ({
    since: t.expose('since', { type: 'Time', nullable: false }),
    attempts: t.exposeInt('attempts', { nullable: false }),
    successes: t.exposeInt('successes', { nullable: false }),
    successRate: t.exposeFloat('success_rate', { nullable: true, description: 'From 0 to 1.' }),
    p50Duration: t.float({ description: 'Seconds.', resolve: ({ p50_ms }) => p50_ms && p50_ms / 1_000 }),
    p95Duration: t.float({ description: 'Seconds.', resolve: ({ p95_ms }) => p95_ms && p95_ms / 1_000 }),
    lastFailure: t.field({ type: FailureRef, nullable: true, resolve: ({ last_failure }) => last_failure }),
    waiting: t.exposeInt('waiting', { nullable: false, description: 'Deliveries to be sent. Counts up to 10,000.' }),
    held: t.exposeInt('held', {
      nullable: false,
      description: 'Deliveries held until the hook is enabled. Counts up to 10,000.',
    }),
  }),
});

const statisticsOf = loader((ctx, ids: readonly number[]) => hookStatisticsByIds(ctx, ids));

export const WebhookRef = builder.interfaceRef<HookRow>('Webhook');
builder.interfaceType(WebhookRef, {
  description: 'Sends events to a URL. Only visible to callers who administer the hooks of its group or project.',
  extensions,
  resolveType: (hook) => (hook.namespace_id === null ? 'ProjectWebhook' : 'GroupWebhook'),
  fields: (t) => ({
    id: t.id({
      nullable: false,
      resolve: (hook) => gid(hook.namespace_id === null ? 'ProjectHook' : 'GroupHook', hook.id),
    }),
    url: t.exposeString('url', {
      nullable: false,
      description: 'Credentials are masked. URL variables appear as placeholders.',
    }),
    name: t.exposeString('name', { nullable: false }),
    description: t.exposeString('description', { nullable: false }),
    events: t.field({
      type: [WebhookEvent],
      nullable: { list: false, items: false },
      resolve: (hook) => hook.triggers.filter(isTrigger),
    }),
    branchFilter: t.exposeString('push_events_branch_filter', { nullable: true }),
    branchFilterStrategy: t.field({
      type: BranchFilterStrategyEnum,
      nullable: false,
      resolve: (hook) => BRANCH_FILTER_STRATEGIES.find((each) => each === hook.branch_filter_strategy) ?? 'wildcard',
    }),
    enableSslVerification: t.exposeBoolean('enable_ssl_verification', { nullable: false }),
    customWebhookTemplate: t.exposeString('custom_webhook_template', { nullable: true }),
    alertStatus: t.field({ type: AlertStatusEnum, nullable: false, resolve: alertStatus }),
    disabledUntil: t.expose('disabled_until', { type: 'Time', nullable: true }),
    recentFailures: t.exposeInt('recent_failures', { nullable: false }),
    customHeaders: t.field({
      type: [KeyRef],
      nullable: { list: false, items: false },
      resolve: (hook) => hook.header_keys.map((key) => ({ key })),
    }),
    urlVariables: t.field({
      type: [KeyRef],
      nullable: { list: false, items: false },
      resolve: (hook) => hook.variable_keys.map((key) => ({ key })),
    }),
    hasToken: t.exposeBoolean('has_token', { nullable: false }),
    hasSigningToken: t.exposeBoolean('has_signing_token', { nullable: false }),
    createdBy: t.field({
      type: UserRef,
      nullable: true,
      resolve: ({ created_by_id }, _args, ctx) => (created_by_id === null ? null : loadUser(ctx, created_by_id)),
    }),
    origin: t.expose('origin', {
      type: CredentialOriginRef,
      nullable: true,
      description: 'The application that created the hook or set its URL.',
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    statistics: t.field({
      type: StatisticsRef,
      nullable: true,
      resolve: (hook, _args, ctx) => statisticsOf(ctx, hook.id),
    }),
    deliveries: t.connection(
      {
        type: WebhookDelivery,
        nullable: false,
        description: 'The attempts to deliver, newest first.',
        args: filterArguments(t.arg),
        resolve: (hook, args, ctx, info) => hookDeliveries(hook.id, args, ctx, info),
      },
      DeliveryConnection,
    ),
    outbox: t.connection(
      {
        type: WebhookOutboxEntry,
        nullable: false,
        description: 'All deliveries to the hook, sent or not, newest first.',
        args: { ...filterArguments(t.arg), states: t.arg({ type: [DeliveryStateEnum] }) },
        resolve: (hook, args, ctx, info) => hookOutbox(hook.id, args, ctx, info),
      },
      OutboxConnection,
    ),
  }),
});

export const GroupWebhook = builder.objectRef<HookRow>('GroupWebhook').implement({
  description: 'A hook of a group. It receives events of the group and everything below it.',
  interfaces: [WebhookRef],
  extensions,
});
export const ProjectWebhook = builder.objectRef<HookRow>('ProjectWebhook').implement({
  description: 'A hook of one project.',
  interfaces: [WebhookRef],
  extensions,
});

const GroupConnection = builder.connectionObject(
  { type: GroupWebhook, name: 'GroupWebhookConnection' },
  { name: 'GroupWebhookEdge' },
);
const ProjectConnection = builder.connectionObject(
  { type: ProjectWebhook, name: 'ProjectWebhookConnection' },
  { name: 'ProjectWebhookEdge' },
);

const hooksBelow = (kind: ContainerKind) =>
  batchedConnection((ctx: Context, _args: ConnectionArguments) => listHooksBelow(ctx, kind));
const groupHooks = hooksBelow('group');
const projectHooks = hooksBelow('project');

builder.objectField(GroupRef, 'webhooks', (t) =>
  t.connection(
    {
      type: GroupWebhook,
      nullable: true,
      description: 'Only for owners. Null for others.',
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_hook') ? groupHooks(group.id, args, ctx, info) : null,
    },
    GroupConnection,
  ),
);

projectField('webhooks', JUDGED, (t) =>
  t.connection(
    {
      type: ProjectWebhook,
      nullable: true,
      description: 'Only for maintainers. Null for others.',
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_hook') ? projectHooks(project.id, args, ctx, info) : null,
    },
    ProjectConnection,
  ),
);
