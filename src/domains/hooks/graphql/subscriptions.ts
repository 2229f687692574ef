import { builder } from '#graphql/builder.ts';
import { subscriptionField, type Update, updateFields, updateOf } from '#graphql/subscription.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import { webhookAlertStatusChanged, webhookDeliveryUpdated } from '../events.ts';
import { type AttemptRow, attemptsByIds } from '../history/attempts.ts';
import type { AlertStatus } from '../model.ts';
import { getHookContainer } from '../policy.ts';
import { type HookRow, hooksByIds } from '../queries.ts';
import { AlertStatusEnum, WebhookDelivery, WebhookRef } from './types.ts';

const extensions = { viewerIndependent: true } as const;

interface HookUpdate extends Update {
  readonly webhook: HookRow;
}

const DeliveryUpdate = builder
  .objectRef<HookUpdate & { readonly deliveries: readonly AttemptRow[] }>('WebhookDeliveryUpdate')
  .implement({
    // Depends on the viewer, because not everyone who administers the hook may read every body.
    description: 'New attempts to deliver to one hook.',
    fields: (t) => ({
      ...updateFields(t),
      webhook: t.expose('webhook', { type: WebhookRef, nullable: false }),
      deliveries: t.field({
        type: [WebhookDelivery],
        nullable: { list: false, items: false },
        description: 'Oldest first. A busy hook gets many in one update.',
        resolve: ({ deliveries }) => [...deliveries],
      }),
      delivery: t.field({
        type: WebhookDelivery,
        nullable: true,
        description: 'The newest attempt of the update.',
        resolve: ({ deliveries }) => deliveries.at(-1) ?? null,
      }),
    }),
  });

interface AlertChange extends HookUpdate {
  readonly previous: AlertStatus;
  readonly current: AlertStatus;
  readonly disabled_until: string | null;
}

const AlertStatusUpdate = builder.objectRef<AlertChange>('WebhookAlertStatusUpdate').implement({
  description: 'A hook was disabled or enabled again.',
  extensions,
  fields: (t) => ({
    ...updateFields(t),
    webhook: t.expose('webhook', { type: WebhookRef, nullable: false }),
    previous: t.expose('previous', { type: AlertStatusEnum, nullable: false }),
    alertStatus: t.expose('current', { type: AlertStatusEnum, nullable: false }),
    disabledUntil: t.expose('disabled_until', { type: 'Time', nullable: true }),
  }),
});

interface PlaceArguments {
  readonly groupPath?: string | number | null | undefined;
  readonly projectPath?: string | number | null | undefined;
}

/** Opens a subscription for callers who administer the hooks of the container. A group also covers the hooks below it. */
const openFor = async (ctx: Context, kind: string, { groupPath, projectPath }: PlaceArguments) => {
  if (Boolean(groupPath) === Boolean(projectPath)) throw badRequest('give groupPath or projectPath');
  const container = await getHookContainer(
    ctx,
    groupPath
      ? { kind: 'group', id: { path: String(groupPath) } }
      : { kind: 'project', id: { path: String(projectPath) } },
  );
  const kinds = new Set([kind]);
  return container.kind === 'group'
    ? { kinds, namespace_id: container.group.id }
    : { kinds, project_id: container.project.id };
};

const hookOf = async (ctx: Context, id: number) => (await hooksByIds(ctx, [id])).get(id) ?? null;

subscriptionField('webhookDeliveryUpdated', {
  description: 'Follows deliveries to the hooks of a project, or of a group and everything below it.',
  type: DeliveryUpdate,
  args: (t) => ({ groupPath: t.id(), projectPath: t.id() }),
  open: (ctx, args) => openFor(ctx, webhookDeliveryUpdated.kind, args),
  resolve: async (event, _args, ctx) => {
    const { id, attempt_ids } = webhookDeliveryUpdated.payload.parse(event.payload);
    const [webhook, attempts] = await Promise.all([hookOf(ctx, id), attemptsByIds(ctx, attempt_ids)]);
    const deliveries = attempt_ids.flatMap((each) => attempts.get(each) ?? []);
    return webhook && { ...updateOf(event), webhook, deliveries };
  },
});

subscriptionField('webhookAlertStatusUpdated', {
  description: 'Follows which hooks of a project, or of a group and everything below it, are disabled and enabled.',
  type: AlertStatusUpdate,
  args: (t) => ({ groupPath: t.id(), projectPath: t.id() }),
  open: (ctx, args) => openFor(ctx, webhookAlertStatusChanged.kind, args),
  resolve: async (event, _args, ctx) => {
    const payload = webhookAlertStatusChanged.payload.parse(event.payload);
    const webhook = await hookOf(ctx, payload.id);
    return webhook && { ...payload, ...updateOf(event), webhook };
  },
});
