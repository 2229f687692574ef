import { createClient } from 'graphql-sse';
import { sql } from 'kysely';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { MAINTAINER } from '#domains/access/model.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { mailsTo } from '../support/mails.ts';
import { until } from '../support/until.ts';
import { Receiver } from './receiver.ts';

const app = useApp();
const root = () => app().as(app().root);
const db = () => app().hub.services.db;
let receiver: Receiver;
beforeAll(async () => {
  await root().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});
afterEach(async () => {
  await sql`delete from webhooks`.execute(db());
  receiver.received.length = 0;
  receiver.answer = 200;
});

interface Scene {
  readonly owner: TestUser;
  readonly group: { readonly id: number; readonly full_path: string };
  readonly id: number;
  /** The hook's path. */
  readonly at: string;
}

const scene = async (): Promise<Scene> => {
  const owner = await app().make.user();
  const group = await app().make.group({}, owner);
  const { body } = await app()
    .as(owner)
    .post(`/groups/${group.id}/hooks`, { url: receiver.url, push_events: false, subgroup_events: true });
  return { owner, group, id: body.id, at: `/groups/${group.id}/hooks/${body.id}` };
};
/** Creates subgroups, which trigger the hook. */
const happen = async ({ group, owner }: Scene, times = 1) => {
  for (let n = 0; n < times; n++) await app().make.group({ parent_id: group.id }, owner);
  await app().settle();
};
const keys = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id);
const received = () => receiver.received.map(({ headers }) => String(headers['idempotency-key']));

describe('deliveries', () => {
  it('are listed without large bodies, but read and resent in full', async () => {
    const { owner, group } = await scene();
    const as = app().as(owner);
    const project = await app().make.project({ namespace_id: group.id }, owner);
    const toggles = { url: receiver.url, push_events: false, issues_events: true };
    const at = `/groups/${group.id}/hooks/${(await as.post(`/groups/${group.id}/hooks`, toggles)).body.id}`;
    const description = 'x'.repeat(100_000);
    await as.post(`/projects/${project.id}/issues`, { title: 'Large', description });
    await app().settle();
    const [event] = (await as.get(`${at}/events`)).body;
    const [delivery] = (await as.get(`${at}/deliveries`)).body;
    expect([event.request_data, delivery.request_data]).toEqual([{ oversize: true }, { oversize: true }]);
    const listed = await as.graphql(
      'query ($path: ID!) { group(fullPath: $path) { webhooks { nodes { deliveries { nodes { requestBody } } } } } }',
      { path: group.full_path },
    );
    expect(JSON.stringify(listed).length).toBeLessThan(2_000);
    const whole = { object_attributes: { description } };
    expect((await as.get(`${at}/events/${event.id}`)).body.request_data).toMatchObject(whole);
    expect((await as.get(`${at}/deliveries/${delivery.id}`)).body.request_data).toMatchObject(whole);
    expect((await as.post(`${at}/events/${event.id}/resend`)).status).toBe(201);
    expect(receiver.received.map(({ body }) => body)).toMatchObject([whole, whole]);
  });

  it('are listed and filtered by state, trigger, time and status, and read one by one', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    await happen(it);
    receiver.answer = 500;
    await happen(it);
    await as.post(`${it.at}/test/push_events`);
    const list = async (query: string) => (await as.get(`${it.at}/deliveries?${query}`)).body;
    const all = await list('');
    expect(all.map(({ trigger, state }: { trigger: string; state: string }) => [trigger, state])).toEqual([
      ['push_hooks', 'expired'],
      ['subgroup_hooks', 'waiting'],
      ['subgroup_hooks', 'delivered'],
    ]);
    const [tested, failed, delivered] = all;
    expect(keys(await list('state=delivered'))).toEqual([delivered.id]);
    expect(keys(await list('trigger=push_hooks'))).toEqual([tested.id]);
    expect(keys(await list('trigger=subgroup_events&status=500'))).toEqual([failed.id]);
    expect(keys(await list('status=server_failure'))).toEqual([tested.id, failed.id]);
    expect(keys(await list(`created_after=${tested.created_at}`))).toEqual([tested.id]);
    expect(keys(await list(`created_before=${failed.created_at}`))).toEqual([failed.id, delivered.id]);
    const events = async (query: string) => (await as.get(`${it.at}/events?${query}`)).body.length;
    expect(await events('trigger=subgroup_hooks')).toBe(2);
    expect(await events(`trigger=subgroup_hooks&created_after=${tested.created_at}`)).toBe(0);
    expect(await events('status=successful&trigger=subgroup_hooks')).toBe(1);
    for (const bad of ['state=odd', 'trigger=odd', 'status=9', 'created_after=soon'])
      expect([bad, (await as.get(`${it.at}/deliveries?${bad}`)).status]).toEqual([bad, 400]);
    const one = await as.get(`${it.at}/deliveries/${failed.id}`);
    expect(one.body).toMatchObject({ id: failed.id, attempts: 1, request_data: { event_name: 'subgroup_create' } });
    expect((await as.get(`${it.at}/deliveries/${failed.id.replace(/.$/, '0')}`)).status).toBeOneOf([200, 404]);
    expect((await as.get(`${it.at}/deliveries/nothing`)).status).toBe(400);
    const [attempt] = (await as.get(`${it.at}/events?status=successful`)).body;
    expect((await as.get(`${it.at}/events/${attempt.id}`)).body).toEqual(attempt);
    const other = await scene();
    expect((await app().as(other.owner).get(`${other.at}/deliveries/${failed.id}`)).status).toBe(404);
    expect((await app().as(other.owner).get(`${other.at}/events/${attempt.id}`)).status).toBe(404);
  });

  it('are replayed by time under their idempotency keys', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    await happen(it, 2);
    const from = new Date().toISOString();
    await happen(it, 3);
    const first = received();
    receiver.received.length = 0;
    const replay = await as.post(`${it.at}/deliveries/replay`, { created_after: from });
    expect([replay.status, replay.body]).toEqual([202, { count: 3 }]);
    await app().settle();
    expect(received().sort()).toEqual(first.slice(2).sort());
    expect(receiver.received.map(({ headers }) => headers['x-millrace-attempt'])).toEqual(['2', '2', '2']);
    const none = { created_after: from, created_before: '2020-01-01T00:00:00Z' };
    expect((await as.post(`${it.at}/deliveries/replay`, none)).body).toEqual({ count: 0 });
    expect((await as.post(`${it.at}/deliveries/replay`, {})).status).toBe(400);
    const both = { created_after: from, failed_since: from };
    expect((await as.post(`${it.at}/deliveries/replay`, both)).status).toBe(400);
  });

  it('are replayed if they failed, even if they were given up', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    const from = new Date().toISOString();
    await happen(it);
    receiver.answer = 500;
    await happen(it, 2);
    await as.post(`${it.at}/test/push_events`);
    const [given] = (await as.get(`${it.at}/deliveries?state=waiting`)).body;
    await sql`
      with ended as (delete from webhook_queue where delivery_id = ${given.id})
      update webhook_deliveries set state = 'expired', finished_at = now() where id = ${given.id}`.execute(db());
    receiver.answer = 200;
    receiver.received.length = 0;
    const replay = await as.post(`${it.at}/deliveries/replay`, { failed_since: from });
    expect(replay.body).toEqual({ count: 2 });
    await app().settle();
    expect(receiver.received).toHaveLength(2);
    expect(received()).toContain(given.id);
    expect((await as.get(`${it.at}/deliveries?state=delivered`)).body).toHaveLength(3);
  });

  it('are retried for three more days if they fail after a replay', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    receiver.answer = 500;
    await happen(it);
    await sql`
      with ended as (delete from webhook_queue where webhook_id = ${it.id})
      update webhook_deliveries set state = 'expired', attempts = 14 where webhook_id = ${it.id}`.execute(db());
    await as.post(`${it.at}/deliveries/replay`, { failed_since: '2020-01-01T00:00:00Z' });
    await until('it was tried', () => receiver.received.length === 2);
    await until('it waits again', async () => (await as.get(`${it.at}/deliveries`)).body[0].attempts === 15);
    expect((await as.get(`${it.at}/deliveries`)).body[0].state).toBe('waiting');
  });

  it('are canceled while they wait or are held, and never sent afterwards', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    receiver.answer = 500;
    await happen(it);
    await sql`update webhooks set disabled_permanently = true where id = ${it.id}`.execute(db());
    await happen(it);
    const rows = (await as.get(`${it.at}/deliveries`)).body;
    for (const { id } of rows) {
      const { status, body } = await as.post(`${it.at}/deliveries/${id}/cancel`);
      expect([status, body.state]).toEqual([200, 'canceled']);
    }
    expect((await as.post(`${it.at}/deliveries/${rows[0].id}/cancel`)).status).toBe(200);
    receiver.answer = 200;
    receiver.received.length = 0;
    const enabled = await as.post(`${it.at}/enable`);
    expect([enabled.status, enabled.body.alert_status]).toEqual([200, 'executable']);
    await app().settle();
    expect(receiver.received).toEqual([]);
    await happen(it);
    const [{ id }] = (await as.get(`${it.at}/deliveries?state=delivered`)).body;
    expect((await as.post(`${it.at}/deliveries/${id}/cancel`)).status).toBe(409);
    expect((await as.get(`${it.at}/deliveries/${id}`)).body.state).toBe('delivered');
  });

  it('are resent at most five times a minute, even by concurrent requests', async () => {
    const it = await scene();
    await happen(it);
    const as = app().as(it.owner);
    const [{ id }] = (await as.get(`${it.at}/events`)).body;
    const answers = await Promise.all(Array.from({ length: 15 }, () => as.post(`${it.at}/events/${id}/resend`)));
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(5).fill(201), ...Array(10).fill(429)]);
    expect(receiver.received).toHaveLength(6);
    expect(new Set(received()).size).toBe(1);
  });

  it('are summarised for each hook', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    const empty = (await as.get(`${it.at}/statistics`)).body;
    expect(empty).toMatchObject({
      attempts: 0,
      success_rate: null,
      p50_duration: null,
      last_failure: null,
      waiting: 0,
    });
    await happen(it, 3);
    receiver.answer = 502;
    await happen(it);
    const { body } = await as.get(`${it.at}/statistics`);
    expect(body).toMatchObject({
      attempts: 4,
      successes: 3,
      success_rate: 0.75,
      last_failure: { response_status: 502, error: 'The receiver answered 502' },
      waiting: 1,
      held: 0,
    });
    expect(body.p95_duration).toBeGreaterThanOrEqual(body.p50_duration);
    const { data } = await as.graphql(
      `query ($p: ID!) { group(fullPath: $p) { webhooks { nodes { statistics {
        attempts successRate p50Duration waiting lastFailure { deliveryId responseStatus } } } } } }`,
      { p: it.group.full_path },
    );
    expect(data.group.webhooks.nodes[0].statistics).toMatchObject({
      attempts: 4,
      successRate: 0.75,
      waiting: 1,
      lastFailure: { deliveryId: `gid://gitlab/WebHookLog/${body.last_failure.event_id}`, responseStatus: 502 },
    });
  });

  it('are replayed and canceled, and their hook is enabled, by the same rules over GraphQL', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    receiver.answer = 500;
    await happen(it);
    const [{ id }] = (await as.get(`${it.at}/deliveries`)).body;
    const hook = `gid://gitlab/GroupHook/${it.id}`;
    const cancel = `mutation ($k: String!) { webhookDeliveryCancel(input: { idempotencyKey: $k }) { errors entry { state } } }`;
    const replay = `mutation ($id: WebHookID!, $t: Time) {
      webhookDeliveriesReplay(input: { id: $id, createdAfter: $t }) { errors count } }`;
    const enable = `mutation ($id: WebHookID!) { groupWebhookEnable(input: { id: $id }) { errors webhook { alertStatus } } }`;
    const outsider = app().as(await app().make.user());
    for (const [query, variables] of [
      [cancel, { k: id }],
      [replay, { id: hook, t: '2020-01-01T00:00:00Z' }],
      [enable, { id: hook }],
    ] as const)
      expect((await outsider.graphql(query, variables)).errors).toHaveLength(1);
    expect((await as.graphql(cancel, { k: id })).data.webhookDeliveryCancel.entry.state).toBe('CANCELED');
    receiver.answer = 200;
    const replayed = await as.graphql(replay, { id: hook, t: '2020-01-01T00:00:00Z' });
    expect(replayed.data.webhookDeliveriesReplay).toEqual({ errors: [], count: 1 });
    expect((await as.graphql(replay, { id: hook })).data.webhookDeliveriesReplay.errors).toHaveLength(1);
    expect((await as.graphql(enable, { id: hook })).data.groupWebhookEnable.webhook.alertStatus).toBe('EXECUTABLE');
    await app().settle();
    expect(receiver.received).toHaveLength(2);
  });
});

describe('the limit of calls per minute', () => {
  it('drops and records the deliveries above the limit of one root namespace', async () => {
    const it = await scene();
    await root().put('/application/settings', { web_hook_calls_per_minute: 2 });
    await happen(it, 4);
    await root().put('/application/settings', { web_hook_calls_per_minute: 0 });
    const { body } = await app().as(it.owner).get(`${it.at}/deliveries`);
    expect(body.map(({ state }: { state: string }) => state).sort()).toEqual([
      'delivered',
      'delivered',
      'dropped',
      'dropped',
    ]);
    const reasons = body.flatMap((each: { last_error: string | null }) => each.last_error ?? []);
    expect(reasons).toEqual([expect.stringMatching(/limit of hook calls per minute/), reasons[0]]);
    expect(receiver.received).toHaveLength(2);
  });
});

/** Opens a subscription for the hooks of a group or project. */
const follow = async (
  user: TestUser,
  field: string,
  path: string,
  fields: string,
  argument: 'groupPath' | 'projectPath' = 'groupPath',
) => {
  const client = createClient({
    url: `${app().url}/api/graphql`,
    headers: await app().as(user).headers(),
    retryAttempts: 0,
  });
  // biome-ignore lint/suspicious/noExplicitAny: the shape depends on the fields that the test requests.
  const updates: any[] = [];
  const failures: unknown[] = [];
  client.subscribe(
    { query: `subscription($p: ID!) { ${field}(${argument}: $p) { ${fields} } }`, variables: { p: path } },
    {
      next: ({ data, errors }) => {
        if (data?.[field]) updates.push(data[field]);
        if (errors) failures.push(errors);
      },
      error: (error) => failures.push(error),
      complete: () => {},
    },
  );
  return { updates, failures, close: () => client.dispose() };
};

describe('live updates', () => {
  it('show deliveries and disabled hooks to owners only', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    const deliveries = await follow(
      it.owner,
      'webhookDeliveryUpdated',
      it.group.full_path,
      'cursor webhook { id __typename } delivery { responseStatus attempt } deliveries { idempotencyKey }',
    );
    const alerts = await follow(
      it.owner,
      'webhookAlertStatusUpdated',
      it.group.full_path,
      'cursor previous alertStatus disabledUntil webhook { id alertStatus }',
    );
    const maintainer = await app().make.user();
    await app().make.groupMember(it.group, maintainer, MAINTAINER);
    const refused = await follow(maintainer, 'webhookDeliveryUpdated', it.group.full_path, 'cursor');
    await until('it is refused', () => refused.failures.length > 0);
    await until('both are followed', async () => {
      await as.post(`${it.at}/test/push_events`);
      return deliveries.updates.length > 0;
    });
    expect(deliveries.updates[0]).toMatchObject({
      webhook: { id: `gid://gitlab/GroupHook/${it.id}`, __typename: 'GroupWebhook' },
      delivery: { responseStatus: 200, attempt: 1 },
      deliveries: [{ idempotencyKey: expect.any(String) }],
    });
    receiver.answer = 410;
    await happen(it);
    await until('its end is told', () => alerts.updates.length > 0);
    expect(alerts.updates[0]).toMatchObject({
      previous: 'EXECUTABLE',
      alertStatus: 'DISABLED',
      webhook: { alertStatus: 'DISABLED' },
    });
    // The two subscriptions are streams of their own: neither has to be ahead.
    await until('the failure arrives', () => deliveries.updates.at(-1).delivery.responseStatus === 410);
    expect([deliveries.failures, alerts.failures, refused.updates]).toEqual([[], [], []]);
    for (const each of [deliveries, alerts, refused]) each.close();
  });

  it('show the hooks of one project only', async () => {
    const { owner, group } = await scene();
    const as = app().as(owner);
    const hookOf = async (project: { readonly id: number }) => {
      const at = `/projects/${project.id}/hooks`;
      return `${at}/${(await as.post(at, { url: receiver.url })).body.id}`;
    };
    const followed = await app().make.project({ namespace_id: group.id }, owner);
    const [here, elsewhere] = [await hookOf(followed), await hookOf(await app().make.project({}, owner))];
    const open = (field: string, fields: string) =>
      follow(owner, field, followed.path_with_namespace, fields, 'projectPath');
    const [deliveries, alerts] = [
      await open('webhookDeliveryUpdated', 'webhook { id }'),
      await open('webhookAlertStatusUpdated', 'webhook { id } previous alertStatus'),
    ];
    await until('deliveries are followed', async () => {
      for (const hook of [elsewhere, here]) await as.post(`${hook}/test/push_events`);
      return deliveries.updates.length > 0;
    });
    await until('alerts are followed', async () => {
      await sql`update webhooks set disabled_permanently = true`.execute(db());
      for (const hook of [elsewhere, here]) await as.post(`${hook}/enable`);
      return alerts.updates.length > 0;
    });
    expect(alerts.updates[0]).toMatchObject({ previous: 'DISABLED', alertStatus: 'EXECUTABLE' });
    const id = `gid://gitlab/ProjectHook/${here.split('/').at(-1)}`;
    for (const { webhook } of [...deliveries.updates, ...alerts.updates]) expect(webhook.id).toBe(id);
    expect([deliveries.failures, alerts.failures]).toEqual([[], []]);
    for (const each of [deliveries, alerts]) each.close();
  });
});

describe('owners', () => {
  it('get a mail when a hook is disabled, unless their group has emails disabled', async () => {
    const it = await scene();
    const as = app().as(it.owner);
    const quiet = await scene();
    await sql`update namespaces set emails_enabled = false where id = ${quiet.group.id}`.execute(db());
    const developer = await app().make.user();
    await app().make.groupMember(it.group, developer, MAINTAINER);
    await as.put(it.at, { url: receiver.url.replace('http://', 'http://user:secret-word@'), name: 'CI' });
    receiver.answer = 410;
    await happen(it);
    await happen(quiet);
    const address = ({ username }: TestUser) => `${username}@example.com`;
    const mails = await mailsTo(app(), address(it.owner));
    expect(mails).toHaveLength(1);
    expect(mails[0]?.subject).toBe(`The webhook "CI" of ${it.group.full_path} was disabled`);
    expect(mails[0]?.text).toContain('The receiver answered 410');
    expect(mails[0]?.text).toContain('kept for 7 days');
    expect(mails[0]?.text).not.toContain('secret-word');
    expect(await mailsTo(app(), address(quiet.owner))).toEqual([]);
    expect(await mailsTo(app(), address(developer))).toEqual([]);
    expect((await as.get(it.at)).body.alert_status).toBe('disabled');
    const { rows } = await sql<{ payload: object }>`
      select payload from events where kind = 'webhook.alert_status_changed' and subject_id = ${it.id}`.execute(db());
    expect(rows).toMatchObject([{ payload: { previous: 'executable', current: 'disabled' } }]);
  });
});
