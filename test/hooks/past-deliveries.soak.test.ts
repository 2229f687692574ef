import { sql } from 'kysely';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { Receiver } from './receiver.ts';

// Hook administrators see the content of deliveries that they could read then and may read now.

const app = useApp();
const db = () => app().hub.services.db;
let receiver: Receiver;
beforeAll(async () => {
  const toggles = { allow_local_requests_from_web_hooks_and_services: true, web_hook_manual_limit: 0 };
  await app().as(app().root).put('/application/settings', toggles);
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});
afterEach(async () => {
  await sql`delete from webhooks`.execute(db());
  receiver.received.length = 0;
});

interface Answer {
  readonly status: number;
  readonly body: unknown;
}
const ok = async (answer: Promise<Answer>): Promise<void> => {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`);
};

/** Creates a project in a private group whose hook received an issue. `newcomer` owns the group it moves to. */
const scene = async () => {
  const { make, as } = app();
  const [owner, newcomer] = [await make.user(), await make.user()];
  const vault = await make.group({ visibility: 'private' }, owner);
  const other = await make.group({ visibility: 'private' }, owner);
  await make.groupMember(other, newcomer, 50);
  const project = await make.project({ namespace_id: vault.id, visibility: 'private' }, owner);
  const toggles = { url: receiver.url, push_events: false, issues_events: true };
  const { body: hook } = await as(owner).post(`/projects/${project.id}/hooks`, toggles);
  await ok(as(owner).post(`/projects/${project.id}/issues`, { title: 'The merger' }));
  await app().settle();
  return { owner, newcomer, vault, other, project, hook, at: `/projects/${project.id}/hooks/${hook.id}` };
};

/** Counts the entries of both lists that come with a body. */
const shown = async (who: TestUser, at: string) => {
  const lists = await Promise.all(['deliveries', 'events'].map((list) => app().as(who).get(`${at}/${list}`)));
  expect(lists.map(({ status }) => status)).toEqual([200, 200]);
  return lists.map(({ body }) => body.filter(({ request_data }: Shown) => Object.keys(request_data).length > 0).length);
};
interface Shown {
  readonly request_data: Readonly<Record<string, unknown>>;
}

const DELIVERIES = `query ($path: ID!) { project(fullPath: $path) { webhooks(first: 10) { nodes {
  deliveries(first: 10) { nodes { requestBody responseBody } } outbox(first: 10) { nodes { requestBody } } } } } }`;

describe('past deliveries', () => {
  it('are neither shown to nor resent by owners whose group the project was moved to', async () => {
    const { owner, newcomer, other, project, at } = await scene();
    expect(await shown(owner, at)).toEqual([1, 1]);
    const [delivery] = (await app().as(owner).get(`${at}/deliveries`)).body;
    const [attempt] = (await app().as(owner).get(`${at}/events`)).body;
    await ok(app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: other.id }));

    const client = app().as(newcomer);
    expect(await shown(newcomer, at)).toEqual([0, 0]);
    expect((await client.get(`${at}/deliveries/${delivery.id}`)).body).toMatchObject({ request_data: {} });
    const seen = (await client.get(`${at}/events/${attempt.id}`)).body;
    expect(seen).toMatchObject({ request_data: {}, response_body: null });
    expect((await client.post(`${at}/events/${attempt.id}/resend`)).status).toBe(422);
    const path = `${other.full_path}/${project.path}`;
    const listed = await client.graphql(DELIVERIES, { path });
    expect(listed.errors).toBeUndefined();
    expect(listed.data.project.webhooks.nodes).toEqual([
      {
        deliveries: { nodes: [{ requestBody: null, responseBody: null }] },
        outbox: { nodes: [{ requestBody: null }] },
      },
    ]);
    const since = { created_after: '2020-01-01T00:00:00Z' };
    expect((await client.post(`${at}/deliveries/replay`, since)).body).toEqual({ count: 0 });
    await app().settle();
    expect(receiver.received).toHaveLength(1);

    expect(await shown(owner, at)).toEqual([1, 1]);
    expect((await app().as(owner).post(`${at}/deliveries/replay`, since)).body).toEqual({ count: 1 });
    await app().settle();
    expect(receiver.received).toHaveLength(2);
    // The new owner sees the deliveries of later events.
    await ok(client.post(`/projects/${project.id}/issues`, { title: 'The parting' }));
    await app().settle();
    const rows = (await client.get(`${at}/deliveries`)).body;
    expect(rows.map((row: { request_data: unknown }) => row.request_data)).toMatchObject([
      { object_attributes: { title: 'The parting' } },
      {},
    ]);
  });

  it('are no longer shown to the owners of a group that the project has left', async () => {
    const { make, as } = app();
    const [owner, second] = [await make.user(), await make.user()];
    const group = await make.group({ visibility: 'private' }, owner);
    const other = await make.group({ visibility: 'private' }, owner);
    await make.groupMember(group, second, 50);
    const toggles = { url: receiver.url, push_events: false, issues_events: true };
    const { body: hook } = await as(owner).post(`/groups/${group.id}/hooks`, toggles);
    const project = await make.project({ namespace_id: group.id, visibility: 'private' }, owner);
    await ok(as(owner).post(`/projects/${project.id}/issues`, { title: 'The merger' }));
    await app().settle();
    const at = `/groups/${group.id}/hooks/${hook.id}`;
    expect(await shown(second, at)).toEqual([1, 1]);
    await ok(as(owner).put(`/projects/${project.id}/transfer`, { namespace: other.id }));
    expect(await shown(second, at)).toEqual([0, 0]);
    expect(await shown(owner, at)).toEqual([1, 1]);
  });

  it('are shown to administrators only once the feature is disabled', async () => {
    const { owner, project, at } = await scene();
    await ok(app().as(owner).put(`/projects/${project.id}`, { issues_access_level: 'disabled' }));
    expect(await shown(owner, at)).toEqual([0, 0]);
    expect(await shown(app().root, at)).toEqual([1, 1]);
    await ok(app().as(owner).put(`/projects/${project.id}`, { issues_access_level: 'private' }));
    expect(await shown(owner, at)).toEqual([1, 1]);
  });

  it('are shown to administrators only if their event is no longer known', async () => {
    const { owner, at } = await scene();
    await sql`update webhook_payloads set moment = null`.execute(db());
    expect(await shown(owner, at)).toEqual([0, 0]);
    expect(await shown(app().root, at)).toEqual([1, 1]);
  });

  it('include tests, which new owners do not see after a move either', async () => {
    const { owner, newcomer, other, project, at } = await scene();
    await ok(app().as(owner).post(`${at}/test/issues_events`));
    expect(await shown(owner, at)).toEqual([2, 2]);
    await ok(app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: other.id }));
    expect(await shown(newcomer, at)).toEqual([0, 0]);
  });
});

describe('hooks', () => {
  it('do not receive the former title of an issue that was confidential', async () => {
    const { owner, project } = await scene();
    const issues = `/projects/${project.id}/issues`;
    const { body } = await app().as(owner).post(issues, { title: 'A hole', confidential: true });
    await ok(app().as(owner).put(`${issues}/${body.iid}`, { title: 'Repairs', confidential: false }));
    await app().settle();
    const bodies = receiver.received.map((each) => each.body);
    expect(bodies).toHaveLength(2);
    expect(bodies[1]).toMatchObject({ changes: { title: { current: 'Repairs' }, confidential: { previous: true } } });
    expect(JSON.stringify(bodies)).not.toContain('A hole');
  });
});
