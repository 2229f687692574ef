import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { DEVELOPER } from '#domains/access/model.ts';
import { dispatchToHooks } from '#domains/hooks/delivery/dispatch.ts';
import { ensureDeliveryPartitions } from '#domains/hooks/delivery/partitions.ts';
import { sweepDeliveries } from '#domains/hooks/jobs.ts';
import { defineEvent, definitionsIn, type EventRow } from '#platform/events.ts';
import { useApp } from '../support/app.ts';
import { runGit } from '../support/git.ts';
import { until } from '../support/until.ts';
import { type Received, Receiver, signersOf } from './receiver.ts';

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

const push = async (project: { path_with_namespace: string }, ...branches: string[]) => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-hooks-'));
  await runGit(folder, 'init', '-q', '-b', 'main');
  await runGit(folder, 'commit', '-q', '--allow-empty', '-m', `At ${performance.now()}`);
  for (const branch of branches) if (branch !== 'main') await runGit(folder, 'branch', branch);
  const url = new URL(`${app().url}/${project.path_with_namespace}.git`);
  url.username = 'oauth2';
  url.password = await app().tokenOf(app().root);
  await runGit(folder, 'push', '-q', '--force', url.href, ...branches);
  await rm(folder, { recursive: true });
};

const addHook = async (group: { id: number }, attributes: Record<string, unknown> = {}) => {
  const { status, body } = await root().post(`/groups/${group.id}/hooks`, {
    url: receiver.url,
    push_events: false,
    ...attributes,
  });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body;
};
const eventsOf = async (group: { id: number }, hook: { id: number }, query = '') =>
  (await root().get(`/groups/${group.id}/hooks/${hook.id}/events${query}`)).body;
const only = (): Received => {
  const [first, ...rest] = receiver.received;
  if (!first || rest.length > 0) throw new Error(`${receiver.received.length} came instead of one`);
  return first;
};
/** Creates a subgroup, which triggers the hooks of the group. */
const happen = (group: { id: number }) => app().make.group({ parent_id: group.id });
const due = () => sql`update webhook_queue set next_attempt_at = now()`.execute(db());

/** An event of the group that everyone may see, as dispatch reads it. */
const eventRow = (id: number, kind: string, group: { readonly id: number }, payload: string): EventRow => ({
  id,
  position: id,
  kind,
  actor_id: null,
  subject_type: 'Thing',
  subject_id: 1,
  project_id: null,
  namespace_ids: [group.id],
  visibility_level: 20,
  min_access_level: null,
  user_ids: [],
  payload,
  chain_id: null,
  created_at: '2026-11-21 00:00:00+00',
});

describe('a push', () => {
  it('reaches the hooks of its group and of the groups above, signed, each with its own id', async () => {
    const group = await app().make.group();
    const below = await app().make.group({ parent_id: group.id });
    const project = await app().make.project({ namespace_id: below.id });
    const { status, body: hook } = await root().post(`/groups/${group.id}/hooks`, {
      url: receiver.url,
      token: 'shared-secret',
    });
    expect(status).toBe(201);
    await root().post(`/groups/${below.id}/hooks`, { url: `${receiver.url}/below` });
    await app().settle();
    await push(project, 'main');
    await app().settle();
    expect(receiver.received.map(({ path }) => path).sort()).toEqual(['/hook', '/hook/below']);
    const got = receiver.received.find(({ path }) => path === '/hook');
    if (!got) throw new Error('nothing came');
    expect(got.headers).toMatchObject({
      'content-type': 'application/json',
      'x-gitlab-event': 'Push Hook',
      'x-gitlab-token': 'shared-secret',
      'x-gitlab-instance': app().url,
      'x-millrace-attempt': '1',
      'webhook-id': got.headers['idempotency-key'],
    });
    expect(signersOf(got, [hook.signing_token])).toHaveLength(1);
    expect(got.body).toMatchObject({ object_kind: 'push', ref: 'refs/heads/main', project_id: project.id });
    const ids = receiver.received.map(({ headers }) => headers['idempotency-key']);
    expect(new Set(ids).size).toBe(2);
    const events = await root().get(`/groups/${group.id}/hooks/${hook.id}/events`);
    expect(events.body).toMatchObject([
      { response_status: '200', trigger: 'push_hooks', response_body: 'ok', url: receiver.url, attempt: 1 },
    ]);
    expect(events.body[0].request_data.ref).toBe('refs/heads/main');
    expect(events.body[0].request_headers['X-Gitlab-Token']).toBe('[REDACTED]');
  });

  it('is filtered by branch with a wildcard or a regular expression', async () => {
    const group = await app().make.group();
    const project = await app().make.project({ namespace_id: group.id });
    for (const [name, filter] of [
      ['wild', { push_events_branch_filter: 'release/*' }],
      ['regex', { push_events_branch_filter: '^(main|dev)$', branch_filter_strategy: 'regex' }],
      ['all', { push_events_branch_filter: 'nothing', branch_filter_strategy: 'all_branches' }],
      ['literal', { push_events_branch_filter: 'ma.n' }],
    ] as const)
      await addHook(group, { url: `${receiver.url}/${name}`, push_events: true, ...filter });
    await push(project, 'main', 'release/1/2', 'other');
    await app().settle();
    const got = receiver.received.map(({ path, body }) => `${path.slice(6)} ${body.ref.slice(11)}`).sort();
    expect(got).toEqual(['all main', 'all other', 'all release/1/2', 'regex main', 'wild release/1/2']);
  });

  it('fires only the repository update if it has more branches than the limit', async () => {
    const group = await app().make.group();
    const project = await app().make.project({ namespace_id: group.id });
    await addHook(group, { push_events: true, repository_update_events: true });
    await push(project, 'main', 'a', 'b', 'c');
    await app().settle();
    expect(only().headers['x-gitlab-event']).toBe('Repository Update Hook');
    expect(only().body).toMatchObject({ event_name: 'repository_update', project_id: project.id });
    expect(only().body.refs).toHaveLength(4);
  });
});

describe('an event in a group', () => {
  it('reaches the hooks with the toggle for members, subgroups or projects', async () => {
    const group = await app().make.group();
    await addHook(group, { url: `${receiver.url}/members`, member_events: true });
    await addHook(group, { url: `${receiver.url}/groups`, subgroup_events: true });
    await addHook(group, { url: `${receiver.url}/projects`, project_events: true });
    const user = await app().make.user();
    await root().post(`/groups/${group.id}/members`, { user_id: user.id, access_level: DEVELOPER });
    const below = await happen(group);
    await app().make.project({ namespace_id: below.id });
    await app().settle();
    const got = new Map(receiver.received.map(({ path, headers, body }) => [path.slice(6), { headers, body }]));
    expect(receiver.received).toHaveLength(3);
    expect(got.get('members')?.headers['x-gitlab-event']).toBe('Member Hook');
    expect(got.get('members')?.body).toMatchObject({
      event_name: 'user_add_to_group',
      user_id: user.id,
      group_access: 'Developer',
    });
    expect(got.get('groups')?.body).toMatchObject({ event_name: 'subgroup_create', group_id: below.id });
    expect(got.get('projects')?.body).toMatchObject({ event_name: 'project_create' });
  });

  it('is not sent in silent mode, but delivered afterwards', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    await root().put('/application/settings', { silent_mode_enabled: true });
    await happen(group);
    await until('it waits', async () => {
      const rows = await db().selectFrom('webhook_queue').select('state').where('webhook_id', '=', hook.id).execute();
      return rows[0]?.state === 'waiting';
    });
    expect(receiver.received).toEqual([]);
    await root().put('/application/settings', { silent_mode_enabled: false });
    await app().settle();
    expect(receiver.received).toHaveLength(1);
  });

  it('is dropped and recorded if the hook caused it itself', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    await happen(group);
    await app().settle();
    const chain = String(only().headers['x-gitlab-event-uuid']);
    const caused = { name: 'Caused', path: 'caused', parent_id: group.id };
    expect((await root().post('/groups', caused, { 'x-gitlab-event-uuid': chain })).status).toBe(201);
    const query = `mutation { groupCreate(input: { name: "Too", path: "too", parentPath: "${group.full_path}" }) { errors } }`;
    const byGraphql = await root().post('/api/graphql', { query }, { 'x-gitlab-event-uuid': chain });
    expect(byGraphql.body.data.groupCreate.errors).toEqual([]);
    await addHook(group, { url: `${receiver.url}/second`, subgroup_events: true });
    await app().settle();
    // The hook does not receive events that it caused. The second hook did not exist yet when they happened.
    expect(receiver.received.filter(({ path }) => path === '/hook')).toHaveLength(1);
    const rows = await db()
      .selectFrom('webhook_deliveries')
      .select(['state', 'last_error'])
      .where('webhook_id', '=', hook.id)
      .where('state', '=', 'dropped')
      .execute();
    const dropped = { state: 'dropped', last_error: expect.stringContaining('caused itself') };
    expect(rows).toEqual([dropped, dropped]);
  });

  it('is delivered even if the caller makes up a chain id, over REST and GraphQL', async () => {
    const group = await app().make.group();
    await addHook(group, { subgroup_events: true });
    const chain = randomUUID();
    const headers = { 'x-gitlab-event-uuid': chain };
    for (const path of ['one', 'two']) {
      const made = await root().post('/groups', { name: path, path, parent_id: group.id }, headers);
      expect(made.status).toBe(201);
      await app().settle();
    }
    for (const path of ['three', 'four']) {
      const mutation = `mutation { groupCreate(input: { name: "${path}", path: "${path}", parentPath: "${group.full_path}" }) { errors } }`;
      const made = await root().post('/api/graphql', { query: mutation }, headers);
      expect(made.body.data.groupCreate.errors).toEqual([]);
      await app().settle();
    }
    expect(receiver.received.map(({ body }) => body.path)).toEqual(['one', 'two', 'three', 'four']);
    expect(receiver.received.map((each) => each.headers['x-gitlab-event-uuid'])).not.toContain(chain);
  });

  it('is recorded as dropped if its body cannot be built, and delays nothing', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    const broken = defineEvent('thing.broken', z.object({ broken: z.boolean() }), {
      trigger: () => 'subgroup_events',
      body: async (_ctx, _event, payload) => {
        if (payload.broken) throw new Error('broken');
        return { well: true };
      },
    });
    const follower = dispatchToHooks(definitionsIn({ broken }));
    const event = (id: number, isBroken: boolean) =>
      eventRow(id, 'thing.broken', group, JSON.stringify({ broken: isBroken }));
    const events = [event(900_001, true), event(900_002, false)];
    await app()
      .context()
      .transaction((tx) => follower.handle(tx, events));
    await app().settle();
    expect(only().body).toEqual({ well: true });
    const rows = await db().selectFrom('webhook_deliveries').selectAll().where('webhook_id', '=', hook.id).execute();
    expect(rows.map(({ state, last_error }) => [state, last_error]).sort()).toEqual([
      ['delivered', null],
      ['dropped', 'The body could not be built'],
    ]);
  });
});

describe('a delivery', () => {
  it('is inserted together with its first attempt if the receiver answers at once', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    // On a busy machine, the first answers may come too late for that.
    await until('one is inserted with its attempt', async () => {
      await happen(group);
      await app().settle();
      const { rows } = await sql`
        select d.state, d.attempts, d.last_response_status, d.finished_at is not null as finished
        from webhook_deliveries d join webhook_attempts a on a.delivery_id = d.id and a.created_at = d.created_at
        where d.webhook_id = ${hook.id}`.execute(db());
      for (const row of rows)
        expect(row).toEqual({ state: 'delivered', attempts: 1, last_response_status: 200, finished: true });
      return rows.length > 0;
    });
    expect((await root().get(`/groups/${group.id}/hooks/${hook.id}/deliveries?state=delivered`)).body.length).toBe(
      (await eventsOf(group, hook)).length,
    );
  });

  it('is being sent, and not waited for, if the receiver is slow', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    const at = `/groups/${group.id}/hooks/${hook.id}/deliveries`;
    receiver.answer = async (response) => {
      await until('it is shown', async () => (await root().get(`${at}?state=sending`)).body.length === 1);
      response.writeHead(200).end();
    };
    await happen(group);
    await app().settle();
    expect((await root().get(at)).body).toMatchObject([{ state: 'delivered', attempts: 1 }]);
    expect(await eventsOf(group, hook)).toHaveLength(1);
  });

  it('is sent again under its key if the transaction of its dispatch is rolled back', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    const made = defineEvent('thing.made', z.object({}), {
      trigger: () => 'subgroup_events',
      body: async () => ({ made: true }),
    });
    const follower = dispatchToHooks(definitionsIn({ made }));
    const event = eventRow(900_010, 'thing.made', group, '{}');
    const dispatch = (fails: boolean) =>
      app()
        .context()
        .transaction(async (tx) => {
          await follower.handle(tx, [event]);
          if (fails) throw new Error('the database is lost');
        });
    await expect(dispatch(true)).rejects.toThrow('the database is lost');
    await app().settle();
    expect(await eventsOf(group, hook)).toEqual([]);
    await dispatch(false);
    await app().settle();
    const keys = receiver.received.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toEqual([keys[0], keys[0]]);
    expect(await eventsOf(group, hook)).toMatchObject([{ idempotency_key: keys[0], attempt: 1 }]);
  });

  it('carries custom headers, URL variables and basic credentials, and logs none of them', async () => {
    const group = await app().make.group();
    // The receiver echoes the whole request. Even then the secrets must not reach the log.
    receiver.answer = (response, { headers, path }) =>
      response.writeHead(200, { 'x-echo': String(headers['x-key']) }).end(JSON.stringify({ headers, path }));
    const address = new URL(receiver.url);
    const hook = await addHook(group, {
      subgroup_events: true,
      token: 'the-shared-token',
      url: `http://ann:pass%20word@${address.host}/hook/{who}?a={missing}`,
      custom_headers: [
        { key: 'X-Key', value: 'header-secret' },
        { key: 'x-gitlab-event', value: 'forged' },
        { key: 'Content-Type', value: 'text/plain' },
        { key: 'Authorization', value: 'Bearer mine' },
      ],
      url_variables: [{ key: 'who', value: 'variable-secret' }],
    });
    await happen(group);
    await app().settle();
    expect(only().path).toBe('/hook/variable-secret?a={missing}');
    expect(only().headers).toMatchObject({
      authorization: `Basic ${Buffer.from('ann:pass word').toString('base64')}`,
      'x-key': 'header-secret',
      'x-gitlab-event': 'Subgroup Hook',
      'content-type': 'application/json',
      'x-gitlab-token': 'the-shared-token',
    });
    const [event] = await eventsOf(group, hook);
    expect(event.url).toBe(`http://[MASKED]@${address.host}/hook/{who}?a={missing}`);
    expect(event.request_headers['X-Key']).toBe('[REDACTED]');
    const rows = await db().selectFrom('webhook_attempts').selectAll().where('webhook_id', '=', hook.id).execute();
    expect(rows).toHaveLength(1);
    for (const secret of [
      'the-shared-token',
      'header-secret',
      'variable-secret',
      'pass word',
      'pass%20word',
      hook.signing_token,
    ])
      expect(JSON.stringify([rows, event])).not.toContain(secret);
    expect(JSON.stringify(rows)).not.toContain(Buffer.from('ann:pass word').toString('base64'));
  });

  it('is signed with the new token, and for a day with the old one too', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    const rotated = await root().post(`/groups/${group.id}/hooks/${hook.id}/signing_token/rotate`);
    expect(rotated.status).toBe(201);
    const { signing_token } = rotated.body;
    await happen(group);
    await app().settle();
    expect(signersOf(only(), [hook.signing_token, signing_token])).toEqual([hook.signing_token, signing_token]);
    await sql`update webhooks set previous_signing_token_until = now() - interval '1 s', updated_at = now()`.execute(
      db(),
    );
    receiver.received.length = 0;
    await happen(group);
    await app().settle();
    expect(signersOf(only(), [hook.signing_token, signing_token])).toEqual([signing_token]);
  });

  it('is built from the template of the hook, which reads only own properties', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, {
      subgroup_events: true,
      custom_webhook_template:
        '{"text": "made: {{name}}", "id": {{group_id}}, "none": {{a.b}}, "proto": {{constructor.name}}, "up": "{{__proto__}}"}',
    });
    await app().make.group({ parent_id: group.id, name: 'Quote " and \\ slash', path: 'quoted' });
    await app().settle();
    expect(only().body).toEqual({
      text: 'made: Quote " and \\ slash',
      id: expect.any(Number),
      none: null,
      proto: null,
      up: 'null',
    });
    const [event] = await eventsOf(group, hook);
    expect(event.request_data).toEqual(only().body);

    receiver.received.length = 0;
    await root().put(`/groups/${group.id}/hooks/${hook.id}`, { url: receiver.url, custom_webhook_template: '{{name}' });
    await happen(group);
    await app().settle();
    expect(receiver.received).toEqual([]);
    const [failed] = await eventsOf(group, hook);
    expect(failed).toMatchObject({
      response_status: 'internal error',
      internal_error_message: expect.stringContaining('template'),
      request_data: {},
    });
  });

  it('fails with a clear error if the template nests too deeply', async () => {
    const group = await app().make.group();
    const custom_webhook_template = '['.repeat(2_000) + ']'.repeat(2_000);
    const hook = await addHook(group, { subgroup_events: true, custom_webhook_template });
    await happen(group);
    await app().settle();
    expect(receiver.received).toEqual([]);
    const [failed] = await eventsOf(group, hook);
    expect(failed).toMatchObject({ internal_error_message: expect.stringContaining('deeper'), request_data: {} });
  });

  it.each([
    ['an endless answer', 'The answer is too large'],
    ['a broken answer', null],
    ['NUL and invalid UTF-8', null],
  ])('survives %s', async (what, complaint) => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    receiver.answer = (response) => {
      if (what === 'a broken answer') response.socket?.end('HTTP/1.1 banana\r\n\r\n');
      else if (what === 'an endless answer') {
        response.writeHead(200);
        const more = () => {
          while (!response.destroyed && response.write('x'.repeat(16_384)));
          if (!response.destroyed) response.once('drain', more);
        };
        more();
      } else response.writeHead(200).end(Buffer.from([0, 0xff, 0x61]));
    };
    await happen(group);
    await app().settle();
    const [event] = await eventsOf(group, hook);
    expect(event.attempt).toBe(1);
    if (complaint !== null) expect(event.internal_error_message).toBe(complaint);
    if (what === 'an endless answer') expect(event.response_body).toHaveLength(8_192);
    if (what === 'a broken answer') expect(event.response_status).toBe('internal error');
    else expect(event.response_status).toBe('200');
  });

  it('is not sent to an address that the setting no longer allows', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    await root().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: false });
    await happen(group);
    await app().settle();
    await root().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    expect(receiver.received).toEqual([]);
    const [event] = await eventsOf(group, hook);
    expect(event).toMatchObject({
      response_status: 'internal error',
      internal_error_message: 'URL is blocked: requests to the local network are not allowed',
    });
  });

  it('is listed by status, and resent on request under the same id at most five times a minute', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const hook = await addHook(group, { subgroup_events: true });
    receiver.answer = 500;
    await happen(group);
    await app().settle();
    const [failed] = await eventsOf(group, hook, '?status=server_failure');
    expect(failed.response_status).toBe('500');
    expect(await eventsOf(group, hook, '?status=500')).toHaveLength(1);
    expect(await eventsOf(group, hook, '?status=successful')).toEqual([]);
    expect((await root().get(`/groups/${group.id}/hooks/${hook.id}/events?status=odd`)).status).toBe(400);
    receiver.answer = 201;
    const as = app().as(owner);
    const resend = () => as.post(`/groups/${group.id}/hooks/${hook.id}/events/${failed.id}/resend`);
    expect((await resend()).body).toEqual({ response_status: 201 });
    expect(receiver.received[1]?.headers['idempotency-key']).toBe(receiver.received[0]?.headers['idempotency-key']);
    expect(receiver.received[1]?.raw).toBe(receiver.received[0]?.raw);
    await due();
    await app().settle();
    // The manual resend succeeded, so nothing is left to retry.
    expect(receiver.received).toHaveLength(2);
    const again = await as.graphql(
      `mutation ($id: WebHookLogID!) { webhookDeliveryResend(input: { id: $id }) { errors delivery { responseStatus attempt idempotencyKey } } }`,
      { id: `gid://gitlab/WebHookLog/${failed.id}` },
    );
    expect(again.data.webhookDeliveryResend).toEqual({
      errors: [],
      delivery: { responseStatus: 201, attempt: 3, idempotencyKey: failed.idempotency_key },
    });
    for (let n = 0; n < 3; n++) expect((await resend()).status).toBe(201);
    const refused = await resend();
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toSatisfy((seconds: number) => seconds > 0 && seconds <= 60);
    const stranger = await app().make.user();
    const hidden = await app()
      .as(stranger)
      .graphql(`mutation ($id: WebHookLogID!) { webhookDeliveryResend(input: { id: $id }) { errors } }`, {
        id: `gid://gitlab/WebHookLog/${failed.id}`,
      });
    expect(hidden.errors?.[0]?.message).toMatch(/does not exist/);
    await root().put(`/groups/${group.id}/hooks/${hook.id}`, { url: `${receiver.url}/moved` });
    expect((await root().post(`/groups/${group.id}/hooks/${hook.id}/events/${failed.id}/resend`)).status).toBe(422);
    expect(receiver.received).toHaveLength(6);
  });

  it('is shown over GraphQL, together with the outbox', async () => {
    const group = await app().make.group();
    await addHook(group, { subgroup_events: true });
    receiver.answer = 500;
    await happen(group);
    await app().settle();
    const { data } = await root().graphql(
      `query ($path: ID!) { group(fullPath: $path) { webhooks(first: 5) { nodes {
        recentFailures
        deliveries(first: 5, status: SERVER_FAILURE) { count nodes { id trigger responseStatus requestBody requestHeaders attempt } }
        outbox(first: 5, states: [WAITING]) { nodes { state attempts lastResponseStatus trigger kind } } } } } }`,
      { path: group.full_path },
    );
    expect(data.group.webhooks.nodes).toEqual([
      {
        recentFailures: 1,
        deliveries: { count: 1, nodes: [expect.objectContaining({ responseStatus: 500, trigger: 'subgroup_hooks' })] },
        outbox: {
          nodes: [
            {
              state: 'WAITING',
              attempts: 1,
              lastResponseStatus: 500,
              trigger: 'subgroup_hooks',
              kind: 'group.created',
            },
          ],
        },
      },
    ]);
  });

  it('is held while its hook is disabled, sent after an edit, and expires after its retention', async () => {
    const group = await app().make.group();
    const hook = await addHook(group, { subgroup_events: true });
    await sql`update webhooks set disabled_permanently = true where id = ${hook.id}`.execute(db());
    expect((await root().get(`/groups/${group.id}/hooks/${hook.id}`)).body.alert_status).toBe('disabled');
    await happen(group);
    await app().settle();
    const stateOf = async (): Promise<string[]> =>
      (
        await db()
          .selectFrom('webhook_deliveries as d')
          .leftJoin('webhook_queue as q', 'q.delivery_id', 'd.id')
          .select(sql<string>`coalesce(q.state, d.state)`.as('state'))
          .where('d.webhook_id', '=', hook.id)
          .execute()
      ).map(({ state }) => state);
    await until('it is held', async () => (await stateOf())[0] === 'held');
    expect(receiver.received).toEqual([]);
    await root().put(`/groups/${group.id}/hooks/${hook.id}`, { url: receiver.url });
    expect((await root().get(`/groups/${group.id}/hooks/${hook.id}`)).body.alert_status).toBe('executable');
    await app().settle();
    expect(receiver.received).toHaveLength(1);

    await sql`update webhooks set disabled_permanently = true where id = ${hook.id}`.execute(db());
    await happen(group);
    await app().settle();
    const age = async (days: number) => {
      const at = new Date(Date.now() - days * 86_400_000);
      await ensureDeliveryPartitions(app().hub, [at]);
      await sql`
        with deliveries as (update webhook_deliveries set created_at = ${at}),
          payloads as (update webhook_payloads set created_at = ${at}),
          attempts as (update webhook_attempts set delivery_created_at = ${at})
        update webhook_queue set created_at = ${at}`.execute(db());
      await sweepDeliveries.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    };
    await age(6);
    expect((await stateOf()).sort()).toEqual(['delivered', 'held']);
    await age(7.5);
    expect((await stateOf()).sort()).toEqual(['delivered', 'expired']);
    await age(9);
    expect(await stateOf()).toEqual([]);
  });
});
