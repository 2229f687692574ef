import { afterEach, describe, expect, it } from 'vitest';
import { cancelJob } from '#domains/ci/commands.ts';
import type { JobArtifacts } from '#domains/ci-config/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { makeRunner, queuePipeline, statusOf } from '../support/runner/queue.ts';
import { Runner } from '../support/runner/runner.ts';
import { until } from '../support/until.ts';

// A runner like the stock one runs real scripts: it clones with the job's token, and uploads and downloads artifacts.

const app = useApp();
const running: Runner[] = [];
afterEach(async () => {
  for (const runner of running.splice(0)) await runner.stop();
});

const artifacts = (paths: readonly string[], reports: JobArtifacts['reports'] = {}): JobArtifacts => ({
  name: null,
  paths,
  exclude: [],
  untracked: false,
  when: 'on_success',
  expire_in: null,
  expose_as: null,
  access: 'all',
  reports,
});

const setUp = async () => {
  const made = await makeScene(app(), { initialize_with_readme: true });
  const { project, people, owner, path } = made;
  const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: project.id });
  const [commit] = (await owner.get(`${path}/repository/commits`)).body;
  const runner = new Runner({ url: app().url, token });
  running.push(runner);
  const queue = (jobs: Parameters<typeof queuePipeline>[2]) =>
    queuePipeline(app(), { project_id: project.id, sha: commit.id, user_id: people.owner.id }, jobs);
  const log = async (id: number | undefined) => (await owner.get(`${path}/jobs/${id}/trace`)).body;
  return { ...made, runner, queue, log, sha: commit.id as string };
};

describe('a runner', () => {
  it('clones the project, runs the stages one after the other, and passes artifacts on', async () => {
    const { runner, queue, log, owner, path, sha } = await setUp();
    const { id, jobs } = await queue([
      {
        name: 'compile',
        stage: 'build',
        variables: [{ key: 'GREETING', value: 'hello $CI_PROJECT_NAME', raw: false }],
        script: ['test "$(git rev-parse HEAD)" = "$CI_COMMIT_SHA"', 'mkdir out', 'echo "$GREETING" > out/greeting.txt'],
        after_script: ['echo "status $CI_JOB_STATUS"'],
        artifacts: artifacts(['out/']),
      },
      {
        name: 'check',
        stage: 'test',
        script: ['cat out/greeting.txt', 'echo "token $CI_JOB_TOKEN"', 'test -f README.md'],
      },
    ]);
    const ran = await runner.runAll();
    expect(ran.map(({ state, status }) => [state, status])).toEqual([
      ['success', 200],
      ['success', 200],
    ]);
    const { body: pipeline } = await owner.get(`${path}/pipelines/${id}`);
    expect(pipeline).toMatchObject({ status: 'success', sha });
    expect(await log(jobs[0])).toContain('status success\n');
    const checked = await log(jobs[1]);
    expect(checked).toMatch(/\nhello project\d+\n/);
    expect(checked).toContain('token [MASKED]\n');
    expect(checked).toMatch(/section_start:\d+:get_sources\r/);
    expect(checked).not.toContain(ran[1]?.job.token ?? '-');
    const file = await owner.get(`${path}/jobs/${jobs[0]}/artifacts/out/greeting.txt`);
    expect([file.status, file.body]).toEqual([200, expect.stringMatching(/^hello project\d+\n$/)]);
  });

  it('reports how a script failed, and skips the later steps', async () => {
    const { runner, queue, log, owner, path } = await setUp();
    const { id, jobs } = await queue([
      { name: 'broken', stage: 'build', script: ['echo before', 'exit 7', 'echo never'], variables: [GIT_NONE] },
      { name: 'later', stage: 'test' },
      { name: 'tidy', stage: 'test', when: 'on_failure', variables: [GIT_NONE] },
    ]);
    const ran = await runner.runAll();
    expect(ran.map(({ state, exit_code }) => [state, exit_code])).toEqual([
      ['failed', 7],
      ['success', 0],
    ]);
    expect(await statusOf(app(), jobs[0] ?? 0)).toEqual({ status: 'failed', failure_reason: 'script_failure' });
    expect((await statusOf(app(), jobs[1] ?? 0)).status).toBe('skipped');
    expect((await owner.get(`${path}/pipelines/${id}`)).body.status).toBe('failed');
    const text = await log(jobs[0]);
    expect(text).toContain('before\n');
    expect(text).not.toContain('\nnever\n');
  });

  it('waits for jobs, and stops a script that is canceled but runs its clean-up', async () => {
    const { runner, queue, log, project } = await setUp();
    runner.start();
    const { jobs } = await queue([
      {
        name: 'long',
        script: ['echo started', 'sleep 60'],
        after_script: ['echo "tidied $CI_JOB_STATUS"'],
        variables: [GIT_NONE],
      },
    ]);
    await until('the script has started', async () => (await log(jobs[0])).includes('started\n'));
    const ctx = app().context();
    await cancelJob(ctx, await getProject(ctx, { id: project.id }), jobs[0] ?? 0);
    expect((await statusOf(app(), jobs[0] ?? 0)).status).toBe('canceling');
    await until('the job is canceled', async () => (await statusOf(app(), jobs[0] ?? 0)).status === 'canceled');
    expect(await log(jobs[0])).toContain('tidied canceled\n');
  });
});

const GIT_NONE = { key: 'GIT_STRATEGY', value: 'none', raw: false };
