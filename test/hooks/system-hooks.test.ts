import { beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { type Received, Receiver } from './receiver.ts';

const app = useApp();
const root = () => app().as(app().root);
let receiver: Receiver;
beforeAll(async () => {
  await root().put('/application/settings', { allow_local_requests_from_system_hooks: true });
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});

/** Waits for a request about this, and returns it. */
const arrival = (what: string, wanted: (each: Received) => boolean): Promise<Received> =>
  until(what, async () => receiver.received.find(wanted));

/** Creates a user as administrators do. */
const createUser = async (username: string) => {
  const { status, body } = await root().post('/users', {
    username,
    name: username,
    email: `${username}@example.com`,
    password: 'correct horse battery',
    skip_confirmation: true,
  });
  expect(status).toBe(201);
  return body;
};

describe('system hooks', () => {
  it('take every attribute on creation and on change', async () => {
    const flags = {
      enable_ssl_verification: false,
      merge_requests_events: true,
      repository_update_events: false,
      tag_push_events: true,
    };
    const signing_token = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    const made = await root().post('/hooks', { url: receiver.url, signing_token, ...flags });
    expect(made).toMatchObject({ status: 201, body: { push_events: false, ...flags } });
    const at = `/hooks/${made.body.id}`;
    const change = {
      description: 'Of all projects',
      push_events: true,
      push_events_branch_filter: '^main$',
      branch_filter_strategy: 'regex',
    };
    const lists = { custom_headers: [{ key: 'X-B', value: 'b' }], url_variables: [{ key: 'u', value: 'x' }] };
    expect(await root().put(at, { ...change, ...lists, token: 'other' })).toMatchObject({
      status: 200,
      body: { ...flags, ...change, custom_headers: [{ key: 'X-B' }], url_variables: [{ key: 'u' }] },
    });
    await root().delete(at);
  });

  it('are administered by administrators only', async () => {
    const { url } = receiver;
    const made = await root().post('/hooks', {
      url,
      name: 'All',
      description: 'Of the instance',
      token: 'secret',
      push_events: true,
      push_events_branch_filter: 'main',
      branch_filter_strategy: 'wildcard',
      custom_headers: [{ key: 'X-A', value: 'a' }],
      url_variables: [{ key: 'v', value: 'w' }],
    });
    expect(made).toMatchObject({
      status: 201,
      body: {
        url,
        name: 'All',
        description: 'Of the instance',
        push_events: true,
        tag_push_events: false,
        merge_requests_events: false,
        repository_update_events: true,
        push_events_branch_filter: 'main',
        enable_ssl_verification: true,
        alert_status: 'executable',
        custom_headers: [{ key: 'X-A' }],
        url_variables: [{ key: 'v' }],
        signing_token: expect.stringMatching(/^whsec_/),
      },
    });
    expect(JSON.stringify(made.body)).not.toContain('secret');
    const at = `/hooks/${made.body.id}`;
    const { signing_token: _once, ...record } = made.body;
    expect((await root().get(at)).body).toEqual(record);
    expect((await root().get('/hooks')).body).toContainEqual(record);
    const own = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    const change = {
      url: `${url}/new`,
      signing_token: own,
      enable_ssl_verification: false,
      tag_push_events: true,
      merge_requests_events: true,
      repository_update_events: false,
    };
    expect(await root().put(at, change)).toMatchObject({
      status: 200,
      body: {
        url: `${url}/new`,
        name: 'All',
        enable_ssl_verification: false,
        push_events: true,
        tag_push_events: true,
        merge_requests_events: true,
        repository_update_events: false,
        // A new receiver gets no secrets of the old one.
        custom_headers: [],
      },
    });
    expect((await root().post('/hooks', { url: 'ftp://example.com' })).status).toBe(422);

    const user = app().as(await app().make.user());
    const before = (await root().get('/hooks')).body;
    for (const [client, status] of [
      [user, 403],
      [app().anonymous, 401],
    ] as const) {
      expect((await client.get('/hooks')).status).toBe(status);
      expect((await client.get(at)).status).toBe(status);
      expect((await client.post('/hooks', { url })).status).toBe(status);
      expect((await client.post(at)).status).toBe(status);
      expect((await client.put(at, { name: 'Mine' })).status).toBe(status);
      expect((await client.delete(at)).status).toBe(status);
    }
    expect((await root().get('/hooks')).body).toEqual(before);
    expect((await root().delete(at)).status).toBe(204);
    expect((await root().get(at)).status).toBe(404);
    expect((await root().put(at, { name: 'Gone' })).status).toBe(404);
  });

  it('are not those of groups and projects', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const { body: system } = await root().post('/hooks', { url: receiver.url });
    // The setting of hooks of the instance opens local addresses to them only.
    expect((await root().post(`/groups/${group.id}/hooks`, { url: receiver.url })).status).toBe(422);
    const { body: hook } = await root().post(`/groups/${group.id}/hooks`, { url: 'https://hooks.invalid/' });
    expect((await root().get(`/hooks/${hook.id}`)).status).toBe(404);
    expect((await root().get(`/groups/${group.id}/hooks/${system.id}`)).status).toBe(404);
    for (const [at, id] of [
      ['/hooks', system.id],
      [`/groups/${group.id}/hooks`, hook.id],
    ])
      await root().delete(`${at}/${id}`);
  });

  it('send a sample as a test', async () => {
    const { body: hook } = await root().post('/hooks', { url: receiver.url, token: 'the-token' });
    const tested = await root().post(`/hooks/${hook.id}`);
    expect(tested).toMatchObject({ status: 201, body: { event_name: 'project_create', project_id: 1 } });
    expect(receiver.received.at(-1)).toMatchObject({
      body: tested.body,
      headers: { 'x-gitlab-event': 'System Hook', 'x-gitlab-token': 'the-token' },
    });
    receiver.answer = 500;
    expect((await root().post(`/hooks/${hook.id}`)).status).toBe(422);
    receiver.answer = 200;
    await root().delete(`/hooks/${hook.id}`);
  });

  it('receive events of users, groups, projects, members and pushes everywhere', async () => {
    const { body: hook } = await root().post('/hooks', { url: receiver.url, push_events: true });
    const of = (name: string, field: string, id: number) =>
      arrival(name, ({ body }) => body?.event_name === name && body[field] === id);
    const owner = await app().make.user();
    const client = app().as(owner);
    const member = await createUser('newcomer');
    expect((await of('user_create', 'user_id', member.id)).body).toMatchObject({
      username: 'newcomer',
      email: 'newcomer@example.com',
    });
    const { body: group } = await client.post('/groups', { name: 'Secret', path: `secret-${owner.id}` });
    expect((await of('group_create', 'group_id', group.id)).body).toMatchObject({ full_path: group.full_path });
    const { body: below } = await client.post('/groups', { name: 'Sub', path: 'sub', parent_id: group.id });
    await of('subgroup_create', 'group_id', below.id);
    const { body: project } = await client.post('/projects', {
      path: 'private',
      namespace_id: group.id,
      visibility: 'private',
      initialize_with_readme: true,
    });
    const created = await of('project_create', 'project_id', project.id);
    expect(created.headers['x-gitlab-event']).toBe('System Hook');
    await client.post(`/groups/${group.id}/members`, { user_id: member.id, access_level: 10 });
    await of('user_add_to_group', 'user_id', member.id);
    await client.post(`/projects/${project.id}/members`, { user_id: member.id, access_level: 30 });
    expect((await of('user_add_to_team', 'user_id', member.id)).body).toMatchObject({
      project_id: project.id,
      access_level: 'Developer',
      user_username: member.username,
    });
    await client.put(`/projects/${project.id}/members/${member.id}`, { access_level: 40 });
    expect((await of('user_update_for_team', 'user_id', member.id)).body.access_level).toBe('Maintainer');
    await client.delete(`/projects/${project.id}/members/${member.id}`);
    await of('user_remove_from_team', 'user_id', member.id);
    await client.post(`/projects/${project.id}/repository/branches`, { branch: 'topic', ref: 'main' });
    await arrival('the push', ({ body }) => body?.object_kind === 'push' && body.project_id === project.id);
    await of('repository_update', 'project_id', project.id);
    await root().delete(`/users/${member.id}?hard_delete=true`);
    expect((await of('user_destroy', 'user_id', member.id)).body).toMatchObject({ username: member.username });
    // The issues of a private project are not among what it listens to.
    await client.post(`/projects/${project.id}/issues`, { title: 'Private' });
    await app().settle();
    expect(receiver.received.filter(({ body }) => body?.object_kind === 'issue')).toEqual([]);
    await root().delete(`/hooks/${hook.id}`);
  });

  it('are disabled after failures like others', async () => {
    receiver.answer = 410;
    const { body: hook } = await root().post('/hooks', { url: receiver.url });
    await createUser('another');
    await until('the hook is disabled', async () =>
      (await root().get(`/hooks/${hook.id}`)).body.alert_status === 'disabled' ? true : null,
    );
    receiver.answer = 200;
    expect((await root().put(`/hooks/${hook.id}`, { name: 'Again' })).body.alert_status).toBe('executable');
    await root().delete(`/hooks/${hook.id}`);
  });
});
