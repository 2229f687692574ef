import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import type { HookAttributes } from './attributes.ts';
import { createHook, deleteHook, rotateSigningToken, updateHook } from './commands.ts';
import {
  type AttemptRow,
  type AttemptStatus,
  type DeliveryRow,
  listAttemptsBelow,
  listDeliveriesBelow,
} from './deliveries.ts';
import { ALERT_STATUSES, alertStatus, BRANCH_FILTER_STRATEGIES, DELIVERY_STATES, type DeliveryState } from './model.ts';
import { getHookById, type HookRow, listHooksBelow } from './queries.ts';
import { resendAttemptById } from './resend.ts';
import { isTrigger, TRIGGERS, type Trigger, triggerInfo } from './triggers.ts';

/** Enum values named as the domain's words in capitals. */
const enumOf = <const Value extends string>(
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

const WebhookEvent = enumOf(
  'WebhookEvent',
  TRIGGERS.map(({ name }): Trigger => name),
  (name) => triggerInfo(name)?.says ?? '',
);
const AlertStatusEnum = enumOf('WebhookAlertStatus', ALERT_STATUSES);
const BranchFilterStrategyEnum = enumOf('WebhookBranchFilterStrategy', BRANCH_FILTER_STRATEGIES);
const DeliveryStateEnum = enumOf('WebhookDeliveryState', DELIVERY_STATES);
const DeliveryStatusEnum = enumOf('WebhookDeliveryStatus', ['successful', 'client_failure', 'server_failure']);

const KeyRef = builder.objectRef<{ readonly key: string }>('WebhookKey').implement({
  description: 'A secret of which the name is told and the value never.',
  fields: (t) => ({ key: t.exposeString('key', { nullable: false }) }),
});

const WebhookDelivery = builder.objectRef<AttemptRow>('WebhookDelivery').implement({
  description: 'One attempt to deliver, with secrets masked.',
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
    responseStatus: t.exposeInt('response_status', { nullable: true, description: 'Null where there was no answer.' }),
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

const WebhookOutboxEntry = builder.objectRef<DeliveryRow>('WebhookOutboxEntry').implement({
  description: 'What one event has to say to the hook, from the event on until it is delivered or given up.',
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

interface DeliveryArguments extends ConnectionArguments {
  readonly status?: AttemptStatus | null | undefined;
  readonly responseStatus?: number | null | undefined;
}
const hookDeliveries = batchedConnection((ctx, { status, responseStatus }: DeliveryArguments) =>
  listAttemptsBelow(ctx, { status: responseStatus ?? status ?? undefined }),
);

interface OutboxArguments extends ConnectionArguments {
  readonly states?: readonly DeliveryState[] | null | undefined;
}
const hookOutbox = batchedConnection((ctx, { states }: OutboxArguments) =>
  listDeliveriesBelow(ctx, { states: states ?? undefined }),
);

const GroupWebhook = builder.objectRef<HookRow>('GroupWebhook').implement({
  description: 'Tells an address of what happens in a group and below it. For owners alone.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (hook) => gid('GroupHook', hook.id) }),
    url: t.exposeString('url', {
      nullable: false,
      description: 'Credentials are masked, and URL variables stand by name.',
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
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    deliveries: t.connection(
      {
        type: WebhookDelivery,
        nullable: false,
        description: 'The attempts to deliver, newest first.',
        args: { status: t.arg({ type: DeliveryStatusEnum }), responseStatus: t.arg.int() },
        resolve: (hook, args, ctx, info) => hookDeliveries(hook.id, args, ctx, info),
      },
      DeliveryConnection,
    ),
    outbox: t.connection(
      {
        type: WebhookOutboxEntry,
        nullable: false,
        description: 'All that the hook was or is to be told, newest first.',
        args: { states: t.arg({ type: [DeliveryStateEnum] }) },
        resolve: (hook, args, ctx, info) => hookOutbox(hook.id, args, ctx, info),
      },
      OutboxConnection,
    ),
  }),
});

const WebhookConnection = builder.connectionObject(
  { type: GroupWebhook, name: 'GroupWebhookConnection' },
  { name: 'GroupWebhookEdge' },
);

const groupHooks = batchedConnection((ctx: Context, _args: ConnectionArguments) => listHooksBelow(ctx));

builder.objectField(GroupRef, 'webhooks', (t) =>
  t.connection(
    {
      type: GroupWebhook,
      nullable: true,
      description: 'For owners; null for others.',
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_hook') ? groupHooks(group.id, args, ctx, info) : null,
    },
    WebhookConnection,
  ),
);

const KeyValueInput = builder.inputType('WebhookKeyValueInput', {
  fields: (t) => ({ key: t.string({ required: true }), value: t.string({ required: true }) }),
});

type InputBuilder = PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>;

const attributeFields = (t: InputBuilder) => ({
  name: t.string(),
  description: t.string(),
  events: t.field({ type: [WebhookEvent], description: 'All that it listens to.' }),
  token: t.string({ description: 'A secret sent along with each delivery; never told again.' }),
  signingToken: t.string({ description: '`whsec_` and base64; one is made where none is given.' }),
  branchFilter: t.string(),
  branchFilterStrategy: t.field({ type: BranchFilterStrategyEnum }),
  enableSslVerification: t.boolean(),
  customWebhookTemplate: t.string(),
  customHeaders: t.field({ type: [KeyValueInput] }),
  urlVariables: t.field({ type: [KeyValueInput] }),
});

interface AttributeInput {
  readonly name?: string | null | undefined;
  readonly description?: string | null | undefined;
  readonly events?: readonly Trigger[] | null | undefined;
  readonly token?: string | null | undefined;
  readonly signingToken?: string | null | undefined;
  readonly branchFilter?: string | null | undefined;
  readonly branchFilterStrategy?: string | null | undefined;
  readonly enableSslVerification?: boolean | null | undefined;
  readonly customWebhookTemplate?: string | null | undefined;
  readonly customHeaders?: readonly { readonly key: string; readonly value: string }[] | null | undefined;
  readonly urlVariables?: readonly { readonly key: string; readonly value: string }[] | null | undefined;
}

const attributesOf = (input: AttributeInput): Omit<HookAttributes, 'url'> => ({
  name: input.name,
  description: input.description,
  token: input.token,
  signing_token: input.signingToken,
  push_events_branch_filter: input.branchFilter,
  branch_filter_strategy: input.branchFilterStrategy ?? undefined,
  enable_ssl_verification: input.enableSslVerification ?? undefined,
  custom_webhook_template: input.customWebhookTemplate,
  custom_headers: input.customHeaders ?? undefined,
  url_variables: input.urlVariables ?? undefined,
  toggles: input.events ? togglesOf(input.events) : undefined,
});

const togglesOf = (events: readonly Trigger[]): NonNullable<HookAttributes['toggles']> =>
  Object.fromEntries(TRIGGERS.map(({ name }) => [name, events.includes(name)]));

/** The group of a hook, as commands want it. */
const groupOf = async (ctx: Context, id: number) => {
  const { group } = await getHookById(ctx, id);
  return { id: group.id };
};

mutationField('groupWebhookCreate', {
  description: 'Adds a hook to a group. The signing token made for it is told here alone.',
  input: (t) => ({ groupPath: t.id({ required: true }), url: t.string({ required: true }), ...attributeFields(t) }),
  payload: { webhook: GroupWebhook, signingToken: 'String' },
  run: async (ctx, { groupPath, url, ...input }) => {
    const { hook, signing_token } = await createHook(ctx, { path: groupPath }, { ...attributesOf(input), url });
    return { webhook: hook, signingToken: signing_token };
  },
});

mutationField('groupWebhookUpdate', {
  description: 'Changes a hook. A new URL clears the secrets that do not come with it.',
  input: (t) => ({ id: t.field({ type: 'WebHookID', required: true }), url: t.string(), ...attributeFields(t) }),
  payload: { webhook: GroupWebhook },
  run: async (ctx, { id, url, ...input }) => ({
    webhook: await updateHook(ctx, await groupOf(ctx, id), id, { ...attributesOf(input), url: url ?? undefined }),
  }),
});

mutationField('groupWebhookDestroy', {
  description: 'Removes a hook with its deliveries.',
  input: (t) => ({ id: t.field({ type: 'WebHookID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    await deleteHook(ctx, await groupOf(ctx, id), id);
    return {};
  },
});

mutationField('groupWebhookRotateSigningToken', {
  description: 'Makes a new signing token, told here alone. For 24 hours the old one signs as well.',
  input: (t) => ({ id: t.field({ type: 'WebHookID', required: true }) }),
  payload: { signingToken: 'String' },
  run: async (ctx, { id }) => ({ signingToken: await rotateSigningToken(ctx, await groupOf(ctx, id), id) }),
});

mutationField('webhookDeliveryResend', {
  description: 'Sends once more what an attempt sent, under the same idempotency key.',
  input: (t) => ({ id: t.field({ type: 'WebHookLogID', required: true }) }),
  payload: { delivery: WebhookDelivery },
  run: async (ctx, { id }) => ({ delivery: await resendAttemptById(ctx, id) }),
});
