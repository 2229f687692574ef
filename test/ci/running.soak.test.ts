import { describe, expect, it } from 'vitest';
import { cancelRedundant } from '#domains/ci/creation/auto-cancel.ts';
import { sweepJobs } from '#domains/ci/processing/sweeps.ts';
import { finishJob, recordContact, runJobs } from '#domains/ci/transitions.ts';
import { useApp } from '../support/app.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
const db = () => app().hub.services.db;
const NO_RUN = { attempt: 1, lastAttempt: false };

describe('a pipeline', () => {
  it('runs its stages one after the other, and skips those after a failure', async () => {
    const scene = await pipelineScene(
      app(),
      `
stages: [build, test, deploy]
a: {stage: build, script: [x]}
b: {stage: test, script: [x]}
c: {stage: test, script: [x], allow_failure: true}
d: {stage: deploy, script: [x]}
tidy: {stage: deploy, script: [x], when: always}
alarm: {stage: deploy, script: [x], when: on_failure}
`,
    );
    const { id } = await scene.newest();
    await scene.finish(id, 'a');
    await scene.finish(id, 'c', 'failed');
    expect(await scene.statusOf(id)).toBe('running');
    await scene.finish(id, 'b', { status: 'failed', failure_reason: 'script_failure', exit_code: 7 });
    expect(await scene.shown(id)).toBe('a success, b failed, c failed, d skipped, tidy pending, alarm pending');
    expect((await scene.jobs(id)).b).toMatchObject({ failure_reason: 'script_failure' });
    await scene.finish(id, 'tidy');
    await scene.finish(id, 'alarm');
    expect(await scene.statusOf(id)).toBe('failed');
    const { body } = await scene.client.get(`${scene.path}/pipelines/${id}`);
    expect(body).toMatchObject({ duration: 0, finished_at: expect.any(String), started_at: expect.any(String) });
  });

  it('waits for a blocking manual job, and goes on when it is played with variables', async () => {
    const scene = await pipelineScene(
      app(),
      `
gate: {stage: build, script: [x], rules: [{when: manual}]}
after: {stage: test, script: [x]}
side: {stage: test, script: [x], needs: [], when: manual}
`,
    );
    const { id } = await scene.newest();
    expect(await scene.shown(id)).toBe('gate manual, after created, side manual');
    expect(await scene.statusOf(id)).toBe('manual');
    const gate = await scene.jobId(id, 'gate');
    const played = await scene.client.post(`${scene.path}/jobs/${gate}/play`, {
      job_variables_attributes: [{ key: 'HOW', value: 'fast' }],
    });
    expect([played.status, played.body.status, played.body.id]).toEqual([200, 'pending', gate]);
    const variables = await db()
      .selectFrom('job_variables')
      .select(['key', 'source'])
      .where('job_id', '=', gate)
      .execute();
    expect(variables).toEqual([{ key: 'HOW', source: 'manual' }]);
    await scene.finish(id, 'gate');
    await scene.finish(id, 'after');
    expect(await scene.statusOf(id)).toBe('success');
    expect((await scene.client.post(`${scene.path}/jobs/${await scene.jobId(id, 'after')}/play`)).body).toEqual({
      message: '400 Bad request - Unplayable Job',
    });
  });

  it('retries a failed job by itself as often as the file says, and by hand as a new row', async () => {
    const scene = await pipelineScene(
      app(),
      `
flaky: {stage: build, script: [x], retry: {max: 1, when: runner_system_failure}}
next: {stage: test, script: [x]}
`,
    );
    const { id } = await scene.newest();
    const first = await scene.finish(id, 'flaky', { status: 'failed', failure_reason: 'runner_system_failure' });
    const second = await scene.jobId(id, 'flaky');
    expect(second).toBeGreaterThan(first);
    expect(await scene.shown(id)).toBe('next created, flaky pending');
    await scene.finish(id, 'flaky', { status: 'failed', failure_reason: 'runner_system_failure' });
    expect(await scene.shown(id)).toBe('next skipped, flaky failed');
    const again = await scene.client.post(`${scene.path}/jobs/${second}/retry`, {
      job_variables_attributes: [{ key: 'HOW', value: 'again' }],
    });
    const given = await db().selectFrom('job_variables').select('key').where('job_id', '=', again.body.id).execute();
    expect(given).toEqual([{ key: 'HOW' }]);
    expect([again.status, again.body.status, again.body.name]).toEqual([201, 'pending', 'flaky']);
    expect((await scene.client.post(`${scene.path}/jobs/${second}/retry`)).body).toEqual({
      message: '403 Forbidden - Job is not retryable',
    });
    await app().settle();
    expect(await scene.shown(id)).toBe('next created, flaky pending');
    const all = await scene.client.get(`${scene.path}/pipelines/${id}/jobs?include_retried=true`);
    expect(all.body).toHaveLength(4);
    await scene.finish(id, 'flaky');
    await scene.finish(id, 'next');
    expect(await scene.statusOf(id)).toBe('success');
  });

  it('runs its failed and canceled jobs again', async () => {
    const scene = await pipelineScene(app(), 'a: {stage: build, script: [x]}\nb: {stage: test, script: [x]}');
    const { id } = await scene.newest();
    await scene.finish(id, 'a', 'failed');
    expect(await scene.shown(id)).toBe('a failed, b skipped');
    const retried = await scene.client.post(`${scene.path}/pipelines/${id}/retry`);
    expect([retried.status, retried.body.status]).toEqual([201, 'pending']);
    expect(await scene.shown(id)).toBe('b created, a pending');
    const canceled = await scene.client.post(`${scene.path}/pipelines/${id}/cancel`);
    expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled']);
    expect(await scene.shown(id)).toBe('b canceled, a canceled');
    expect((await scene.client.post(`${scene.path}/pipelines/${id}/cancel`)).status).toBe(200);
  });

  it('cancels a running job at once, or lets a runner that can stop gracefully report its end', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x]}\nb: {script: [x]}\nc: {script: [x]}');
    const { id } = await scene.newest();
    const cancel = (job: number, query = '') => scene.client.post(`${scene.path}/jobs/${job}/cancel${query}`);
    const a = await scene.run(id, 'a');
    expect((await cancel(a)).body.status).toBe('canceled');
    await db()
      .updateTable('runner_managers')
      .set({ features: JSON.stringify({ cancel_gracefully: true }) })
      .where('id', '=', scene.runner.manager_id)
      .execute();
    const b = await scene.run(id, 'b');
    expect((await cancel(b)).body.status).toBe('canceling');
    const ended = await app()
      .context()
      .transaction((tx) => finishJob(tx, b, { status: 'success' }));
    expect(ended).toEqual({ status: 'canceled', retried_as: null });
    const c = await scene.run(id, 'c');
    expect((await cancel(c, '?force=true')).status).toBe(400);
    await cancel(c);
    expect((await cancel(c, '?force=true')).body.status).toBe('canceled');
    expect(await scene.statusOf(id)).toBe('canceled');
  });

  it('gives a job to one of two runners, and ends it once', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x]}');
    const { id } = await scene.newest();
    const job = await scene.jobId(id, 'a');
    const assignment = { id: job, runner_id: scene.runner.id, runner_manager_id: null, timeout: 60 };
    const run = () =>
      app()
        .context()
        .transaction((tx) => runJobs(tx, [assignment]));
    const started = (await Promise.all([run(), run(), run()])).flatMap((ids) => [...ids]);
    expect(started).toEqual([job]);
    await app().settle();
    expect(await scene.statusOf(id)).toBe('running');
    // It was about to fail while it was pending.
    const late = app()
      .context()
      .transaction((tx) => finishJob(tx, job, { status: 'failed' }, 'pending'));
    expect(await late).toBeNull();
    const end = () =>
      app()
        .context()
        .transaction((tx) => finishJob(tx, job, { status: 'success' }));
    const ended = await Promise.all([end(), end(), end()]);
    expect(ended.filter((each) => each !== null)).toHaveLength(1);
    const { rows } = await app().hub.services.pool.query(
      `select kind, payload ->> 'status' as status from events where project_id = $1
         and (kind like 'job.%' or kind like 'pipeline.%') order by id`,
      [scene.project.id],
    );
    expect(rows.map(({ kind, status }) => `${kind} ${status}`)).toEqual([
      'job.created created',
      'job.updated pending',
      'pipeline.created pending',
      'job.updated running',
      'pipeline.updated running',
      'job.updated success',
      'pipeline.updated success',
    ]);
  });

  it('cancels its other jobs when one fails, if the file says so', async () => {
    const scene = await pipelineScene(
      app(),
      'workflow: {auto_cancel: {on_job_failure: all}}\na: {script: [x]}\nb: {script: [x]}',
    );
    const { id } = await scene.newest();
    await scene.finish(id, 'a', 'failed');
    expect(await scene.shown(id)).toBe('a failed, b canceled');
  });

  it('may fail with the exit codes that a job allows', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x], allow_failure: {exit_codes: [3]}}');
    const { id } = await scene.newest();
    await scene.finish(id, 'a', { status: 'failed', exit_code: 3 });
    expect(await scene.statusOf(id)).toBe('success');
  });

  it('starts a delayed job when its time has come, and not before', async () => {
    const scene = await pipelineScene(
      app(),
      'a: {script: [x], when: delayed, start_in: 1 hour}\nb: {script: [x], when: delayed, start_in: 1 second}',
    );
    const { id } = await scene.newest();
    const a = await scene.jobId(id, 'a');
    const row = await db().selectFrom('jobs').select(['status', 'scheduled_at']).where('id', '=', a).executeTakeFirst();
    expect(row).toMatchObject({ status: 'scheduled', scheduled_at: expect.any(String) });
    await expect.poll(async () => (await scene.jobs(id)).b?.status, { timeout: 10_000 }).toBe('pending');
    expect((await scene.client.post(`${scene.path}/jobs/${a}/play`)).body.status).toBe('pending');
  });
});

describe('a resource group', () => {
  it('lets one job run at a time', async () => {
    const scene = await pipelineScene(app(), 'deploy: {script: [x], resource_group: production}', {
      auto_cancel_pending_pipelines: 'disabled',
    });
    await app().settle();
    const first = await scene.newest();
    await scene.change();
    await app().settle();
    const second = await scene.newest();
    expect(await scene.shown(first.id)).toBe('deploy pending');
    expect(await scene.shown(second.id)).toBe('deploy waiting_for_resource');
    expect(await scene.statusOf(second.id)).toBe('waiting_for_resource');
    await scene.finish(first.id, 'deploy', 'failed');
    expect(await scene.shown(second.id)).toBe('deploy pending');
  });

  it.each([
    ['newest_first', [2, 1]],
    ['newest_ready_first', [2, 1]],
    ['oldest_first', [1, 2]],
  ] as const)('serves waiting jobs in the mode %s', async (process_mode, order) => {
    const scene = await pipelineScene(app(), 'deploy: {script: [x], resource_group: production}', {
      auto_cancel_pending_pipelines: 'disabled',
    });
    await db()
      .updateTable('resource_groups')
      .set({ process_mode })
      .where('project_id', '=', scene.project.id)
      .execute();
    const ids = [(await scene.newest()).id];
    for (let n = 0; n < 2; n++) {
      await scene.change();
      ids.push((await scene.newest()).id);
    }
    await scene.finish(ids[0] ?? 0, 'deploy');
    for (const at of order) {
      expect(await scene.shown(ids[at] ?? 0)).toBe('deploy pending');
      await scene.finish(ids[at] ?? 0, 'deploy');
    }
  });
});

describe('auto-cancel', () => {
  const FILE = 'a: {script: [x], interruptible: true}\nb: {script: [x]}';

  it('cancels an older pipeline of the branch, unless a job that must not be interrupted has started', async () => {
    const scene = await pipelineScene(app(), FILE);
    const first = await scene.newest();
    await scene.run(first.id, 'a');
    // A commit that runs nothing replaces nothing.
    await scene.change({ message: 'Words [skip ci]' });
    expect(await scene.statusOf(first.id)).toBe('running');
    await scene.change();
    expect(await scene.statusOf(first.id)).toBe('canceled');
    const second = await scene.newest();
    await scene.run(second.id, 'b');
    await scene.change();
    expect(await scene.shown(second.id)).toBe('a pending, b running');
    const canceled = await db()
      .selectFrom('pipelines')
      .select('auto_canceled_by_id')
      .where('id', '=', first.id)
      .executeTakeFirst();
    expect(canceled).toEqual({ auto_canceled_by_id: second.id });
  });

  it('cancels only interruptible jobs, or nothing, if the file or the project says so', async () => {
    const some = await pipelineScene(app(), `workflow: {auto_cancel: {on_new_commit: interruptible}}\n${FILE}`);
    const first = await some.newest();
    await some.change();
    expect(await some.shown(first.id)).toBe('a canceled, b pending');
    const none = await pipelineScene(app(), `workflow: {auto_cancel: {on_new_commit: none}}\n${FILE}`);
    const second = await none.newest();
    await none.change();
    expect(await none.shown(second.id)).toBe('a pending, b pending');
    const off = await pipelineScene(app(), FILE, { auto_cancel_pending_pipelines: 'disabled' });
    const third = await off.newest();
    await off.change();
    expect(await off.shown(third.id)).toBe('a pending, b pending');
    await cancelRedundant.run(app().context(), { id: (await off.newest()).id }, NO_RUN);
    expect(await off.shown(third.id)).toBe('a canceled, b canceled');
  });
});

describe('the sweep', () => {
  it('ends jobs that nothing moves any more', async () => {
    const scene = await pipelineScene(
      app(),
      `
waits: {script: [x], tags: [rare]}
long: {script: [x], tags: [rare]}
silent: {script: [x]}
overdue: {script: [x]}
heard: {script: [x]}
late: {script: [x], when: delayed, start_in: 1 week}
stops: {script: [x]}
bridge: {script: [x], tags: [rare]}
young: {script: [x], tags: [rare]}
`,
    );
    const { id } = await scene.newest();
    for (const name of ['silent', 'overdue', 'heard', 'stops']) await scene.run(id, name);
    const old = (name: string, set: string) =>
      app().hub.services.pool.query(`update jobs set ${set} where pipeline_id = $1 and name = $2`, [id, name]);
    await old('waits', "queued_at = now() - interval '2 hours'");
    await old('silent', "contacted_at = now() - interval '61 minutes'");
    await old('overdue', "started_at = now() - interval '71 minutes'");
    await old('heard', "contacted_at = now() - interval '61 minutes'");
    await recordContact(app().context(), await scene.jobId(id, 'heard'));
    await old('late', "scheduled_at = now() - interval '2 hours'");
    await old('bridge', "kind = 'bridge', queued_at = now() - interval '61 minutes'");
    await old('young', "kind = 'bridge', queued_at = now() - interval '59 minutes'");
    await old('stops', "status = 'canceling', updated_at = now() - interval '31 minutes'");
    await sweepJobs.run(app().context(), {}, NO_RUN);
    const jobs = await scene.jobs(id);
    const found = Object.fromEntries(
      Object.entries(jobs).map(([name, { status, failure_reason }]) => [name, [status, failure_reason]]),
    );
    expect(found).toEqual({
      waits: ['failed', 'stuck_or_timeout_failure'],
      long: ['pending', undefined],
      silent: ['failed', 'stuck_or_timeout_failure'],
      overdue: ['failed', 'job_execution_timeout'],
      heard: ['running', undefined],
      late: ['failed', 'stale_schedule'],
      stops: ['canceled', undefined],
      bridge: ['failed', 'stuck_or_timeout_failure'],
      young: ['pending', undefined],
    });
  });
});

describe('people', () => {
  it('need the Developer role to move jobs, and the role that the project demands to cancel', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x]}\nm: {script: [x], when: manual}');
    const { id } = await scene.newest();
    const [developer, reporter, stranger] = await Promise.all([
      app().make.user(),
      app().make.user(),
      app().make.user(),
    ]);
    await app().make.projectMember(scene.project, developer, 30);
    await app().make.projectMember(scene.project, reporter, 20);
    const manual = await scene.jobId(id, 'm');
    const calls = [
      `/pipelines/${id}/retry`,
      `/pipelines/${id}/cancel`,
      `/jobs/${manual}/play`,
      `/jobs/${manual}/retry`,
      `/jobs/${manual}/cancel`,
    ];
    for (const call of calls) {
      expect(
        (
          await app()
            .as(reporter)
            .post(scene.path + call)
        ).status,
        call,
      ).toBe(403);
      expect(
        (
          await app()
            .as(stranger)
            .post(scene.path + call)
        ).status,
        call,
      ).toBe(404);
      expect((await app().anonymous.post(scene.path + call)).status, call).toBe(401);
    }
    // The default branch is protected.
    expect((await app().as(developer).post(`${scene.path}/jobs/${manual}/play`)).status).toBe(403);
    await scene.client.put(scene.path, { ci_restrict_pipeline_cancellation_role: 'maintainer' });
    expect((await app().as(developer).post(`${scene.path}/pipelines/${id}/cancel`)).status).toBe(403);
    expect(await scene.shown(id)).toBe('a pending, m manual');
    const developers = app().as(developer);
    expect((await developers.put(`${scene.path}/pipelines/${id}/metadata`, { name: 'Nightly' })).body.name).toBe(
      'Nightly',
    );
    expect((await developers.delete(`${scene.path}/pipelines/${id}`)).status).toBe(403);
    expect((await scene.client.delete(`${scene.path}/pipelines/${id}`)).status).toBe(204);
    expect((await scene.client.get(`${scene.path}/pipelines/${id}`)).status).toBe(404);
  });
});
