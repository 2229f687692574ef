import { describe, expect, it } from 'vitest';
import { insertPipeline } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';

const app = useApp();
const db = () => app().hub.services.db;

const ids = ({ body }: { body: { id: number }[] }) => body.map((each) => each.id);

describe('pipelines', () => {
  it('are listed with filters, newest first', async () => {
    const { project, path, owner, people } = await makeScene(app());
    const project_id = project.id;
    const first = await insertPipeline(db(), {
      project_id,
      status: 'failed',
      user_id: people.owner.id,
      name: 'nightly',
    });
    const second = await insertPipeline(db(), { project_id, status: 'running', ref: 'v1', tag: true, source: 'web' });
    const third = await insertPipeline(db(), { project_id, sha: 'e'.repeat(40), yaml_errors: 'bad' });
    const list = async (query: string) => ids(await owner.get(`${path}/pipelines?${query}`));
    expect(await list('')).toEqual([third.id, second.id, first.id]);
    expect(await list('sort=asc')).toEqual([first.id, second.id, third.id]);
    expect(await list('order_by=ref&sort=asc')).toEqual([first.id, third.id, second.id]);
    expect(await list('status=failed')).toEqual([first.id]);
    expect(await list('scope=running')).toEqual([second.id]);
    expect(await list('scope=finished')).toEqual([third.id, first.id]);
    expect(await list('scope=branches')).toEqual([third.id]);
    expect(await list('scope=tags')).toEqual([second.id]);
    expect(await list('ref=v1')).toEqual([second.id]);
    expect(await list('source=web')).toEqual([second.id]);
    expect(await list(`sha=${'e'.repeat(40)}`)).toEqual([third.id]);
    expect(await list(`username=${people.owner.username}`)).toEqual([first.id]);
    expect(await list('name=nightly')).toEqual([first.id]);
    expect(await list('yaml_errors=true')).toEqual([third.id]);
    expect(await list('updated_before=2000-01-01')).toEqual([]);
    expect((await owner.get(`${path}/pipelines?status=x`)).status).toBe(400);
    const { body } = await owner.get(`${path}/pipelines?status=failed`);
    expect(body[0]).toEqual({
      id: first.id,
      iid: 1,
      project_id,
      sha: 'a'.repeat(40),
      ref: 'main',
      status: 'failed',
      source: 'push',
      created_at: expect.any(String),
      updated_at: expect.any(String),
      web_url: `${app().url}/${project.path_with_namespace}/-/pipelines/${first.id}`,
      name: 'nightly',
    });
  });

  it('are filtered by time, state and errors, and ordered by user', async () => {
    const { project, path, owner, people } = await makeScene(app());
    const project_id = project.id;
    const at = (day: number) => ({ created_at: `2020-01-0${day}T00:00:00Z`, updated_at: `2020-02-0${day}T00:00:00Z` });
    const first = await insertPipeline(db(), { project_id, status: 'pending', user_id: people.guest.id, ...at(1) });
    const second = await insertPipeline(db(), { project_id, ref: 'side', yaml_errors: 'bad', ...at(2) });
    const third = await insertPipeline(db(), { project_id, user_id: people.owner.id, ...at(3) });
    const list = async (query: string) => ids(await owner.get(`${path}/pipelines?sort=asc&${query}`));
    expect(await list('created_after=2020-01-01T12:00:00Z')).toEqual([second.id, third.id]);
    expect(await list('created_before=2020-01-02T12:00:00Z')).toEqual([first.id, second.id]);
    expect(await list('updated_after=2020-02-02T12:00:00Z')).toEqual([third.id]);
    expect(await list('updated_before=2020-02-01T12:00:00Z')).toEqual([first.id]);
    expect(await list('scope=pending')).toEqual([first.id]);
    expect(await list('yaml_errors=false')).toEqual([first.id, third.id]);
    // Pipelines without a user come first.
    expect((await list('order_by=user_id')).indexOf(second.id)).toBe(0);
    const latest = async (query: string) => (await owner.get(`${path}/pipelines/latest${query}`)).body.id;
    expect(await latest('?ref=side')).toBe(second.id);
    expect(await latest('?ref=main')).toBe(third.id);
  });

  it('list their jobs and bridges by status', async () => {
    const { project, path, owner } = await makeScene(app());
    const pipeline = await insertPipeline(db(), { project_id: project.id }, [
      { name: 'a', stage: 'test', status: 'failed' },
      { name: 'b', stage: 'test', status: 'success' },
      { name: 'c', stage: 'deploy', status: 'failed', kind: 'bridge' },
      { name: 'd', stage: 'deploy', status: 'running', kind: 'bridge' },
    ]);
    const names = async (query: string) =>
      (await owner.get(`${path}/pipelines/${pipeline.id}/${query}`)).body
        .map((job: { name: string }) => job.name)
        .sort();
    expect(await names('jobs')).toEqual(['a', 'b']);
    expect(await names('jobs?scope=failed')).toEqual(['a']);
    expect(await names('jobs?scope[]=failed&scope[]=success')).toEqual(['a', 'b']);
    expect(await names('bridges')).toEqual(['c', 'd']);
    expect(await names('bridges?scope[]=running')).toEqual(['d']);
    expect(await names('trigger_jobs')).toEqual(['c', 'd']);
    expect(await names('trigger_jobs?scope=failed')).toEqual(['c']);
  });

  it('report coverage and warnings from their jobs', async () => {
    const { project, path, owner, people } = await makeScene(app());
    const pipeline = await insertPipeline(
      db(),
      {
        project_id: project.id,
        user_id: people.owner.id,
        created_at: '2026-01-01T00:00:00Z',
        started_at: '2026-01-01T00:00:10.9Z',
        finished_at: '2026-01-01T00:01:10Z',
        duration: 60,
      },
      [
        { name: 'compile', stage: 'build', coverage: 80 },
        { name: 'lint', stage: 'test', status: 'failed', allow_failure: true, coverage: 91 },
      ],
    );
    const { body } = await owner.get(`${path}/pipelines/${pipeline.id}`);
    expect(body).toMatchObject({
      iid: 1,
      user: { username: people.owner.username },
      duration: 60,
      // Clients with static types read a whole number.
      queued_duration: 10,
      coverage: '85.50',
      started_at: '2026-01-01T00:00:10.900Z',
      tag: false,
      detailed_status: {
        icon: 'status_warning',
        label: 'passed with warnings',
        group: 'success-with-warnings',
        details_path: `/${project.path_with_namespace}/-/pipelines/${pipeline.id}`,
      },
    });
    expect((await fetch(new URL(body.detailed_status.favicon, app().url))).status).toBe(200);
    expect((await owner.get(`${path}/pipelines/latest`)).body.id).toBe(pipeline.id);
    expect((await owner.get(`${path}/pipelines/latest?ref=none`)).status).toBe(403);
    const other = await makeScene(app());
    const missing = await other.owner.get(`${other.path}/pipelines/${pipeline.id}`);
    expect([missing.status, missing.body.message]).toEqual([404, '404 Pipeline Not Found']);
  });
});

describe('jobs', () => {
  it('are listed by project and by pipeline, and read one by one', async () => {
    const { project, path, owner, people } = await makeScene(app(), { initialize_with_readme: true });
    const { body: branch } = await owner.get(`${path}/repository/branches/main`);
    const pipeline = await insertPipeline(db(), { project_id: project.id, sha: branch.commit.id }, [
      {
        name: 'compile',
        stage: 'build',
        user_id: people.owner.id,
        queued_at: '2026-01-01T00:00:00Z',
        started_at: '2026-01-01T00:00:02.5Z',
        finished_at: '2026-01-01T00:00:04Z',
      },
      { name: 'old', stage: 'build', status: 'failed', retried: true, failure_reason: 'script_failure' },
      { name: 'deploy', stage: 'deploy', kind: 'bridge' },
      { name: 'external', stage: 'external', kind: 'generic_commit_status', target_url: 'https://ci.example.com' },
    ]);
    const [compile = 0, old = 0, deploy = 0, external = 0] = pipeline.jobs;
    expect(ids(await owner.get(`${path}/jobs`))).toEqual([old, compile]);
    expect(ids(await owner.get(`${path}/jobs?scope[]=failed`))).toEqual([old]);
    expect(ids(await owner.get(`${path}/pipelines/${pipeline.id}/jobs`))).toEqual([compile]);
    expect(ids(await owner.get(`${path}/pipelines/${pipeline.id}/jobs?include_retried=true`))).toEqual([old, compile]);
    const bridges = await owner.get(`${path}/pipelines/${pipeline.id}/bridges`);
    expect(bridges.body).toMatchObject([{ id: deploy, name: 'deploy', downstream_pipeline: null }]);
    const statuses = await owner.get(`${path}/repository/commits/${branch.commit.id}/statuses`);
    expect(ids(statuses)).toEqual([compile, deploy, external]);
    expect(statuses.body[2]).toMatchObject({ name: 'external', target_url: 'https://ci.example.com' });

    const keyset = await owner.get(`${path}/jobs?pagination=keyset&per_page=1`);
    expect(ids(keyset)).toEqual([old]);
    const [, next = ''] = /<([^>]+)>; rel="next"/.exec(keyset.headers.get('link') ?? '') ?? [];
    expect(ids(await owner.get(next.replace(`${app().url}/api/v4`, '')))).toEqual([compile]);

    const { body } = await owner.get(`${path}/jobs/${compile}`);
    expect(body).toMatchObject({
      id: compile,
      name: 'compile',
      stage: 'build',
      status: 'success',
      duration: 1.5,
      queued_duration: 2.5,
      user: { username: people.owner.username },
      commit: { id: branch.commit.id, title: branch.commit.title },
      pipeline: { id: pipeline.id, iid: 1, project_id: project.id },
      artifacts: [],
      runner: null,
      web_url: `${app().url}/${project.path_with_namespace}/-/jobs/${compile}`,
      project: { ci_job_token_scope_enabled: expect.any(Boolean) },
    });
    expect('failure_reason' in body).toBe(false);
    expect((await owner.get(`${path}/jobs/${old}`)).body.failure_reason).toBe('script_failure');
    expect((await owner.get(`${path}/jobs/${external}`)).status).toBe(404);
    expect((await owner.get(`${path}/jobs/999999`)).status).toBe(404);
  });

  it('are nested in pipelines and stages in GraphQL, with no more statements for many jobs than for one', async () => {
    const { project, owner } = await makeScene(app());
    const make = (count: number) =>
      insertPipeline(
        db(),
        { project_id: project.id },
        Array.from({ length: count }, (_, i) => ({ name: `job ${i}`, stage: i % 2 ? 'test' : 'build' })),
      );
    const first = await make(1);
    const query = `query ($path: ID!) { project(fullPath: $path) {
      pipelines(first: 5) { count nodes { id iid status detailedStatus { label } totalJobs complete user { name }
        stages(first: 5) { nodes { name jobs(first: 5) { nodes { name } } } }
        jobs(first: 5) { count nodes { id name kind status duration stage { name } pipeline { iid } shortSha } } } }
      pipeline(iid: 1) { id } jobs(statuses: [SUCCESS]) { count }
      job(id: "gid://gitlab/Ci::Build/${first.jobs[0]}") { name webPath } } }`;
    const run = () => owner.graphql(query, { path: project.path_with_namespace });
    await run();
    const forOne = await countStatements(app(), run);
    await make(4);
    await make(3);
    const { data, errors } = await run();
    expect(errors).toBeUndefined();
    expect(data.project).toMatchObject({
      pipeline: { id: `gid://gitlab/Ci::Pipeline/${first.id}` },
      jobs: { count: 8 },
      job: { name: 'job 0', webPath: `/${project.path_with_namespace}/-/jobs/${first.jobs[0]}` },
      pipelines: { count: 3 },
    });
    expect(data.project.pipelines.nodes[1]).toMatchObject({
      iid: '2',
      status: 'SUCCESS',
      detailedStatus: { label: 'passed' },
      totalJobs: 4,
      complete: true,
      stages: {
        nodes: [
          { name: 'build', jobs: { nodes: [{ name: 'job 0' }, { name: 'job 2' }] } },
          { name: 'test', jobs: { nodes: [{ name: 'job 1' }, { name: 'job 3' }] } },
        ],
      },
      jobs: {
        count: 4,
        nodes: [{ name: 'job 0', kind: 'BUILD', stage: { name: 'build' }, pipeline: { iid: '2' } }, {}, {}, {}],
      },
    });
    expect(await countStatements(app(), run)).toBeLessThanOrEqual(forOne);
  });
});

describe('access to pipelines and jobs', () => {
  it('requires the Reporter role in a private project', async () => {
    const { project, path, owner, maintainer, reporter, planner, guest, stranger } = await makeScene(app(), {
      initialize_with_readme: true,
    });
    const pipeline = await insertPipeline(db(), { project_id: project.id }, [{ name: 'a', stage: 'b' }]);
    for (const suffix of [
      '/pipelines',
      `/pipelines/${pipeline.id}`,
      `/pipelines/${pipeline.id}/jobs`,
      `/pipelines/${pipeline.id}/bridges`,
      `/pipelines/${pipeline.id}/trigger_jobs`,
      '/pipelines/latest',
      '/jobs',
      `/jobs/${pipeline.jobs[0]}`,
      '/repository/commits/main/statuses',
    ]) {
      const statuses = [];
      for (const client of [owner, maintainer, reporter, planner, guest, stranger, app().anonymous]) {
        statuses.push((await client.get(path + suffix)).status);
      }
      expect([suffix, statuses]).toEqual([suffix, [200, 200, 200, 403, 403, 404, 404]]);
    }
  });

  it('is open to everyone in a public project, unless jobs are not public, for members only, or disabled', async () => {
    const { project, path, owner, reporter, stranger } = await makeScene(app(), { visibility: 'public' });
    const { id } = await insertPipeline(db(), { project_id: project.id });
    const statuses = async () => {
      const found = [];
      for (const client of [owner, reporter, stranger, app().anonymous]) {
        found.push((await client.get(`${path}/pipelines/${id}`)).status);
      }
      return found;
    };
    expect(await statuses()).toEqual([200, 200, 200, 200]);
    await owner.put(path, { public_jobs: false });
    expect(await statuses()).toEqual([200, 200, 403, 401]);
    await owner.put(path, { builds_access_level: 'private' });
    expect(await statuses()).toEqual([200, 200, 404, 404]);
    await owner.put(path, { builds_access_level: 'disabled' });
    expect(await statuses()).toEqual([404, 404, 404, 404]);
  });
});
