import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureDeliveryPartitions } from '#domains/hooks/delivery/partitions.ts';
import { TRIGGERS } from '#domains/hooks/triggers.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { Receiver, signersOf } from './receiver.ts';

// Every attribute of a hook is kept as it was written, and every secret is used. Group and project hooks take the same
// parameters, apart from three triggers.

const app = useApp();
const db = () => app().hub.services.db;
let receiver: Receiver;
let client: Client;
let project: string;
const at = { groups: '', projects: '' };

beforeAll(async () => {
  const { make, as, root } = app();
  const settings = { allow_local_requests_from_web_hooks_and_services: true, web_hook_manual_limit: 0 };
  await as(root).put('/application/settings', settings);
  receiver = await Receiver.start();
  const owner = await make.user();
  client = as(owner);
  const group = await make.group({}, owner);
  const { id } = await make.project({ namespace_id: group.id }, owner);
  project = `/projects/${id}`;
  at.groups = `/groups/${group.id}/hooks`;
  at.projects = `${project}/hooks`;
});
afterAll(() => receiver[Symbol.asyncDispose]());

const signingToken = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;

describe.each(['groups', 'projects'] as const)('a hook of %s', (kind) => {
  const triggers = TRIGGERS.filter((trigger) => kind === 'groups' || !('groupsOnly' in trigger)).map(
    ({ name }) => name,
  );
  const toggles = (on: (index: number) => boolean) => Object.fromEntries(triggers.map((name, i) => [name, on(i)]));

  it('keeps every attribute that is created or changed', async () => {
    const first = {
      url: `${receiver.url}/first`,
      name: 'First',
      description: 'The first',
      ...toggles((index) => index % 2 === 0),
      push_events_branch_filter: '^main$',
      branch_filter_strategy: 'regex',
      enable_ssl_verification: false,
      custom_webhook_template: '{"first": "{{object_kind}}"}',
    };
    const made = await client.post(at[kind], { ...first, url: `${receiver.url}/first` });
    expect([made.status, made.body]).toEqual([201, expect.objectContaining(first)]);
    const path = `${at[kind]}/${made.body.id}`;
    expect((await client.get(path)).body).toMatchObject(first);
    const second = {
      url: `${receiver.url}/second`,
      name: 'Second',
      description: 'The second',
      ...toggles((index) => index % 2 === 1),
      push_events_branch_filter: 'release/*',
      branch_filter_strategy: 'wildcard',
      enable_ssl_verification: true,
      custom_webhook_template: '{"second": "{{object_kind}}"}',
    };
    expect(await client.put(path, second)).toMatchObject({ status: 200, body: second });
    expect((await client.get(path)).body).toMatchObject(second);
    const all = await client.put(path, { url: second.url, branch_filter_strategy: 'all_branches' });
    expect(all.body.branch_filter_strategy).toBe('all_branches');
    await client.delete(path);
  });

  it('sends its token, signature, headers and variables, as created and as changed', async () => {
    const secrets = (version: number) => ({
      url: `${receiver.url}/{where}`,
      token: `token-${version}`,
      signing_token: signingToken(version),
      custom_headers: [{ key: 'X-Version', value: `header-${version}` }],
      url_variables: [{ key: 'where', value: `variable-${version}` }],
      custom_webhook_template: `{"version": ${version}, "kind": "{{object_kind}}"}`,
    });
    const received = async (path: string) => {
      receiver.received.length = 0;
      expect((await client.post(`${path}/test/push_events`)).status).toBe(201);
      const [request] = receiver.received;
      if (!request) throw new Error('nothing was received');
      return request;
    };
    const made = await client.post(at[kind], { ...secrets(1), push_events: false });
    expect(made.status).toBe(201);
    expect(made.body).not.toHaveProperty('signing_token');
    const path = `${at[kind]}/${made.body.id}`;
    const as = (version: number) => ({
      path: `/hook/variable-${version}`,
      headers: { 'x-gitlab-token': `token-${version}`, 'x-version': `header-${version}` },
      body: { version, kind: 'push' },
    });
    const first = await received(path);
    expect(first).toMatchObject(as(1));
    expect(signersOf(first, [signingToken(1), signingToken(2)])).toEqual([signingToken(1)]);
    expect(await client.put(path, secrets(2))).toMatchObject({ status: 200 });
    const second = await received(path);
    expect(second).toMatchObject(as(2));
    expect(signersOf(second, [signingToken(2)])).toEqual([signingToken(2)]);
    expect((await client.put(`${path}/url_variables/where`, { value: 'moved' })).status).toBe(204);
    expect((await received(path)).path).toBe('/hook/moved');
    await client.delete(path);
  });

  it('lists deliveries and attempts by state, status, trigger and time, and replays them by time', async () => {
    const toggles = { push_events: false, issues_events: true, milestone_events: true };
    const made = await client.post(at[kind], { url: receiver.url, ...toggles });
    const path = `${at[kind]}/${made.body.id}`;
    await client.post(`${project}/milestones`, { title: `Sent to ${kind}` });
    await app().settle();
    receiver.answer = 404;
    await client.post(`${project}/issues`, { title: 'Refused' });
    await app().settle();
    const ids = async (list: 'deliveries' | 'events', query = ''): Promise<(string | number)[]> => {
      const { status, body } = await client.get(`${path}/${list}?${query}`);
      expect([status, body]).toEqual([200, expect.any(Array)]);
      return body.map((row: { id: string | number }) => row.id);
    };
    for (const list of ['deliveries', 'events'] as const) {
      const [newer, older] = await ids(list);
      const at = new Date('2020-01-01T00:00:00Z');
      await ensureDeliveryPartitions(app().hub, [at]);
      if (list === 'events')
        await sql`update webhook_attempts set created_at = ${at} where id = ${older}`.execute(db());
      else
        await sql`
          with deliveries as (
            update webhook_deliveries set created_at = ${at}
            where payload_id = (select payload_id from webhook_deliveries where id = ${older}) returning id, payload_id
          ), attempts as (
            update webhook_attempts set delivery_created_at = ${at} where delivery_id in (select id from deliveries)
          )
          update webhook_payloads set created_at = ${at} where id in (select payload_id from deliveries)`.execute(db());
      expect(await ids(list, 'status=200')).toEqual([older]);
      expect(await ids(list, 'status=client_failure')).toEqual([newer]);
      expect(await ids(list, 'trigger=milestone_events')).toEqual([older]);
      expect(await ids(list, 'trigger=issue_hooks')).toEqual([newer]);
      expect(await ids(list, 'created_after=2020-01-02T00:00:00Z')).toEqual([newer]);
      expect(await ids(list, 'created_before=2020-01-02T00:00:00Z')).toEqual([older]);
    }
    const [newer, older] = await ids('deliveries');
    expect(await ids('deliveries', 'state=delivered')).toEqual([older]);
    expect(await ids('deliveries', 'state=waiting')).toEqual([newer]);
    receiver.answer = 200;
    const replay = async (range: Record<string, string>) =>
      (await client.post(`${path}/deliveries/replay`, range)).body.count;
    expect(await replay({ created_after: '2019-01-01T00:00:00Z', created_before: '2019-12-01T00:00:00Z' })).toBe(0);
    expect(await replay({ created_after: '2019-01-01T00:00:00Z', created_before: '2020-02-01T00:00:00Z' })).toBe(1);
    await app().settle();
    expect(await replay({ failed_since: '2100-01-01T00:00:00Z' })).toBe(0);
    expect(await replay({ failed_since: '2020-01-01T00:00:00Z' })).toBe(1);
    await client.delete(path);
  });
});
