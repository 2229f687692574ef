import { beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, MAINTAINER } from '#domains/access/model.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { Receiver } from './receiver.ts';

const app = useApp();
const root = () => app().as(app().root);
const db = () => app().hub.services.db;
let receiver: Receiver;
let maintainer: TestUser;
let group: TestGroup;
let project: TestProject;
beforeAll(async () => {
  await root().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  maintainer = await app().make.user();
  group = await app().make.group();
  project = await app().make.project({ namespace_id: group.id });
  await app().make.projectMember(project, maintainer, MAINTAINER);
  return () => receiver[Symbol.asyncDispose]();
});
const at = (rest = '') => `/projects/${project.id}/hooks${rest}`;
const make = async (attributes: Record<string, unknown> = {}) => {
  const { status, body } = await app()
    .as(maintainer)
    .post(at(), { url: receiver.url, push_events: false, ...attributes });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body;
};

describe('a project hook', () => {
  it('is created, read, changed and removed by Maintainers, without the toggles of groups', async () => {
    const made = await make({ issues_events: true, token: 'a-secret', subgroup_events: true });
    expect(made.signing_token).toMatch(/^whsec_/);
    const { body } = await app()
      .as(maintainer)
      .get(at(`/${made.id}`));
    expect(body).toMatchObject({ id: made.id, project_id: project.id, issues_events: true, milestone_events: false });
    for (const absent of ['group_id', 'subgroup_events', 'member_events', 'project_events', 'token', 'signing_token'])
      expect(body).not.toHaveProperty(absent);
    const changed = await app()
      .as(maintainer)
      .put(at(`/${made.id}`), { url: receiver.url, name: 'CI', note_events: true });
    expect(changed.body).toMatchObject({ name: 'CI', note_events: true, issues_events: true });
    expect(
      (
        await app()
          .as(maintainer)
          .put(at(`/${made.id}/custom_headers/X-Key`), { value: 'v' })
      ).status,
    ).toBe(204);
    expect((await app().as(maintainer).get(at())).body.map(({ id }: { id: number }) => id)).toContain(made.id);
    for (const status of [204, 204])
      expect(
        (
          await app()
            .as(maintainer)
            .delete(at(`/${made.id}`))
        ).status,
      ).toBe(status);
  });

  it('is created from a form that has a toggle twice, as gitlab4j writes it', async () => {
    const form = new URLSearchParams({ url: receiver.url, push_events: 'false', deployment_events: 'true' });
    form.append('deployment_events', 'true');
    const client = app().as(maintainer);
    const made = await client.post(at(), form);
    expect([made.status, made.body]).toMatchObject([201, { push_events: false, deployment_events: true }]);
    form.append('deployment_events', 'false');
    expect(await client.put(at(`/${made.body.id}`), form)).toMatchObject({
      status: 400,
      body: { error: 'deployment_events is given more than once' },
    });
    expect((await client.get(at(`/${made.body.id}`))).body).toEqual({ ...made.body, signing_token: undefined });
    await client.delete(at(`/${made.body.id}`));
  });

  it('receives only events of its project, which hooks of parent groups receive once as well', async () => {
    const hook = await make({ issues_events: true });
    await root().post(`/groups/${group.id}/hooks`, {
      url: `${receiver.url}/group`,
      push_events: false,
      issues_events: true,
    });
    const other = await app().make.project({ namespace_id: group.id });
    await root().post(`/projects/${project.id}/issues`, { title: 'Here' });
    await root().post(`/projects/${other.id}/issues`, { title: 'There' });
    await app().settle();
    const got = receiver.received.map(({ path, body }) => `${path} ${body.object_attributes.title}`).sort();
    expect(got).toEqual(['/hook Here', '/hook/group Here', '/hook/group There']);
    const { body: events } = await app()
      .as(maintainer)
      .get(at(`/${hook.id}/events`));
    expect(events).toMatchObject([{ trigger: 'issue_hooks', response_status: '200' }]);
    const resent = await app()
      .as(maintainer)
      .post(at(`/${hook.id}/events/${events[0].id}/resend`));
    expect([resent.status, resent.body]).toEqual([201, { response_status: 200 }]);
    const tested = await app()
      .as(maintainer)
      .post(at(`/${hook.id}/test/issues_events`));
    expect(tested.status).toBe(201);
    expect(receiver.received.at(-1)?.body.object_attributes.title).toBe('Here');
  });

  it('is available only to Maintainers of its project', async () => {
    const made = await make();
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, DEVELOPER);
    const outsider = await app().make.user();
    const one = at(`/${made.id}`);
    const uuid = '00000000-0000-4000-8000-000000000000';
    const requests = [
      ['GET', at(), undefined],
      ['POST', at(), { url: receiver.url }],
      ['GET', one, undefined],
      ['PUT', one, { url: `${receiver.url}/stolen` }],
      ['DELETE', one, undefined],
      ['POST', `${one}/test/push_events`, undefined],
      ['POST', `${one}/enable`, undefined],
      ['POST', `${one}/signing_token/rotate`, undefined],
      ['PUT', `${one}/custom_headers/a`, { value: 'b' }],
      ['DELETE', `${one}/url_variables/a`, undefined],
      ['GET', `${one}/events`, undefined],
      ['GET', `${one}/events/1`, undefined],
      ['POST', `${one}/events/1/resend`, undefined],
      ['GET', `${one}/deliveries`, undefined],
      ['GET', `${one}/deliveries/${uuid}`, undefined],
      ['POST', `${one}/deliveries/${uuid}/cancel`, undefined],
      ['POST', `${one}/deliveries/replay`, { failed_since: '2020-01-01T00:00:00Z' }],
      ['GET', `${one}/statistics`, undefined],
    ] as const;
    for (const [method, path, body] of requests) {
      const statuses = [app().anonymous, app().as(outsider), app().as(developer)].map(
        async (client) => (await client.request(method, path, body)).status,
      );
      expect([path, await Promise.all(statuses)]).toEqual([path, [401, 404, 403]]);
    }
    const elsewhere = await app().make.project({}, maintainer);
    expect((await app().as(maintainer).get(`/projects/${elsewhere.id}/hooks/${made.id}`)).status).toBe(404);
    expect((await app().as(maintainer).get(one)).body.url).toBe(receiver.url);
  });

  it('is limited to a hundred per project', async () => {
    const full = await app().make.project({}, maintainer);
    await db()
      .insertInto('webhooks')
      .values(Array.from({ length: 99 }, () => ({ project_id: full.id, url: receiver.url })))
      .execute();
    const answers = await Promise.all(
      [1, 2, 3].map(() => app().as(maintainer).post(`/projects/${full.id}/hooks`, { url: receiver.url })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 422, 422]);
    expect(answers.find(({ status }) => status === 422)?.body.message.base).toEqual([
      'Maximum number of project hooks (100) exceeded',
    ]);
  });

  it('follows the same rules over GraphQL', async () => {
    const as = app().as(maintainer);
    const created = await as.graphql(
      `mutation ($p: ID!, $u: String!) { projectWebhookCreate(input: { projectPath: $p, url: $u, events: [NOTE_EVENTS] }) {
        errors signingToken webhook { __typename id url events alertStatus } } }`,
      { p: project.path_with_namespace, u: receiver.url },
    );
    const { webhook, signingToken } = created.data.projectWebhookCreate;
    expect(webhook).toEqual({
      __typename: 'ProjectWebhook',
      id: expect.stringMatching(/^gid:\/\/gitlab\/ProjectHook\/\d+$/),
      url: receiver.url,
      events: ['NOTE_EVENTS'],
      alertStatus: 'EXECUTABLE',
    });
    expect(signingToken).toMatch(/^whsec_/);
    const refused = await as.graphql(
      `mutation ($id: WebHookID!) { projectWebhookUpdate(input: { id: $id, events: [SUBGROUP_EVENTS] }) { errors } }`,
      { id: webhook.id },
    );
    expect(JSON.stringify(refused)).toContain('cannot be enabled for a hook of a project');
    const foreign = await as.graphql(
      `mutation ($id: WebHookID!) { groupWebhookDestroy(input: { id: $id }) { errors } }`,
      {
        id: webhook.id,
      },
    );
    expect(foreign.errors).toHaveLength(1);
    const list = `query ($p: ID!) { project(fullPath: $p) { webhooks(first: 50) { nodes { id statistics { attempts } } } } }`;
    const seen = await as.graphql(list, { p: project.path_with_namespace });
    expect(seen.data.project.webhooks.nodes).toContainEqual({ id: webhook.id, statistics: { attempts: 0 } });
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, DEVELOPER);
    const hidden = await app().as(developer).graphql(list, { p: project.path_with_namespace });
    expect(hidden.data.project.webhooks).toBeNull();
    const destroyed = await as.graphql(
      `mutation ($id: WebHookID!) { projectWebhookDestroy(input: { id: $id }) { errors } }`,
      { id: webhook.id },
    );
    expect(destroyed.data.projectWebhookDestroy.errors).toEqual([]);
  });
});
