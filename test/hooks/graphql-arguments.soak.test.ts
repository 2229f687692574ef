import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { momentOf } from '#domains/events/visibility.ts';
import { ensureDeliveryPartitions } from '#domains/hooks/delivery/partitions.ts';
import { gid } from '#graphql/ids.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { expectLists, type ListCase, mutate } from '../support/graphql.ts';
import { type Received, Receiver, signersOf } from './receiver.ts';

// Sets each argument of the mutations and lists of hooks, for groups and for projects.

const app = useApp();
const db = () => app().hub.services.db;
let receiver: Receiver;
let owner: TestUser;
let client: Client;
beforeAll(async () => {
  await app().as(app().root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  owner = await app().make.user();
  client = app().as(owner);
  return () => receiver[Symbol.asyncDispose]();
});
afterEach(() => {
  receiver.received.length = 0;
});

const lastReceived = (): Received => {
  const last = receiver.received.at(-1);
  if (!last) throw new Error('nothing was received');
  return last;
};

const places = {
  group: async () => {
    const { id, full_path } = await app().make.group({}, owner);
    return { full_path, hooks: `/groups/${id}/hooks`, model: 'GroupHook' };
  },
  project: async () => {
    const { id, path_with_namespace } = await app().make.project({}, owner);
    return { full_path: path_with_namespace, hooks: `/projects/${id}/hooks`, model: 'ProjectHook' };
  },
} as const;

describe.each(['group', 'project'] as const)('the hooks of a %s', (kind) => {
  const SECRETS = [`whsec_${'a'.repeat(40)}`, `whsec_${'b'.repeat(40)}`] as const;

  it('are created, changed and used with each attribute', async () => {
    const { full_path, hooks, model } = await places[kind]();
    const attributes = (value: string, secret: string) => ({
      name: `Name ${value}`,
      description: `Description ${value}`,
      token: `token-${value}`,
      signingToken: secret,
      customWebhookTemplate: `{"template":"${value}"}`,
      customHeaders: [{ key: `X-${value}`, value: `header-${value}` }],
      urlVariables: [{ key: 'who', value: `variable-${value}` }],
    });
    const check = async (id: number, value: string, secret: string) => {
      const { webhook, delivery } = await mutate(
        client,
        `${kind}WebhookTest`,
        { id: gid(model, id), event: 'PUSH_EVENTS' },
        'webhook { id } delivery { responseStatus }',
      );
      expect([webhook.id, delivery.responseStatus]).toEqual([gid(model, id), 200]);
      const received = lastReceived();
      expect(received).toMatchObject({
        path: `/hook/variable-${value}`,
        body: { template: value },
        headers: { 'x-gitlab-token': `token-${value}`, [`x-${value}`]: `header-${value}` },
      });
      expect(signersOf(received, SECRETS)).toContain(secret);
      return (await client.get(`${hooks}/${id}`)).body;
    };
    const path = { [`${kind}Path`]: full_path };
    const made = await mutate(
      client,
      `${kind}WebhookCreate`,
      {
        ...path,
        ...attributes('first', SECRETS[0]),
        url: `${receiver.url}/{who}`,
        events: ['ISSUES_EVENTS'],
        branchFilter: '^v[0-9]',
        branchFilterStrategy: 'REGEX',
        enableSslVerification: false,
      },
      'webhook { id }',
    );
    const id = Number(made.webhook.id.split('/').at(-1));
    expect(await check(id, 'first', SECRETS[0])).toMatchObject({
      name: 'Name first',
      description: 'Description first',
      issues_events: true,
      push_events: false,
      push_events_branch_filter: '^v[0-9]',
      branch_filter_strategy: 'regex',
      enable_ssl_verification: false,
    });
    await mutate(client, `${kind}WebhookUpdate`, {
      id: gid(model, id),
      ...attributes('second', SECRETS[1]),
      events: ['NOTE_EVENTS', 'PUSH_EVENTS'],
      branchFilter: 'release/*',
      branchFilterStrategy: 'WILDCARD',
      enableSslVerification: true,
    });
    expect(await check(id, 'second', SECRETS[1])).toMatchObject({
      name: 'Name second',
      description: 'Description second',
      issues_events: false,
      note_events: true,
      push_events: true,
      push_events_branch_filter: 'release/*',
      branch_filter_strategy: 'wildcard',
      enable_ssl_verification: true,
    });

    await mutate(client, `${kind}WebhookUpdate`, {
      id: gid(model, id),
      ...attributes('third', SECRETS[1]),
      url: `${receiver.url}/{who}?moved`,
    });
    const { signingToken } = await mutate(
      client,
      `${kind}WebhookRotateSigningToken`,
      { id: gid(model, id) },
      'signingToken',
    );
    await mutate(client, `${kind}WebhookTest`, { id: gid(model, id), event: 'ISSUES_EVENTS' });
    expect(lastReceived().path).toBe('/hook/variable-third?moved');
    expect(signersOf(lastReceived(), [SECRETS[1], signingToken])).toContain(signingToken);

    await db().updateTable('webhooks').set({ disabled_permanently: true }).where('id', '=', id).execute();
    const { webhook } = await mutate(
      client,
      `${kind}WebhookEnable`,
      { id: gid(model, id) },
      'webhook { id alertStatus }',
    );
    expect(webhook).toEqual({ id: gid(model, id), alertStatus: 'EXECUTABLE' });
  });

  it('have their deliveries and outbox filtered by each argument, and replayed from a time', async () => {
    const { full_path, hooks, model } = await places[kind]();
    const { id } = (await client.post(hooks, { url: receiver.url })).body;
    const forOwner = {
      kind: 'made.up',
      subject_type: 'Project',
      project_id: null,
      namespace_ids: [],
      visibility_level: null,
      min_access_level: null,
      user_ids: [owner.id],
    };
    const deliver = async (trigger: string, state: string, status: number, created_at: string) => {
      await ensureDeliveryPartitions(app().hub, [created_at]);
      const payload = await db()
        .insertInto('webhook_payloads')
        .values({
          kind: 'made.up',
          trigger,
          chain_id: randomUUID(),
          body: `{"of":"${trigger}"}`,
          moment: toJsonb(momentOf(forOwner, null)),
          created_at,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      const delivery = await db()
        .insertInto('webhook_deliveries')
        .values({
          webhook_id: id,
          payload_id: payload.id,
          state,
          attempts: 1,
          last_response_status: status,
          created_at,
          finished_at: created_at,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      await db()
        .insertInto('webhook_attempts')
        .values({
          delivery_id: delivery.id,
          delivery_created_at: created_at,
          payload_id: payload.id,
          webhook_id: id,
          attempt: 1,
          trigger,
          request_url: receiver.url,
          request_headers: '{}',
          response_status: status,
          duration_ms: 1,
          created_at,
        })
        .execute();
    };
    const now = Date.now();
    const hoursAgo = (hours: number) => new Date(now - hours * 3_600_000).toISOString();
    await deliver('push_events', 'delivered', 200, hoursAgo(30));
    await deliver('issues_events', 'expired', 404, hoursAgo(20));
    await deliver('note_events', 'expired', 503, hoursAgo(10));
    const [PUSH, ISSUE, NOTE] = ['push_hooks', 'issue_hooks', 'note_hooks'];
    const common: readonly ListCase[] = [
      ['', [PUSH, ISSUE, NOTE]],
      ['status: SUCCESSFUL', [PUSH]],
      ['status: CLIENT_FAILURE', [ISSUE]],
      ['status: SERVER_FAILURE', [NOTE]],
      ['responseStatus: 404', [ISSUE]],
      ['event: NOTE_EVENTS', [NOTE]],
      [`createdAfter: "${hoursAgo(25)}"`, [ISSUE, NOTE]],
      [`createdBefore: "${hoursAgo(15)}"`, [PUSH, ISSUE]],
    ];
    const place = `${kind}(fullPath: "${full_path}") { webhooks(first: 1) { nodes`;
    await expectLists(client, place, 'deliveries', 'trigger', common);
    await expectLists(client, place, 'outbox', 'trigger', [
      ...common,
      ['states: [DELIVERED]', [PUSH]],
      ['states: [EXPIRED, HELD]', [ISSUE, NOTE]],
    ]);

    const replay = async (range: Record<string, string>) => {
      const { count } = await mutate(client, 'webhookDeliveriesReplay', { id: gid(model, id), ...range }, 'count');
      await app().settle();
      const bodies = receiver.received.map(({ body }) => body.of);
      receiver.received.length = 0;
      expect(bodies).toHaveLength(count);
      return bodies.toSorted();
    };
    expect(await replay({ failedSince: hoursAgo(15) })).toEqual(['note_events']);
    expect(await replay({ createdAfter: hoursAgo(35), createdBefore: hoursAgo(15) })).toEqual([
      'issues_events',
      'push_events',
    ]);
  });
});
