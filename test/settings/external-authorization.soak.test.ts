import { createServer, type IncomingMessage, type Server } from 'node:http';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withClosedGroups } from '#domains/access/restrictions.ts';
import { classOf, readingsOf } from '#domains/events/visibility.ts';
import { mayEnter } from '#domains/external-authorization/service.ts';
import { runSchedule } from '#domains/schedules/jobs.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { pipelineScene } from '../ci/pipeline-scene.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner } from '../support/runner/queue.ts';

/** The part of a delivered issue that these tests read. */
interface Received {
  readonly object_attributes?: { readonly title: string };
}

const app = useApp();
const set = async (settings: Record<string, unknown>) => {
  const { status, body } = await app().as(app().root).put('/application/settings', settings);
  if (status !== 200) throw new Error(`the settings were not changed: ${JSON.stringify(body)}`);
};

/** The service of the operator: refuses the label `secret`, and does not answer about labels that start with `slow`. */
let service: Server;
let asked: Record<string, unknown>[] = [];
/** Runs before the service answers. */
let whileAsked: (() => Promise<unknown>) | null = null;
let address = '';
let turn = 0;
const read = async (request: IncomingMessage) => {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return JSON.parse(text);
};

beforeAll(async () => {
  service = createServer(async (request, response) => {
    const body = await read(request);
    asked.push(body);
    await whileAsked?.();
    if (String(body.project_classification_label).startsWith('slow')) return;
    response.statusCode = { secret: 403, broken: 500 }[String(body.project_classification_label)] ?? 200;
    response.end('{}');
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  const bound = service.address();
  address = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}/`;
});
afterAll(() => {
  service.closeAllConnections();
  service.close();
});
beforeEach(() => {
  asked = [];
  whileAsked = null;
});
afterEach(() =>
  set({ external_authorization_service_enabled: false, allow_local_requests_from_web_hooks_and_services: false }),
);

const turnOn = (settings: Record<string, unknown> = {}) =>
  set({
    external_authorization_service_enabled: true,
    // A service that failed is not asked again for a while, so each turn has a URL of its own.
    external_authorization_service_url: `${address}${++turn}`,
    external_authorization_service_default_label: 'usual',
    external_authorization_service_timeout: 5,
    allow_local_requests_from_web_hooks_and_services: true,
    ...settings,
  });
const project = async (owner: TestUser, label: string, attributes: Record<string, unknown> = {}) => {
  const made = await app().make.project({ initialize_with_readme: true, ...attributes }, owner);
  const body = { external_authorization_classification_label: label };
  expect((await app().as(app().root).put(`/projects/${made.id}`, body)).status).toBe(200);
  return made;
};

describe('external_authorization_service_enabled', () => {
  it('hides projects that the service does not open, everywhere', async () => {
    const owner = await app().make.user();
    const [open, secret] = [await project(owner, ''), await project(owner, 'secret', { visibility: 'public' })];
    const client = app().as(owner);
    const basic = Buffer.from(`oauth2:${await app().tokenOf(owner)}`).toString('base64');
    const seen = async ({ id, path_with_namespace }: typeof open) => {
      const git = await fetch(`${app().url}/${path_with_namespace}.git/info/refs?service=git-upload-pack`, {
        headers: { authorization: `Basic ${basic}` },
      });
      const { data } = await client.graphql(`{ project(fullPath: "${path_with_namespace}") { id } }`);
      return [(await client.get(`/projects/${id}`)).status, data.project !== null, git.status];
    };
    const listed = async (query: string) => {
      const { body, headers } = await client.get(`/projects?${query}`);
      return [body.map(({ id }: { id: number }) => id).sort(), headers.get('x-total')];
    };
    const issue = await client.post(`/projects/${secret.id}/issues`, { title: 'x' });
    const issues = async () => (await client.get('/issues?scope=all')).body.map(({ id }: { id: number }) => id);
    const everything = [[open.id, secret.id], '2'];
    expect([await seen(open), await seen(secret)]).toEqual([
      [200, true, 200],
      [200, true, 200],
    ]);
    expect(await listed('membership=true')).toEqual(everything);
    expect(await issues()).toContain(issue.body.id);
    await turnOn();
    expect([await seen(open), await seen(secret)]).toEqual([
      [200, true, 200],
      [404, false, 404],
    ]);
    for (const query of ['membership=true', 'owned=true', 'min_access_level=30', 'visibility=public', '']) {
      const [ids] = await listed(query);
      expect([query, ids]).not.toEqual([query, expect.arrayContaining([secret.id])]);
    }
    expect(await listed('membership=true')).toEqual([[open.id], '1']);
    expect(await issues()).not.toContain(issue.body.id);
    expect((await app().anonymous.get(`/projects/${secret.id}`)).status).toBe(404);
    expect((await app().anonymous.get('/projects')).body).toEqual([]);
    expect((await app().as(app().root).get(`/projects/${secret.id}`)).status).toBe(200);
    // The service is asked once about each label.
    expect(asked.filter(({ user_identifier: user }) => user === `${owner.username}@example.com`)).toEqual(
      expect.arrayContaining([
        { user_identifier: `${owner.username}@example.com`, project_classification_label: 'usual', identities: [] },
        { user_identifier: `${owner.username}@example.com`, project_classification_label: 'secret', identities: [] },
      ]),
    );
    expect(asked).toHaveLength(2);
    // Further requests do not look up the answer about each label.
    const lookUps = () => {
      const { hits = 0, misses = 0 } = app().hub.services.caches.figures().get('external authorizations') ?? {};
      return hits + misses;
    };
    const before = lookUps();
    expect((await client.get('/user')).status).toBe(200);
    expect([before > 0, lookUps()]).toEqual([true, before]);
    await set({ external_authorization_service_enabled: false });
    expect(await listed('membership=true')).toEqual(everything);
  });

  it('hides events of such projects', async () => {
    const owner = await app().make.user();
    const [open, secret] = [await project(owner, ''), await project(owner, 'secret')];
    await turnOn();
    const { services } = app().hub;
    const actor = app().context(owner).actor;
    const [viewer = actor] = await withClosedGroups(services, [actor]);
    const moments = [open, secret].map(({ id }) => ({
      ...{ project_id: id, namespace_ids: [], visibility_level: null, min_access_level: null, user_ids: [] },
      ...{ about_people: false, ability: null, least: null, issue_id: null, other_project_id: null },
    }));
    const { rows } = await sql<{ id: number; namespace_id: number }>`
      select id, namespace_id from projects where id in (${open.id}, ${secret.id}) order by id`.execute(services.db);
    const placed = moments.map((moment, index) => ({ ...moment, namespace_ids: [rows[index]?.namespace_id ?? 0] }));
    const readable = async (who: typeof actor) =>
      (await readingsOf(app().context(), [classOf(who)], placed)).map(({ moment }) => moment);
    expect([await readable(actor), await readable(viewer)]).toEqual([[0, 1], [0]]);
  });

  it('hides deliveries about such projects from people who administer the hook of a group', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    await set({ allow_local_requests_from_web_hooks_and_services: true });
    const group = await app().make.group({}, owner);
    const hook = await client.post(`/groups/${group.id}/hooks`, {
      url: address,
      push_events: false,
      issues_events: true,
    });
    for (const label of ['', 'secret']) {
      const { id } = await project(owner, label, { namespace_id: group.id });
      expect((await client.post(`/projects/${id}/issues`, { title: `about ${label || 'usual'}` })).status).toBe(201);
    }
    const shown = async () => {
      const { body } = await client.get(`/groups/${group.id}/hooks/${hook.body.id}/deliveries`);
      return body.map(({ request_data: data }: { request_data: Received }) => data.object_attributes?.title ?? null);
    };
    await app().settle();
    expect(await shown()).toEqual(['about secret', 'about usual']);
    await turnOn();
    expect(await shown()).toEqual([null, 'about usual']);
  });

  it('closes such projects to work without a request, as pipelines by push', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const secret = await project(owner, 'secret');
    const part = { branch: 'main', content: 'inner: {script: [x]}', commit_message: 'x' };
    expect((await client.post(`/projects/${secret.id}/repository/files/part.yml`, part)).status).toBe(201);
    const including = `include: {project: ${secret.path_with_namespace}, file: part.yml}`;
    const scene = await pipelineScene(app(), including, {}, owner);
    /** The errors of the newest pipeline by push. */
    const run = async () => {
      await scene.change();
      const [{ id } = { id: 0 }] = await scene.pipelines('?source=push');
      const { body } = await client.get(`${scene.path}/pipelines/${id}`);
      return body.yaml_errors;
    };
    expect(await run()).toBeNull();
    await turnOn();
    expect(await run()).toContain('not found or access denied!');
  });

  it('is asked about `needs:project` while no transaction holds the job', async () => {
    const owner = await app().make.user();
    const secret = await project(owner, 'secret');
    const needed = `{project: ${secret.path_with_namespace}, ref: main, job: x, artifacts: true}`;
    const scene = await pipelineScene(app(), `use: {script: [x], needs: [${needed}]}`, {}, owner);
    const { id } = await scene.newest();
    const job = (await scene.jobs(id)).use?.id ?? 0;
    const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: scene.project.id });
    await turnOn();
    const free: boolean[] = [];
    whileAsked = async () => {
      const { db } = app().hub.services;
      const { rows } = await sql`select id from jobs where id = ${job} for update skip locked`.execute(db);
      free.push(rows.length === 1);
    };
    expect(await new Protocol({ url: app().url, token }).request()).toBeNull();
    expect(asked).not.toEqual([]);
    expect(free).toEqual(asked.map(() => true));
    expect((await scene.jobs(id)).use).toMatchObject({ failure_reason: 'missing_dependency_failure' });
  });

  it.each([
    ['answers an error', 'broken', {}],
    ['does not answer in time', 'slow', { external_authorization_service_timeout: 0.2 }],
    ['may not be reached', 'other', { allow_local_requests_from_web_hooks_and_services: false }],
    ['is not there', 'other', { external_authorization_service_url: 'http://127.0.0.1:1/' }],
  ])('closes projects if the service %s', async (_what, label, settings) => {
    const owner = await app().make.user();
    const { id } = await project(owner, '');
    await turnOn({ external_authorization_service_default_label: label, ...settings });
    expect((await app().as(owner).get(`/projects/${id}`)).status).toBe(404);
    expect((await app().as(owner).get('/user')).status).toBe(200);
    // The projects of other tests have the label `secret`.
    const labels = asked.map((each) => each.project_classification_label).filter((each) => each !== 'secret');
    expect(labels).toEqual(label === 'other' ? [] : [label]);
  });

  it('lets people give projects only labels that are open to them', async () => {
    const owner = await app().make.user();
    const { id } = await project(owner, '');
    await turnOn();
    const label = (name: string) => ({ external_authorization_classification_label: name });
    const refused = await app().as(owner).put(`/projects/${id}`, label('secret'));
    expect([refused.status, refused.body.message]).toEqual([
      400,
      { external_authorization_classification_label: ['is not a label that is open to you'] },
    ]);
    const created = await app()
      .as(owner)
      .post('/projects', { name: 'labelled', ...label('secret') });
    expect(created.status).toBe(400);
    expect((await app().as(owner).put(`/projects/${id}`, label(''))).status).toBe(200);
  });

  it('is asked about nothing else once it has not answered some requests in a row', async () => {
    await turnOn({ external_authorization_service_timeout: 0.3 });
    const { services } = app().hub;
    const ask = async (label: string, id = 1) =>
      (await mayEnter(services, await getSettings({ services }), { id, email: 'x@example.com', identities: [] }, label))
        .isOpen;
    expect([await ask('slow'), await ask('slow 2'), await ask('usual')]).toEqual([false, false, true]);
    for (const label of ['slow 3', 'slow 4', 'slow 5']) expect(await ask(label)).toBe(false);
    asked = [];
    expect([await ask('usual', 2), await ask('other'), await ask('usual'), asked]).toEqual([false, false, true, []]);
    // If many questions come at once, those that wait for their turn are not asked any more.
    await turnOn({ external_authorization_service_timeout: 0.3 });
    asked = [];
    const answers = await Promise.all(Array.from({ length: 60 }, (_, index) => ask(`slow ${index}`)));
    expect(answers.includes(true)).toBe(false);
    expect(asked.length).toBeLessThanOrEqual(32 + 2);
  });

  it('delays work in the background while it does not answer, instead of ending it', async () => {
    const owner = await app().make.user();
    const scheduled = async (label: string) => {
      const { id } = await project(owner, label);
      const schedules = `/projects/${id}/pipeline_schedules`;
      const given = { description: 'Nightly', ref: 'main', cron: '0 1 * * *' };
      const { body: schedule } = await app().as(owner).post(schedules, given);
      await app()
        .hub.services.db.updateTable('pipeline_schedules')
        .set({ next_run_at: '2020-01-01T00:00:00Z' })
        .where('id', '=', schedule.id)
        .execute();
      return {
        run: () => runSchedule.run(app().context(), { id: schedule.id }, { attempt: 1, lastAttempt: false }),
        isActive: async () => (await app().as(app().root).get(`${schedules}/${schedule.id}`)).body.active,
      };
    };
    const [unanswered, open] = [await scheduled(''), await scheduled('open')];
    await turnOn({ external_authorization_service_timeout: 0.2, external_authorization_service_default_label: 'slow' });
    await expect(unanswered.run()).rejects.toThrow('The external authorization service has not answered');
    // Other projects do not wait.
    await open.run();
    expect([await unanswered.isActive(), await open.isActive()]).toEqual([true, true]);
    await turnOn({ external_authorization_service_default_label: 'secret' });
    await unanswered.run();
    expect(await unanswered.isActive()).toBe(false);
  });

  it('requires an address and a default label', async () => {
    await set({ external_authorization_service_url: '', external_authorization_service_default_label: '' });
    const { status, body } = await app()
      .as(app().root)
      .put('/application/settings', { external_authorization_service_enabled: true });
    expect([status, Object.keys(body.message).sort()]).toEqual([
      400,
      ['external_authorization_service_default_label', 'external_authorization_service_url'],
    ]);
  });
});
