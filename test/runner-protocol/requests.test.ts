import { createRemoteJWKSet, jwtVerify } from 'jose';
import { describe, expect, it } from 'vitest';
import { slugOf } from '#domains/environments/model.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner, queuePipeline, statusOf } from '../support/runner/queue.ts';

const app = useApp({ env: { MILLRACE_RUNNER_POLL_SECONDS: '20' } });
const db = () => app().hub.services.db;

const runnerOf = async (attributes: Record<string, unknown> = {}) => {
  const { id, token } = await makeRunner(app(), attributes);
  return { id, token, protocol: new Protocol({ url: app().url, token }) };
};

/** A runner that serves one project of its own, so that the tests of this file do not take each other's jobs. */
const scene = async (attributes: Record<string, unknown> = {}, runner: Record<string, unknown> = {}) => {
  const made = await makeScene(app(), attributes);
  return { ...made, ...(await runnerOf({ runner_type: 'project_type', project_id: made.project.id, ...runner })) };
};

describe('verifying a runner', () => {
  it('returns the runner, and records its machine', async () => {
    const { id, token, protocol } = await runnerOf();
    const reply = await protocol.verify();
    expect([reply.status, JSON.parse(reply.text)]).toEqual([200, { id, token, token_expires_at: null }]);
    const managers = await db().selectFrom('runner_managers').selectAll().where('runner_id', '=', id).execute();
    expect(managers).toMatchObject([
      {
        system_id: 's_0123456789ab',
        version: '19.4.0',
        revision: 'abcdef01',
        platform: 'linux',
        architecture: 'amd64',
      },
    ]);
    expect(managers[0]).toMatchObject({ executor: 'shell', ip_address: '127.0.0.1', features: { refspecs: true } });
    const runner = await app().as(app().root).graphql(`{ runner(id: "gid://gitlab/Ci::Runner/${id}") { status } }`);
    expect(runner.data.runner.status).toBe('ONLINE');
  });

  it('refuses unknown, expired and removed tokens', async () => {
    expect((await new Protocol({ url: app().url, token: 'glrt-wrong' }).verify()).status).toBe(403);
    const { id, protocol } = await runnerOf();
    expect((await protocol.verify()).status).toBe(200);
    await db().updateTable('runners').set({ token_expires_at: '2020-01-01T00:00:00Z' }).where('id', '=', id).execute();
    await expect.poll(async () => (await protocol.verify()).status).toBe(403);
    expect((await app().anonymous.post('/runners/verify', {})).body).toEqual({ error: 'token is missing' });
  });
});

describe('a runner by its token', () => {
  it('renews the token, removes a machine, and removes itself', async () => {
    const { id, token, protocol } = await runnerOf();
    await protocol.verify();
    const renewed = await app().anonymous.post('/runners/reset_authentication_token', { token });
    expect([renewed.status, renewed.body]).toEqual([
      201,
      { token: expect.stringMatching(/^glrt-/), token_expires_at: null },
    ]);
    expect((await app().anonymous.post('/runners/reset_authentication_token', { token })).status).toBe(403);
    const fresh = renewed.body.token;
    const machine = { token: fresh, system_id: 's_0123456789ab' };
    const managers = () => db().selectFrom('runner_managers').select('id').where('runner_id', '=', id).execute();
    expect(await managers()).toHaveLength(1);
    expect((await app().anonymous.delete('/runners/managers', { ...machine, token })).status).toBe(403);
    expect((await app().anonymous.delete('/runners/managers', machine)).status).toBe(204);
    expect(await managers()).toEqual([]);
    expect((await app().anonymous.delete('/runners', { token })).status).toBe(403);
    expect((await app().anonymous.delete('/runners', { token: fresh })).status).toBe(204);
    expect((await app().anonymous.post('/runners/verify', { token: fresh })).status).toBe(403);
    expect(await db().selectFrom('runners').select('id').where('id', '=', id).execute()).toEqual([]);
  });
});

describe('requesting a job', () => {
  it('hands out a job once, with all that the runner needs', async () => {
    const { project, people, protocol, id } = await scene({ initialize_with_readme: true });
    const [commit] = (await app().as(people.owner).get(`/projects/${project.id}/repository/commits`)).body;
    const pipeline = await queuePipeline(
      app(),
      { project_id: project.id, sha: commit.id, user_id: people.owner.id, before_sha: 'b'.repeat(40) },
      [
        {
          name: 'unit 1/2',
          script: ['echo one'],
          after_script: ['echo two'],
          timeout: 120,
          variables: [{ key: 'COLOUR', value: '$SHADE green', raw: false }],
          image: { name: 'alpine', entrypoint: null, pull_policy: null, executor_opts: {} },
          parallel: { index: 1, total: 2 },
          artifacts: {
            name: null,
            paths: ['out/'],
            exclude: ['out/*.tmp'],
            untracked: false,
            when: 'always',
            expire_in: '1 week',
            expose_as: null,
            access: 'all',
            reports: { junit: ['junit.xml'] },
          },
          caches: [
            {
              key: { files: ['README.md', 'absent'], prefix: 'deps' },
              ...{ paths: ['node_modules'], untracked: false, policy: 'pull', when: 'on_success', unprotect: false },
              fallback_keys: ['other'],
            },
          ],
          hooks: { pre_get_sources_script: ['echo first'] },
          release: { tag_name: 'v1', description: 'All "good" `here` $(now)' },
        },
      ],
    );
    await db()
      .updateTable('jobs')
      .set({ created_at: '2020-01-01T00:00:00Z', queued_at: new Date(Date.now() - 90_000).toISOString() })
      .where('id', '=', pipeline.jobs[0] ?? 0)
      .execute();
    const job = await protocol.request();
    const waited = Object(job?.job_info).time_in_queue_seconds;
    expect(waited).toBeGreaterThanOrEqual(90);
    expect(waited).toBeLessThan(90 + 300);
    expect(job).toMatchObject({
      id: pipeline.jobs[0],
      token: expect.stringMatching(/^glcbt-/),
      allow_git_fetch: true,
      job_info: {
        name: 'unit 1/2',
        stage: 'test',
        project_id: project.id,
        project_name: project.name,
        pipeline_id: pipeline.id,
      },
      runner_info: { timeout: 120 },
      image: { name: 'alpine' },
      services: [],
      credentials: [],
      dependencies: [],
      hooks: [{ name: 'pre_get_sources_script', script: ['echo first'] }],
      steps: [
        { name: 'script', script: ['echo one'], when: 'on_success', allow_failure: false, timeout: 120 },
        {
          name: 'release',
          script: [expect.stringContaining('release create "v1"')],
        },
        { name: 'after_script', script: ['echo two'], when: 'always', allow_failure: true },
      ],
      artifacts: [
        { artifact_type: 'archive', artifact_format: 'zip', paths: ['out/'], exclude: ['out/*.tmp'], when: 'always' },
        { artifact_type: 'junit', artifact_format: 'gzip', name: 'junit.xml', paths: ['junit.xml'], when: 'always' },
      ],
      cache: [
        {
          key: expect.stringMatching(/^deps-[0-9a-f]{40}-non_protected$/),
          policy: 'pull',
          fallback_keys: ['other-non_protected'],
        },
      ],
      git_info: {
        sha: commit.id,
        before_sha: 'b'.repeat(40),
        ref: 'main',
        ref_type: 'branch',
        refspecs: ['+refs/heads/main:refs/remotes/origin/main'],
        depth: 20,
        protected: false,
      },
    });
    const path = `${project.path_with_namespace}.git`;
    expect(job?.git_info.repo_url).toBe(`${app().url.replace('://', `://gitlab-ci-token:${job?.token}@`)}/${path}`);
    expect(job?.features.failure_reasons).toContain('script_failure');
    const values = new Map(job?.variables.map((variable) => [variable.key, variable]));
    const texts = Object.fromEntries([...values].map(([key, { value }]) => [key, value]));
    expect(texts).toMatchObject({
      CI: 'true',
      CI_SERVER_URL: app().url,
      CI_API_V4_URL: `${app().url}/api/v4`,
      CI_PROJECT_ID: String(project.id),
      CI_PROJECT_PATH: project.path_with_namespace,
      CI_PROJECT_VISIBILITY: 'private',
      CI_DEFAULT_BRANCH: 'main',
      CI_PIPELINE_ID: String(pipeline.id),
      CI_PIPELINE_SOURCE: 'push',
      CI_COMMIT_SHA: commit.id,
      CI_COMMIT_SHORT_SHA: commit.id.slice(0, 8),
      CI_COMMIT_BRANCH: 'main',
      CI_COMMIT_REF_SLUG: 'main',
      CI_COMMIT_TITLE: commit.title,
      CI_COMMIT_AUTHOR: `${commit.author_name} <${commit.author_email}>`,
      CI_JOB_ID: String(pipeline.jobs[0]),
      CI_JOB_NAME: 'unit 1/2',
      CI_JOB_NAME_SLUG: 'unit-1-2',
      CI_JOB_STAGE: 'test',
      CI_JOB_IMAGE: 'alpine',
      CI_JOB_STARTED_AT: expect.not.stringMatching(/^2020/),
      CI_NODE_INDEX: '1',
      CI_NODE_TOTAL: '2',
      CI_RUNNER_ID: String(id),
      GITLAB_USER_LOGIN: people.owner.username,
      COLOUR: '$SHADE green',
    });
    expect(texts).not.toHaveProperty('CI_COMMIT_TAG');
    expect(values.get('CI_JOB_TOKEN')).toMatchObject({ value: job?.token, masked: true, public: false });
    expect(await statusOf(app(), pipeline.jobs[0] ?? 0)).toMatchObject({ status: 'running' });
    expect(await protocol.request()).toBeNull();
    const [shown] = (await app().as(people.owner).get(`/projects/${project.id}/jobs`)).body;
    expect(shown).toMatchObject({ status: 'running', started_at: expect.any(String) });
  });

  it('limits the time of a job by that of the runner and the project', async () => {
    const { project, protocol, owner, path } = await scene({}, { maximum_timeout: 700 });
    await owner.put(path, { build_timeout: 900 });
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }, { name: 'b', timeout: 650 }]);
    expect((await protocol.request())?.runner_info.timeout).toBe(700);
    expect((await protocol.request())?.runner_info.timeout).toBe(650);
  });

  it('adds variables of the instance, the group, the project and the pipeline, the nearest last', async () => {
    const { project, protocol, owner, group, path } = await scene();
    await owner.post(`/groups/${group.id}/variables`, { key: 'LEVEL', value: 'group' });
    await owner.post(`${path}/variables`, { key: 'LEVEL', value: 'project', masked: false });
    await owner.post(`${path}/variables`, { key: 'SECRET', value: 'only-protected', protected: true });
    await owner.post(`${path}/variables`, { key: 'PAPER', value: 'text', variable_type: 'file', raw: true });
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }]);
    const job = await protocol.request();
    expect(job?.git_info.before_sha).toBe('0'.repeat(40));
    const levels = job?.variables.filter(({ key }) => key === 'LEVEL');
    expect(levels?.at(-1)?.value).toBe('project');
    expect(job?.variables.some(({ key }) => key === 'SECRET')).toBe(false);
    expect(job?.variables.find(({ key }) => key === 'PAPER')).toMatchObject({ file: true, raw: true, public: false });
  });

  it('names the environment with its tier, which people may have changed', async () => {
    const { project, protocol, owner, path } = await scene();
    const deploying = { name: 'review/x', url: null, on_stop: null, action: 'start', auto_stop_in: null } as const;
    expect((await owner.post(`${path}/environments`, { name: 'review/y', tier: 'staging' })).status).toBe(201);
    const environments = [
      { ...deploying, deployment_tier: null },
      { ...deploying, name: 'review/y', deployment_tier: null },
      { ...deploying, name: 'review/y', deployment_tier: 'testing' },
    ];
    const seen = [];
    for (const environment of environments) {
      await queuePipeline(app(), { project_id: project.id }, [{ name: 'a', environment }]);
      const variables = (await protocol.request())?.variables ?? [];
      seen.push(variables.flatMap(({ key, value }) => (key.startsWith('CI_ENVIRONMENT_') ? [[key, value]] : [])));
    }
    const of = (name: string, tier: string) => [
      ['CI_ENVIRONMENT_NAME', name],
      ['CI_ENVIRONMENT_SLUG', slugOf(name)],
      ['CI_ENVIRONMENT_ACTION', 'start'],
      ['CI_ENVIRONMENT_TIER', tier],
    ];
    expect(seen).toEqual([of('review/x', 'development'), of('review/y', 'staging'), of('review/y', 'testing')]);
  });

  it('signs tokens that say which job they are for', async () => {
    const { project, people, protocol } = await scene();
    const id_tokens = { CLOUD: { aud: ['https://cloud.example.com'] } };
    await queuePipeline(app(), { project_id: project.id, user_id: people.owner.id }, [{ name: 'a', id_tokens }]);
    const job = await protocol.request();
    const token = job?.variables.find(({ key }) => key === 'CLOUD');
    expect(token).toMatchObject({ masked: true, public: false });
    const keys = createRemoteJWKSet(new URL(`${app().url}/oauth/discovery/keys`));
    const { payload } = await jwtVerify(token?.value ?? '', keys, { audience: 'https://cloud.example.com' });
    expect(payload).toMatchObject({
      iss: app().url,
      sub: `project_path:${project.path_with_namespace}:ref_type:branch:ref:main`,
      project_id: String(project.id),
      job_id: String(job?.id),
      user_login: people.owner.username,
      ref_path: 'refs/heads/main',
      ref_protected: 'false',
    });
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(3_600);
  });

  it('refuses other tokens, and gives paused runners nothing', async () => {
    const { project, protocol, id } = await scene();
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }]);
    const wrong = await new Protocol({ url: app().url, token: 'glrt-wrong' }).requestReply();
    expect([wrong.status, JSON.parse(wrong.text)]).toEqual([403, { message: '403 Forbidden' }]);
    await db().updateTable('runners').set({ paused: true }).where('id', '=', id).execute();
    const paused = await protocol.requestReply();
    expect([paused.status, paused.headers.get('x-gitlab-last-update')]).toEqual([204, null]);
    await db().updateTable('runners').set({ paused: false }).where('id', '=', id).execute();
    await expect.poll(async () => (await protocol.requestReply()).status).toBe(201);
  });
});

describe('matching', () => {
  it('goes by tags', async () => {
    const { project, protocol } = await scene({}, { tag_list: ['fast', 'linux'], run_untagged: false });
    await queuePipeline(app(), { project_id: project.id }, [
      { name: 'untagged' },
      { name: 'other', tags: ['windows'] },
      { name: 'more', tags: ['fast', 'gpu'] },
      { name: 'fits', tags: ['fast'] },
    ]);
    expect((await protocol.request())?.job_info).toMatchObject({ name: 'fits' });
    expect(await protocol.request()).toBeNull();
  });

  it('keeps runners of protected branches to these', async () => {
    const { project, protocol } = await scene({}, { access_level: 'ref_protected' });
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'open' }]);
    await queuePipeline(app(), { project_id: project.id, protected: true }, [{ name: 'closed' }]);
    expect((await protocol.request())?.job_info).toMatchObject({ name: 'closed' });
    expect(await protocol.request()).toBeNull();
  });

  it('keeps runners of groups and projects to these, and obeys the settings of the project', async () => {
    const { project, protocol, group, owner, path } = await scene();
    const other = await makeScene(app());
    const ofGroup = await runnerOf({ runner_type: 'group_type', group_id: group.id });
    await queuePipeline(app(), { project_id: other.project.id }, [{ name: 'elsewhere' }]);
    expect(await protocol.request()).toBeNull();
    expect(await ofGroup.protocol.request()).toBeNull();
    await owner.put(path, { group_runners_enabled: false });
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }, { name: 'b' }, { name: 'c' }]);
    ofGroup.protocol.lastUpdate = '';
    expect(await ofGroup.protocol.request()).toBeNull();
    await owner.put(path, { group_runners_enabled: true });
    ofGroup.protocol.lastUpdate = '';
    expect((await ofGroup.protocol.request())?.job_info).toMatchObject({ name: 'a' });
    await owner.put(path, { builds_access_level: 'disabled' });
    protocol.lastUpdate = '';
    expect(await protocol.request()).toBeNull();
  });

  it('serves the project with the fewest running jobs on instance runners first', async () => {
    const tags = ['fairness'];
    const { protocol } = await runnerOf({ tag_list: tags, run_untagged: false });
    const [first, second] = [await makeScene(app()), await makeScene(app())];
    const jobs = ['a', 'b'].map((name) => ({ name, tags }));
    await queuePipeline(app(), { project_id: first.project.id }, jobs);
    await queuePipeline(app(), { project_id: second.project.id }, jobs);
    const order: unknown[] = [];
    for (let job = await protocol.request(); job; job = await protocol.request()) {
      order.push(Object(job.job_info).project_id);
      protocol.lastUpdate = '';
    }
    expect(order).toEqual([first.project.id, second.project.id, first.project.id, second.project.id]);
    await first.owner.put(first.path, { shared_runners_enabled: false });
    await queuePipeline(app(), { project_id: first.project.id }, jobs);
    protocol.lastUpdate = '';
    expect(await protocol.request()).toBeNull();
    const forbid = (shared_runners_setting: string) =>
      first.owner.put(`/groups/${first.group.id}`, { shared_runners_setting });
    await forbid('disabled_and_unoverridable');
    expect((await first.owner.put(first.path, { shared_runners_enabled: true })).status).toBe(400);
    protocol.lastUpdate = '';
    expect(await protocol.request()).toBeNull();
    await forbid('disabled_and_overridable');
    expect((await first.owner.put(first.path, { shared_runners_enabled: true })).status).toBe(200);
    protocol.lastUpdate = '';
    expect((await protocol.request())?.job_info).toMatchObject({ project_id: first.project.id });
  });

  it('gives each job to one of many runners', async () => {
    const { project, token } = await scene();
    const names = Array.from({ length: 12 }, (_, n) => ({ name: `job ${n}` }));
    const { jobs } = await queuePipeline(app(), { project_id: project.id }, names);
    const taken: number[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (;;) {
          const reply = await new Protocol({ url: app().url, token }).requestReply();
          if (reply.status === 204) return;
          if (reply.status === 201) taken.push(JSON.parse(reply.text).id);
          else expect(reply.status).toBe(409);
        }
      }),
    );
    expect(taken.sort((a, b) => a - b)).toEqual(jobs);
  });
});

describe('waiting for a job', () => {
  it('ends as soon as a job is pending', async () => {
    const { project, protocol } = await scene();
    expect(await protocol.request()).toBeNull();
    const waiting = protocol.request();
    const { jobs } = await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }]);
    expect((await waiting)?.id).toBe(jobs[0]);
  });

  it('costs no statement, and wakes a runner for a job that another one did not get', async () => {
    const { project, protocol, token } = await scene();
    expect(await protocol.request()).toBeNull();
    const second = new Protocol({ url: app().url, token });
    expect(await second.request()).toBeNull();
    const waiting = [protocol.request(), second.request()];
    const { jobs } = await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }, { name: 'b' }]);
    const taken = (await Promise.all(waiting)).map((job) => job?.id ?? 0);
    expect(taken.sort((a, b) => a - b)).toEqual(jobs);
  });

  it('ends when the runner is changed, so that it looks again', async () => {
    const { project, protocol, id } = await scene({}, { tag_list: ['blue'], run_untagged: false });
    await queuePipeline(app(), { project_id: project.id }, [{ name: 'a', tags: ['red'] }]);
    expect(await protocol.request()).toBeNull();
    const waiting = protocol.request();
    await db()
      .updateTable('runners')
      .set({ tags: ['red'] })
      .where('id', '=', id)
      .execute();
    expect(((await waiting) ?? (await protocol.request()))?.job_info).toMatchObject({ name: 'a' });
  });

  it('leaves the job to others if the client has gone', async () => {
    const { project, protocol, token } = await scene();
    expect(await protocol.request()).toBeNull();
    const gone = new AbortController();
    const waiting = protocol.request(gone.signal).catch(() => null);
    gone.abort();
    expect(await waiting).toBeNull();
    const { jobs } = await queuePipeline(app(), { project_id: project.id }, [{ name: 'a' }]);
    const next = new Protocol({ url: app().url, token });
    expect((await next.request())?.id).toBe(jobs[0]);
  });
});

describe('jobs that cannot run', () => {
  it('fail with their reason when they are handed out', async () => {
    const { project, people, protocol, token } = await scene();
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', people.reporter.id).execute();
    const blocked = await queuePipeline(app(), { project_id: project.id, user_id: people.reporter.id }, [
      { name: 'a' },
    ]);
    const exits = await queuePipeline(app(), { project_id: project.id }, [
      { name: 'b', allow_failure_exit_codes: [3] },
      { name: 'c' },
    ]);
    const old = new Protocol({ url: app().url, token, features: { return_exit_code: false } });
    expect((await old.request())?.job_info).toMatchObject({ name: 'c' });
    expect(await statusOf(app(), blocked.jobs[0] ?? 0)).toEqual({ status: 'failed', failure_reason: 'user_blocked' });
    expect(await statusOf(app(), exits.jobs[0] ?? 0)).toEqual({
      status: 'failed',
      failure_reason: 'runner_unsupported',
    });
    const across = await queuePipeline(app(), { project_id: project.id }, [
      { name: 'd', cross_needs: [{ project: 'a/b', ref: 'main', pipeline: null, job: 'x', artifacts: true }] },
      { name: 'e', cross_needs: [{ project: null, ref: null, pipeline: '$PARENT', job: 'x', artifacts: true }] },
    ]);
    old.lastUpdate = '';
    expect(await old.request()).toBeNull();
    for (const job of across.jobs) {
      expect((await statusOf(app(), job)).failure_reason).toBe('missing_dependency_failure');
    }
    const parent = await queuePipeline(app(), { project_id: project.id, status: 'success' }, [{ name: 'x' }]);
    const made = await protocol.request();
    if (made) await protocol.update(made, { state: 'success' });
    const needy = (name: string) => ({
      name,
      variables: [{ key: 'PARENT', value: String(parent.id), raw: true }],
      cross_needs: [{ project: null, ref: null, pipeline: '$PARENT', job: 'x', artifacts: true }],
    });
    // Not of the family of the pipeline that it names.
    const outside = await queuePipeline(app(), { project_id: project.id }, [needy('outside')]);
    const [bridge_job_id] = parent.jobs;
    await queuePipeline(app(), { project_id: project.id, bridge_job_id }, [needy('f')]);
    expect((await protocol.request())?.job_info).toMatchObject({ name: 'f' });
    expect((await statusOf(app(), outside.jobs[0] ?? 0)).failure_reason).toBe('missing_dependency_failure');
    const sibling = await queuePipeline(app(), { project_id: project.id, bridge_job_id, status: 'success' }, [
      { name: 'y' },
    ]);
    await db()
      .updateTable('jobs')
      .set({ kind: 'bridge' })
      .where('id', '=', bridge_job_id ?? 0)
      .execute();
    const y = await protocol.request();
    if (y) await protocol.update(y, { state: 'success' });
    const pipeline = String(sibling.id);
    await queuePipeline(app(), { project_id: project.id, bridge_job_id }, [
      { name: 'g', cross_needs: [{ project: null, ref: null, pipeline, job: 'y', artifacts: true }] },
    ]);
    expect((await protocol.request())?.job_info).toMatchObject({ name: 'g' });
    const erased = await queuePipeline(app(), { project_id: project.id }, [
      { name: 'build', stage: 'build' },
      { name: 'deploy', stage: 'deploy' },
    ]);
    const build = await protocol.request();
    if (!build) throw new Error('no job');
    await protocol.update(build, { state: 'success' });
    await db().updateTable('jobs').set({ erased_at: new Date().toISOString() }).where('id', '=', build.id).execute();
    protocol.lastUpdate = '';
    expect(await protocol.request()).toBeNull();
    expect(await statusOf(app(), erased.jobs[1] ?? 0)).toEqual({
      status: 'failed',
      failure_reason: 'missing_dependency_failure',
    });
  });

  it('fail alone if their variables cannot be expanded, and the next one runs', async () => {
    const { project, protocol } = await scene();
    const need = { project: null, ref: null, pipeline: null, job: 'x', artifacts: true };
    const { jobs } = await queuePipeline(app(), { project_id: project.id }, [
      {
        name: 'circular',
        variables: [
          { key: 'A', value: '$B', raw: false },
          { key: 'B', value: '$A', raw: false },
        ],
        cross_needs: [{ ...need, project: '$A', ref: 'main' }],
      },
      {
        name: 'long',
        variables: [{ key: 'A', value: 'a'.repeat(10_000), raw: false }],
        cross_needs: [{ ...need, pipeline: '$A'.repeat(101) }],
      },
      { name: 'sound' },
    ]);
    expect((await protocol.request())?.job_info).toMatchObject({ name: 'sound' });
    const reasons = await Promise.all(jobs.map(async (id) => (await statusOf(app(), id)).failure_reason));
    expect(reasons).toEqual(['data_integrity_failure', 'missing_dependency_failure', null]);
  });
});
