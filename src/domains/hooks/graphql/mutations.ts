import type { ContainerAddress, ContainerKind } from '#domains/planning/container.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { HookAttributes } from '../attributes.ts';
import { createHook, deleteHook, enableHook, rotateSigningToken, updateHook } from '../commands.ts';
import { getAttemptById } from '../history/attempts.ts';
import { getDelivery } from '../history/deliveries.ts';
import { cancelDelivery, replayDeliveries } from '../manual/replay.ts';
import { resendAttemptById } from '../manual/resend.ts';
import { testHook } from '../manual/testing.ts';
import { TEST_TRIGGERS } from '../model.ts';
import { getHookById } from '../queries.ts';
import { TRIGGERS, type Trigger, triggerInfo } from '../triggers.ts';
import {
  BranchFilterStrategyEnum,
  enumOf,
  GroupWebhook,
  ProjectWebhook,
  WebhookDelivery,
  WebhookEvent,
  WebhookOutboxEntry,
} from './types.ts';

const TestEvent = enumOf('WebhookTestEvent', TEST_TRIGGERS, (name) => triggerInfo(name)?.says ?? '');

const KeyValueInput = builder.inputType('WebhookKeyValueInput', {
  fields: (t) => ({ key: t.string({ required: true }), value: t.string({ required: true }) }),
});

const attributeFields = (t: InputFields) => ({
  name: t.string(),
  description: t.string(),
  events: t.field({ type: [WebhookEvent], description: 'The events that the hook receives. Replaces the whole list.' }),
  token: t.string({ description: 'A secret that is sent with each delivery. It is never returned.' }),
  signingToken: t.string({ description: '`whsec_` followed by base64. Generated if absent.' }),
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

/** Returns the container of a hook as the commands take it. @throws `not_found`, also if the hook is of another kind */
const containerOf = async (ctx: Context, id: number, kind?: ContainerKind): Promise<ContainerAddress> => {
  const { container } = await getHookById(ctx, id);
  if (kind !== undefined && container.kind !== kind) throw notFound('Hook');
  return { kind: container.kind, id: { id: container.kind === 'group' ? container.group.id : container.project.id } };
};

const hookId = (t: InputFields) => ({ id: t.field({ type: 'WebHookID', required: true }) });

const FACES = { group: GroupWebhook, project: ProjectWebhook } as const;

for (const kind of ['group', 'project'] as const) {
  const payload = { webhook: FACES[kind] };

  mutationField(`${kind}WebhookCreate`, {
    description: `Adds a hook to a ${kind}. Returns the generated signing token, which is shown only once.`,
    input: (t) => ({
      [`${kind}Path`]: t.id({ required: true }),
      url: t.string({ required: true }),
      ...attributeFields(t),
    }),
    payload: { ...payload, signingToken: 'String' },
    run: async (ctx, { url, ...input }) => {
      const path = String(Reflect.get(input, `${kind}Path`));
      const { hook, signing_token } = await createHook(ctx, { kind, id: { path } }, { ...attributesOf(input), url });
      return { webhook: hook, signingToken: signing_token };
    },
  });

  mutationField(`${kind}WebhookUpdate`, {
    description: 'Changes a hook. A new URL clears the secrets that are not given with it.',
    input: (t) => ({ ...hookId(t), url: t.string(), ...attributeFields(t) }),
    payload,
    run: async (ctx, { id, url, ...input }) => {
      const given = { ...attributesOf(input), url: url ?? undefined };
      return { webhook: await updateHook(ctx, await containerOf(ctx, id, kind), id, given) };
    },
  });

  mutationField(`${kind}WebhookDestroy`, {
    description: 'Removes a hook with its deliveries.',
    input: hookId,
    payload: {},
    run: async (ctx, { id }) => {
      await deleteHook(ctx, await containerOf(ctx, id, kind), id);
      return {};
    },
  });

  mutationField(`${kind}WebhookTest`, {
    description:
      'Sends a test event to the hook at once, even if it is disabled. Uses the newest data, or a sample if there is none.',
    input: (t) => ({ ...hookId(t), event: t.field({ type: TestEvent, required: true }) }),
    payload: { ...payload, delivery: WebhookDelivery },
    run: async (ctx, { id, event }) => {
      const attemptId = await testHook(ctx, await containerOf(ctx, id, kind), id, event);
      const { hook } = await getHookById(ctx, id);
      return { webhook: hook, delivery: await getAttemptById(ctx, attemptId) };
    },
  });

  mutationField(`${kind}WebhookEnable`, {
    description: 'Enables a disabled hook and sends its held deliveries.',
    input: hookId,
    payload,
    run: async (ctx, { id }) => ({ webhook: await enableHook(ctx, await containerOf(ctx, id, kind), id) }),
  });

  mutationField(`${kind}WebhookRotateSigningToken`, {
    description: 'Creates a signing token, which is shown only once. The old token keeps signing for 24 hours.',
    input: hookId,
    payload: { signingToken: 'String' },
    run: async (ctx, { id }) => ({ signingToken: await rotateSigningToken(ctx, await containerOf(ctx, id, kind), id) }),
  });
}

mutationField('webhookDeliveryResend', {
  description: 'Sends the request of an attempt again, under the same idempotency key.',
  input: (t) => ({ id: t.field({ type: 'WebHookLogID', required: true }) }),
  payload: { delivery: WebhookDelivery },
  run: async (ctx, { id }) => ({ delivery: await resendAttemptById(ctx, id) }),
});

mutationField('webhookDeliveriesReplay', {
  description:
    'Sends deliveries of a hook again, under the same idempotency keys: all finished ones in a time range, or those that failed since a given time.',
  input: (t) => ({
    ...hookId(t),
    createdAfter: t.field({ type: 'Time' }),
    createdBefore: t.field({ type: 'Time' }),
    failedSince: t.field({ type: 'Time' }),
  }),
  payload: { count: 'Int' },
  run: async (ctx, { id, createdAfter, createdBefore, failedSince }) => {
    if (Boolean(createdAfter) === Boolean(failedSince) || (failedSince && createdBefore))
      throw badRequest('give either createdAfter (optionally with createdBefore) or failedSince');
    const range = failedSince
      ? { failed_since: failedSince }
      : { created_after: createdAfter ?? '', created_before: createdBefore ?? null };
    return { count: await replayDeliveries(ctx, await containerOf(ctx, id), id, range) };
  },
});

mutationField('webhookDeliveryCancel', {
  description: 'Cancels a delivery that is waiting or held.',
  input: (t) => ({ idempotencyKey: t.string({ required: true }) }),
  payload: { entry: WebhookOutboxEntry },
  run: async (ctx, { idempotencyKey }) => {
    const { webhook_id: id } = await getDelivery(ctx, idempotencyKey);
    return { entry: await cancelDelivery(ctx, await containerOf(ctx, id), id, idempotencyKey) };
  },
});
