import { beforeAll, describe, expect, it } from 'vitest';
import { stopDueEnvironments } from '#domains/environments/jobs.ts';
import { guessTier, slugOf } from '#domains/environments/model.ts';
import { Receiver } from '../hooks/receiver.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { mutate } from '../support/graphql.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner } from '../support/runner/queue.ts';
import { until } from '../support/until.ts';
import { environment, finish, run, startPipeline, type TestJob } from './support.ts';

const app = useApp();
let receiver: Receiver;
beforeAll(async () => {
  const settings = { allow_local_requests_from_web_hooks_and_services: true };
  await app().as(app().root).put('/application/settings', settings);
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});

const scene = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private', initialize_with_readme: true }, owner);
  const developer = await app().make.user();
  await app().make.projectMember(project, developer, 30);
  const reporter = await app().make.user();
  await app().make.projectMember(project, reporter, 20);
  const url = `/projects/${project.id}`;
  const [branch] = (await app().as(owner).get(`${url}/repository/branches`)).body;
  const at = { project_id: project.id, sha: branch.commit.id, ref: branch.name, user_id: owner.id };
  return {
    ...{ project, url, at },
    owner: app().as(owner),
    developer: app().as(developer),
    reporter: app().as(reporter),
    stranger: app().as(await app().make.user()),
    start: (...jobs: readonly TestJob[]) => startPipeline(app(), at, jobs),
  };
};

const eventsOf = async (projectId: number): Promise<string[]> => {
  const { rows } = await app().hub.services.pool.query(
    "select kind from events where project_id = $1 and subject_type in ('Environment', 'Deployment') order by id",
    [projectId],
  );
  return rows.map(({ kind }) => kind);
};

describe('an environment', () => {
  it('is created, listed, changed, stopped and deleted', async () => {
    const { url, developer, reporter, project } = await scene();
    const environments = `${url}/environments`;
    const created = await developer.post(environments, {
      ...{ name: 'review/Fix-1', external_url: 'https://fix.example.com', description: 'A try' },
    });
    expect(created).toMatchObject({
      status: 201,
      body: {
        ...{ name: 'review/Fix-1', slug: slugOf('review/Fix-1'), state: 'available', tier: 'development' },
        ...{ external_url: 'https://fix.example.com', description: 'A try', auto_stop_at: null, last_deployment: null },
      },
    });
    const one = `${environments}/${created.body.id}`;
    const changes = { external_url: 'https://other.example.com', tier: 'staging', description: 'Another' };
    expect(await developer.put(one, changes)).toMatchObject({ status: 200, body: changes });
    await developer.put(one, { external_url: null });
    expect((await reporter.get(one)).body).toMatchObject({ external_url: null, tier: 'staging' });
    await developer.post(environments, { name: 'production', tier: 'other' });
    const names = async (query: string) =>
      (await reporter.get(`${environments}?${query}`)).body.map((each: { name: string }) => each.name);
    expect(await names('')).toEqual(['review/Fix-1', 'production']);
    expect(await names('name=production')).toEqual(['production']);
    expect(await names('search=fix')).toEqual(['review/Fix-1']);
    expect(await names('states=stopped')).toEqual([]);
    expect((await reporter.get(`${environments}?search=fi`)).status).toBe(400);
    expect((await developer.delete(one)).status).toBe(403);
    expect(await developer.post(`${one}/stop`)).toMatchObject({ status: 200, body: { state: 'stopped' } });
    expect((await developer.post(`${one}/stop`, { force: true })).status).toBe(200);
    expect(await names('states=stopped')).toEqual(['review/Fix-1']);
    expect((await developer.delete(one)).status).toBe(204);
    expect(await reporter.get(one)).toMatchObject({ status: 404, body: { message: '404 Environment Not Found' } });
    expect(await eventsOf(project.id)).toEqual([
      ...['environment.created', 'environment.updated', 'environment.updated', 'environment.created'],
      ...['environment.updated', 'environment.deleted'],
    ]);
  });

  it('is refused with the reason if it is invalid', async () => {
    const { url, developer } = await scene();
    await developer.post(`${url}/environments`, { name: 'taken' });
    const cases = [
      [{ name: 'taken' }, 'name'],
      [{ name: '' }, 'name'],
      [{ name: '/slash' }, 'name'],
      [{ name: 'n'.repeat(256) }, 'name'],
      [{ name: 'a;b' }, 'name'],
      [{ name: 'a', external_url: 'javascript:alert(1)' }, 'external_url'],
      [{ name: 'a', external_url: `https://a.example/${'x'.repeat(255)}` }, 'external_url'],
      [{ name: 'a', description: 'd'.repeat(10_001) }, 'description'],
    ] as const;
    for (const [body, field] of cases) {
      const answer = await developer.post(`${url}/environments`, body);
      expect([body, answer.status, Object.keys(answer.body.message)]).toEqual([body, 400, [field]]);
    }
    expect((await developer.post(`${url}/environments`, { name: 'a', tier: 'moon' })).status).toBe(400);
    expect((await developer.get(`${url}/environments`)).body).toHaveLength(1);
  });

  it('is only changed by developers, and only seen by those who see pipelines', async () => {
    const { url, developer, reporter, stranger, at } = await scene();
    const { body } = await developer.post(`${url}/environments`, { name: 'a' });
    const one = `${url}/environments/${body.id}`;
    const report = { environment: 'b', sha: at.sha, ref: at.ref, tag: false, status: 'success' };
    for (const [client, status] of [
      [reporter, 403],
      [stranger, 404],
      [app().anonymous, 401],
    ] as const) {
      const answers = [
        await client.put(one, { tier: 'other' }),
        await client.post(`${one}/stop`),
        await client.delete(one),
        await client.post(`${url}/environments`, { name: 'b' }),
        await client.post(`${url}/deployments`, report),
      ];
      expect(answers.map((answer) => answer.status)).toEqual(Array(5).fill(status));
    }
    expect((await developer.post(`${url}/environments/stop_stale`, { before: '2030-01-01' })).status).toBe(403);
    expect((await stranger.get(`${url}/environments`)).status).toBe(404);
    expect((await stranger.get(`${url}/deployments`)).status).toBe(404);
    expect((await reporter.get(one)).body.state).toBe('available');
    const other = await scene();
    expect((await other.developer.get(`${other.url}/environments/${body.id}`)).status).toBe(404);
  });

  it('is stopped by maintainers if it was not used for long', async () => {
    const { url, owner } = await scene();
    await owner.post(`${url}/environments`, { name: 'old' });
    expect((await owner.post(`${url}/environments/stop_stale`, { before: '2020-01-01' })).status).toBe(200);
    expect((await owner.get(`${url}/environments`)).body[0].state).toBe('available');
    expect((await owner.post(`${url}/environments/stop_stale`, { before: '2100-01-01' })).status).toBe(200);
    expect((await owner.get(`${url}/environments`)).body[0].state).toBe('stopped');
  });

  it('has a slug for host names, and a tier that its name suggests', () => {
    expect(slugOf('production')).toBe('production');
    expect(slugOf('1-a')).toMatch(/^env-1-a-[a-z0-9]{6}$/);
    expect(slugOf('Review/A')).not.toBe(slugOf('review/a'));
    expect(slugOf('review/a-very-long-name-of-a-branch')).toMatch(/^[a-z0-9-]{1,24}$/);
    expect(['prod', 'staging', 'qa', 'review/a', 'x'].map(guessTier)).toEqual([
      ...['production', 'staging', 'testing', 'development', 'other'],
    ]);
  });
});

describe('a deployment of a job', () => {
  it('follows its job, changes the environment, and is reported to hooks', async () => {
    const { url, owner, reporter, start, project, at } = await scene();
    const hook = { url: `${receiver.url}/of-${project.id}`, deployment_events: true, push_events: false };
    expect((await owner.post(`${url}/hooks`, hook)).status).toBe(201);
    const place = environment('review/x', {
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference in the CI file
      url: 'https://${CI_ENVIRONMENT_SLUG}.example.com/$CI_COMMIT_REF_NAME/$PAGE',
      ...{ deployment_tier: 'staging', auto_stop_in: 3_600 },
    });
    const { jobs } = await start({
      ...{ name: 'deploy', environment: place },
      variables: [{ key: 'PAGE', value: 'start', raw: false }],
    });
    const [id = 0] = jobs;
    await app().settle();
    const listed = async () => (await reporter.get(`${url}/deployments`)).body;
    expect(await listed()).toMatchObject([{ status: 'created', iid: 1, deployable: { id, name: 'deploy' } }]);
    await run(app(), id);
    await app().settle();
    expect(await listed()).toMatchObject([{ status: 'running', environment: { name: 'review/x' } }]);
    await finish(app(), id);
    await app().settle();
    const [deployment] = await listed();
    expect(deployment).toMatchObject({ status: 'success', sha: at.sha, ref: at.ref, user: { id: at.user_id } });
    const [found] = (await reporter.get(`${url}/environments?name=review/x`)).body;
    expect(found).toMatchObject({
      ...{ state: 'available', tier: 'staging', auto_stop_at: expect.stringContaining('T') },
      external_url: `https://${slugOf('review/x')}.example.com/${at.ref}/start`,
    });
    expect((await reporter.get(`${url}/environments/${found.id}`)).body.last_deployment.id).toBe(deployment.id);
    expect((await reporter.get(`${url}/deployments/${deployment.id}`)).body).toEqual(deployment);
    const delivered = () => receiver.received.filter(({ path }) => path.endsWith(`/of-${project.id}`));
    await until('two deliveries', () => delivered().length === 2);
    expect(
      delivered()
        .map(({ body }) => body.status)
        .toSorted(),
    ).toEqual(['running', 'success']);
    const last = delivered().find(({ body }) => body.status === 'success');
    expect(last?.headers['x-gitlab-event']).toBe('Deployment Hook');
    expect(last?.body).toMatchObject({
      ...{ object_kind: 'deployment', deployment_id: deployment.id, deployable_id: id, environment: 'review/x' },
      ...{ environment_tier: 'staging', environment_slug: slugOf('review/x'), short_sha: at.sha.slice(0, 8) },
      environment_external_url: found.external_url,
      deployable_url: expect.stringContaining(`/-/jobs/${id}`),
      status_changed_at: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000$/),
      ...{ ref: at.ref, commit_title: expect.any(String), user: { id: at.user_id } },
      project: { id: project.id, homepage: expect.any(String), url: expect.any(String), http_url: expect.any(String) },
    });
  });

  it('is not made by jobs that only prepare, verify or wait', async () => {
    const { url, reporter, start } = await scene();
    const { jobs } = await start(
      { name: 'prepare', environment: environment('a', { action: 'prepare', auto_stop_in: 60 }) },
      { name: 'verify', environment: environment('b', { action: 'verify' }) },
      { name: 'later', when: 'manual', environment: environment('c') },
    );
    const [prepare = 0, verify = 0] = jobs;
    for (const id of [prepare, verify]) {
      await run(app(), id);
      await finish(app(), id);
    }
    await app().settle();
    expect((await reporter.get(`${url}/deployments`)).body).toEqual([]);
    const found = (await reporter.get(`${url}/environments`)).body;
    const stops = found.map(({ name, auto_stop_at }: { name: string; auto_stop_at: string | null }) => [
      ...[name, auto_stop_at !== null],
    ]);
    expect(stops.toSorted()).toEqual([
      ['a', true],
      ['b', false],
      ['c', false],
    ]);
  });

  it('that fails or is canceled leaves the last one in place', async () => {
    const { url, reporter, start } = await scene();
    for (const status of ['success', 'failed', 'canceled'] as const) {
      const { jobs } = await start({ name: 'deploy', environment: environment('a') });
      await run(app(), jobs[0] ?? 0);
      await finish(app(), jobs[0] ?? 0, status);
    }
    await app().settle();
    const all = (await reporter.get(`${url}/deployments`)).body;
    expect(all.map((each: { status: string }) => each.status)).toEqual(['success', 'failed', 'canceled']);
    const [{ id }] = (await reporter.get(`${url}/environments`)).body;
    expect((await reporter.get(`${url}/environments/${id}`)).body.last_deployment.id).toBe(all[0].id);
  });

  it('is undone by the job that its on_stop names', async () => {
    const { url, developer, owner, project, start } = await scene();
    const { jobs } = await start(
      { name: 'deploy', environment: environment('a', { on_stop: 'undo' }) },
      { name: 'undo', when: 'manual', allow_failure: true, environment: environment('a', { action: 'stop' }) },
    );
    const [deploy = 0, undo = 0] = jobs;
    await run(app(), deploy);
    await finish(app(), deploy);
    await app().settle();
    const [{ id }] = (await developer.get(`${url}/environments`)).body;
    // The branch is protected, and developers may not run jobs on it.
    expect((await developer.post(`${url}/environments/${id}/stop`)).status).toBe(403);
    expect((await developer.get(`${url}/environments/${id}`)).body.state).toBe('available');
    const stop = async () => (await owner.post(`${url}/environments/${id}/stop`)).body.state;
    expect(await stop()).toBe('stopping');
    await run(app(), undo);
    expect(await stop()).toBe('stopping');
    await finish(app(), undo, 'failed');
    await app().settle();
    // The job has failed, so it runs again.
    expect(await stop()).toBe('stopping');
    const { id: again } = await app()
      .hub.services.db.selectFrom('jobs')
      .select('id')
      .where('name', '=', 'undo')
      .where('status', '=', 'pending')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    await run(app(), again);
    await finish(app(), again);
    await app().settle();
    expect((await owner.get(`${url}/environments/${id}`)).body.state).toBe('stopped');
  });

  it('ends by itself at its time', async () => {
    const { url, owner, start, project } = await scene();
    const { jobs } = await start(
      { name: 'deploy', environment: environment('a', { on_stop: 'undo', auto_stop_in: 60 }) },
      { name: 'undo', when: 'manual', allow_failure: true, environment: environment('a', { action: 'stop' }) },
      { name: 'plain', environment: environment('b', { auto_stop_in: 60 }) },
    );
    const [deploy = 0, , plain = 0] = jobs;
    for (const id of [deploy, plain]) {
      await run(app(), id);
      await finish(app(), id);
    }
    await app().settle();
    const states = async () =>
      (await owner.get(`${url}/environments`)).body
        .map(({ name, state }: { name: string; state: string }) => `${name} ${state}`)
        .toSorted();
    const stopDue = () => stopDueEnvironments.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    await stopDue();
    expect(await states()).toEqual(['a available', 'b available']);
    await app()
      .hub.services.db.updateTable('environments')
      .set({ auto_stop_at: '2020-01-01T00:00:00Z' })
      .where('project_id', '=', project.id)
      .execute();
    await stopDue();
    expect(await states()).toEqual(['a stopping', 'b stopped']);
  });
});

describe('a deployment that is reported', () => {
  it('is created, listed, changed and deleted', async () => {
    const { url, developer, at } = await scene();
    const deployments = `${url}/deployments`;
    const report = { environment: 'production', sha: at.sha, ref: at.ref, tag: false, status: 'running' };
    const created = await developer.post(deployments, report);
    expect(created).toMatchObject({
      status: 201,
      body: { status: 'running', sha: at.sha, deployable: null, environment: { name: 'production' } },
    });
    const one = `${deployments}/${created.body.id}`;
    expect((await developer.delete(one)).status).toBe(400);
    expect((await developer.put(one, { status: 'success' })).body.status).toBe('success');
    expect((await developer.put(one, { status: 'success' })).status).toBe(200);
    expect((await developer.put(one, { status: 'failed' })).status).toBe(400);
    expect((await developer.delete(one)).status).toBe(400);
    const second = await developer.post(deployments, { ...report, environment: 'other', status: 'failed' });
    const ids = async (query: string) =>
      (await developer.get(`${deployments}?${query}`)).body.map((each: { id: number }) => each.id);
    const both = [created.body.id, second.body.id];
    expect(await ids('environment=production')).toEqual([both[0]]);
    expect(await ids('status=failed')).toEqual([both[1]]);
    const wide = 'updated_after=2020-01-01&updated_before=2100-01-01&finished_after=2020-01-01';
    expect(await ids(`${wide}&finished_before=2100-01-01`)).toEqual(both);
    expect(await ids('finished_after=2100-01-01')).toEqual([]);
    for (const order of ['id', 'iid', 'created_at', 'finished_at'])
      expect(await ids(`order_by=${order}&sort=desc`)).toEqual(both.toReversed());
    for (const order of ['ref', 'updated_at']) expect(await ids(`order_by=${order}&sort=asc`)).toEqual(both);
    expect((await developer.delete(`${deployments}/${both[1]}`)).status).toBe(204);
    expect(await ids('')).toEqual([both[0]]);
    for (const [bad, field] of [
      [{ sha: '0'.repeat(40) }, 'sha'],
      [{ sha: 'main' }, 'sha'],
      [{ ref: 'nowhere' }, 'ref'],
      [{ environment: '/' }, 'name'],
    ] as const) {
      const answer = await developer.post(deployments, { ...report, ...bad });
      expect([bad, answer.status, Object.keys(answer.body.message)]).toEqual([bad, 400, [field]]);
    }
    expect((await developer.post(deployments, { ...report, status: 'created' })).status).toBe(400);
  });

  it('cannot pretend to be a job', async () => {
    const { url, developer, start } = await scene();
    await start({ name: 'deploy', environment: environment('a') });
    await app().settle();
    const [{ id }] = (await developer.get(`${url}/deployments`)).body;
    expect((await developer.put(`${url}/deployments/${id}`, { status: 'success' })).status).toBe(403);
  });
});

describe('GraphQL', () => {
  it('has environments with their deployments, and changes them', async () => {
    const { project, developer, reporter, stranger, start, at, url } = await scene();
    const path = project.path_with_namespace;
    const fields = 'environment { id name slug state tier externalUrl description }';
    const given = { name: 'review/a', externalUrl: 'https://a.example.com', description: 'd', tier: 'TESTING' };
    const { environment: made } = await mutate(developer, 'environmentCreate', { projectPath: path, ...given }, fields);
    expect(made).toMatchObject({ ...given, state: 'available' });
    const changes = { externalUrl: null, description: 'e', tier: 'STAGING' };
    const changed = await mutate(developer, 'environmentUpdate', { id: made.id, ...changes }, fields);
    expect(changed.environment).toMatchObject(changes);
    const { jobs } = await start({ name: 'deploy', environment: environment('review/a') });
    await run(app(), jobs[0] ?? 0);
    await finish(app(), jobs[0] ?? 0);
    await app().settle();
    const report = { environment: 'review/a', sha: at.sha, ref: at.ref, tag: false, status: 'failed' };
    await developer.post(`${url}/deployments`, report);
    const query = `{ project(fullPath: "${path}") {
      environments(first: 5, name: "review/a", search: "view", states: [AVAILABLE]) { count nodes {
        name environmentType createdAt updatedAt autoStopAt project { fullPath } lastDeployment { iid }
        all: deployments { nodes { status } }
        deployments(statuses: [SUCCESS]) { nodes {
          id iid ref tag sha status createdAt updatedAt finishedAt environment { name } job { name } triggerer { username }
        } }
      } }
      environment(name: "review/a") { name }
      nothing: environment(name: "b") { name }
    } }`;
    const { data, errors } = await reporter.graphql(query);
    expect(errors).toBeUndefined();
    const [node] = data.project.environments.nodes;
    expect(node).toMatchObject({ name: 'review/a', environmentType: 'review', lastDeployment: { iid: '1' } });
    expect(node.all.nodes).toEqual([{ status: 'FAILED' }, { status: 'SUCCESS' }]);
    expect(node.deployments.nodes).toMatchObject([
      { status: 'SUCCESS', ref: at.ref, job: { name: 'deploy' }, environment: { name: 'review/a' } },
    ]);
    expect(data.project).toMatchObject({ environment: { name: 'review/a' }, nothing: null });
    expect((await stranger.graphql(query)).data.project).toBeNull();
    const stopped = await mutate(developer, 'environmentStop', { id: made.id, force: true }, fields);
    expect(stopped.environment.state).toBe('stopped');
    const failed = (await developer.get(`${url}/deployments?status=failed`)).body[0].id;
    await mutate(developer, 'deploymentDelete', { id: `gid://gitlab/Deployment/${failed}` });
    const hidden = `mutation { environmentDelete(input: { id: "${made.id}" }) { errors } }`;
    expect(JSON.stringify((await stranger.graphql(hidden)).errors)).toContain('NOT_FOUND');
    await mutate(developer, 'environmentDelete', { id: made.id });
    expect((await developer.get(`${url}/environments`)).body).toEqual([]);
  });
});

describe('the branch and merge requests of a deployment', () => {
  const stateOf = async (client: Client, url: string) =>
    (await client.get(`${url}/environments`)).body
      .map(({ name, state }: { name: string; state: string }) => `${name} ${state}`)
      .toSorted();
  const deploy = async (
    { project, at }: Awaited<ReturnType<typeof scene>>,
    name: string,
    commit: { ref?: string; sha?: string } = {},
    more: Partial<TestJob> = {},
  ) => {
    const { jobs } = await startPipeline(app(), { ...at, project_id: project.id, ...commit }, [
      { name: 'deploy', environment: environment(name, { on_stop: 'undo' }), ...more },
      { name: 'undo', when: 'manual', allow_failure: true, environment: environment(name, { action: 'stop' }) },
    ]);
    await run(app(), jobs[0] ?? 0);
    await finish(app(), jobs[0] ?? 0);
    await app().settle();
    return jobs;
  };
  const commitTo = async (client: Client, url: string, branch: string, from?: string) => {
    const { body } = await client.post(`${url}/repository/commits`, {
      ...{ branch, commit_message: `To ${branch}` },
      ...(from === undefined ? {} : { start_branch: from }),
      actions: [{ action: 'create', file_path: crypto.randomUUID(), content: 'x' }],
    });
    return String(body.id);
  };

  it('is stopped with its branch, by the job for that, if the user who deletes the branch may', async () => {
    const made = await scene();
    const { url, owner, developer, at } = made;
    for (const branch of ['one', 'two']) await commitTo(owner, url, branch, at.ref);
    await deploy(made, 'review/one', { ref: 'one' });
    await deploy(made, 'review/two', { ref: 'two' });
    await deploy(made, 'live');
    await owner.delete(`${url}/repository/branches/one`);
    await app().settle();
    expect(await stateOf(developer, url)).toEqual(['live available', 'review/one stopping', 'review/two available']);
  });

  it('is stopped when its merge request is closed, and lists the merge requests that it brought', async () => {
    const made = await scene();
    const { url, owner, developer, stranger, at } = made;
    await deploy(made, 'live');
    const open = async (branch: string) => {
      const sha = await commitTo(developer, url, branch, at.ref);
      const { body } = await developer.post(`${url}/merge_requests`, {
        ...{ source_branch: branch, target_branch: at.ref, title: branch },
      });
      await app().settle();
      return { sha, iid: Number(body.iid) };
    };
    const closed = await open('closed');
    await deploy(made, 'review/closed', { ref: 'closed', sha: closed.sha });
    const kept = await open('kept');
    await deploy(made, 'review/kept', { ref: 'kept', sha: kept.sha });
    await developer.put(`${url}/merge_requests/${closed.iid}`, { state_event: 'close' });
    await app().settle();
    const states = ['live available', 'review/closed stopping', 'review/kept available'];
    expect(await stateOf(developer, url)).toEqual(states);
    const merged = await owner.put(`${url}/merge_requests/${kept.iid}/merge`);
    expect(merged.body.state).toBe('merged');
    await app().settle();
    await deploy(made, 'live', { sha: merged.body.merge_commit_sha });
    const deployments = (await owner.get(`${url}/deployments?environment=live`)).body;
    const brought = async (client: Client, index: number) =>
      client.get(`${url}/deployments/${deployments[index].id}/merge_requests`);
    expect((await brought(owner, 1)).body).toMatchObject([{ iid: kept.iid, state: 'merged' }]);
    expect((await brought(owner, 0)).body).toEqual([]);
    expect((await brought(stranger, 1)).status).toBe(404);
    const found = async (client: Client, query: Record<string, string>, list = `${url}/merge_requests`) =>
      (await client.get(`${list}?${new URLSearchParams({ state: 'all', scope: 'all', ...query })}`)).body.map(
        (each: { iid: number }) => each.iid,
      );
    for (const list of [`${url}/merge_requests`, '/merge_requests']) {
      expect(await found(owner, { environment: 'live' }, list)).toEqual([kept.iid]);
      expect(await found(owner, { environment: 'review/kept' }, list)).toEqual([]);
    }
    const [past, future] = ['2020-01-01T00:00:00Z', '2100-01-01T00:00:00Z'];
    expect(await found(owner, { deployed_after: past, deployed_before: future })).toEqual([kept.iid]);
    expect(await found(owner, { deployed_before: past })).toEqual([]);
    // All conditions are about one deployment.
    expect(await found(owner, { environment: 'live', deployed_after: future })).toEqual([]);
    expect((await owner.get(`${url}/merge_requests/${kept.iid}`)).body).toMatchObject({
      first_deployed_to_production_at: expect.any(String),
    });
    // Callers who may not read pipelines learn nothing of deployments.
    await owner.put(url, { visibility: 'public', builds_access_level: 'private', public_jobs: false });
    expect(await found(stranger, { source_branch: 'kept' })).toEqual([kept.iid]);
    expect(await found(stranger, { environment: 'live' })).toEqual([]);
    expect((await stranger.get(`${url}/merge_requests/${kept.iid}`)).body.first_deployed_to_production_at).toBeNull();
  });

  it('in a fork is stopped when its merge request ends, with the rights of the user who deployed it', async () => {
    const made = await scene();
    const { url, owner, project, at } = made;
    await owner.put(url, { visibility: 'public' });
    const author = await app().make.user();
    const client = app().as(author);
    const fork = (await client.post(`${url}/fork`)).body;
    await app().settle();
    const forked = `/projects/${fork.id}`;
    const sha = await commitTo(client, forked, 'theirs', at.ref);
    const { body } = await client.post(`${forked}/merge_requests`, {
      ...{ source_branch: 'theirs', target_branch: at.ref, target_project_id: project.id, title: 'Theirs' },
    });
    await app().settle();
    const ofFork = { ...made, project: fork, at: { ...at, project_id: fork.id, user_id: author.id } };
    await deploy(ofFork, 'review/theirs', { ref: 'theirs', sha });
    const { db } = app().hub.services;
    await db.updateTable('pipelines').set({ merge_request_id: body.id }).where('project_id', '=', fork.id).execute();
    // Not by a pipeline of the merge request, though from its branch.
    await deploy(ofFork, 'live', { ref: 'theirs', sha });
    await owner.put(`${url}/merge_requests/${body.iid}`, { state_event: 'close' });
    await app().settle();
    expect(await stateOf(client, forked)).toEqual(['live available', 'review/theirs stopping']);
  });

  it('does not replace a newer one, unless somebody rolls back where the project allows it', async () => {
    const made = await scene();
    const { url, owner, at, project } = made;
    const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: project.id });
    const newer = await commitTo(owner, url, at.ref);
    await app().settle();
    const retry = { max: 2, when: ['always'], exit_codes: [] };
    const old = await made.start({ name: 'deploy', environment: environment('live'), retry });
    const jobs = await deploy(made, 'live', { sha: newer });
    const protocol = new Protocol({ url: app().url, token });
    const ask = async () => {
      protocol.lastUpdate = '';
      const job = await protocol.request();
      await app().settle();
      return job?.job_info;
    };
    expect(await ask()).toBeUndefined();
    const [id = 0] = old.jobs;
    const job = async () => (await owner.get(`${url}/jobs/${id}`)).body;
    expect(await job()).toMatchObject({ status: 'failed', failure_reason: 'failed_outdated_deployment_job' });
    await owner.put(url, { ci_forward_deployment_rollback_allowed: false });
    expect((await owner.post(`${url}/jobs/${id}/retry`)).status).toBe(403);
    await owner.put(url, { ci_forward_deployment_rollback_allowed: true });
    expect((await owner.post(`${url}/jobs/${id}/retry`)).status).toBe(201);
    expect(await ask()).toMatchObject({ name: 'deploy' });
    // Without the setting any pipeline deploys.
    await owner.put(url, { ci_forward_deployment_enabled: false, ci_forward_deployment_rollback_allowed: false });
    await owner.post(`${url}/jobs/${jobs[0]}/retry`);
    expect(await ask()).toMatchObject({ name: 'deploy' });
  });

  it('is a rollback if a person began it, also when it is retried automatically', async () => {
    const made = await scene();
    const { url, owner, at, project } = made;
    const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: project.id });
    const protocol = new Protocol({ url: app().url, token });
    const ask = async () => {
      protocol.lastUpdate = '';
      const job = await protocol.request();
      await app().settle();
      return job;
    };
    const newer = await commitTo(owner, url, at.ref);
    await app().settle();
    const old = await made.start({
      ...{ name: 'deploy', environment: environment('live') },
      retry: { max: 9, when: ['unknown_failure'], exit_codes: [] },
    });
    const [first = 0] = old.jobs;
    await run(app(), first);
    await deploy(made, 'live', { sha: newer });
    await finish(app(), first, 'failed');
    expect(await ask()).toBeNull();
    const [retried] = (await owner.get(`${url}/pipelines/${old.id}/jobs`)).body;
    expect(retried).toMatchObject({ status: 'failed', failure_reason: 'failed_outdated_deployment_job' });
    await owner.put(url, { ci_forward_deployment_rollback_allowed: false });
    const retry = () => owner.post(`${url}/pipelines/${old.id}/retry`);
    expect((await retry()).body.status).toBe('failed');
    await owner.put(url, { ci_forward_deployment_rollback_allowed: true });
    expect((await retry()).body.status).toBe('pending');
    const rollback = await ask();
    expect(rollback).toMatchObject({ job_info: { name: 'deploy' } });
    await finish(app(), rollback?.id ?? 0, 'failed');
    expect(await ask()).toMatchObject({ job_info: { name: 'deploy' } });
  });

  it('is named with its action and tier in the bodies of jobs and pipelines, and archives with their size', async () => {
    const made = await scene();
    const { url, owner, project } = made;
    const hook = { url: `${receiver.url}/jobs-of-${project.id}`, job_events: true, pipeline_events: true };
    await owner.post(`${url}/hooks`, { ...hook, push_events: false });
    const { jobs } = await made.start({
      name: 'deploy',
      environment: environment('live', { deployment_tier: 'staging' }),
    });
    const [id = 0] = jobs;
    await run(app(), id);
    const { db } = app().hub.services;
    await db
      .insertInto('job_artifacts')
      .values({
        ...{ job_id: id, project_id: project.id, file_type: 'archive', file_format: 'zip', filename: 'artifacts.zip' },
        ...{ size: 42, sha256: '0'.repeat(64), storage_key: `none/${id}`, access: 'all' },
      })
      .execute();
    await finish(app(), id);
    await app().settle();
    const delivered = (kind: string, status: string) =>
      receiver.received.find(
        ({ path, body }) =>
          path.endsWith(`/jobs-of-${project.id}`) &&
          body.object_kind === kind &&
          (body.build_status ?? body.object_attributes?.status) === status,
      )?.body;
    await until('the deliveries', () => Boolean(delivered('build', 'success') && delivered('pipeline', 'success')));
    const place = { name: 'live', action: 'start', deployment_tier: 'staging' };
    expect(delivered('build', 'success')?.environment).toEqual(place);
    expect(delivered('pipeline', 'success')?.builds).toEqual([
      expect.objectContaining({ environment: place, artifacts_file: { filename: 'artifacts.zip', size: 42 } }),
    ]);
    await db.deleteFrom('job_artifacts').where('job_id', '=', id).execute();
  });
});
