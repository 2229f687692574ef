import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { cancelJob } from '#domains/ci/commands.ts';
import { getProject } from '#domains/projects/queries.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { type JobOrder, Protocol } from '../support/runner/protocol.ts';
import { makeRunner, queuePipeline, statusOf } from '../support/runner/queue.ts';

const app = useApp();
const db = () => app().hub.services.db;
const bytes = (text: string) => Uint8Array.from(Buffer.from(text));
const checksum = (text: string) => `crc32:${crc32(text).toString(16).padStart(8, '0')}`;

/** A job that a runner has taken. */
const running = async (attributes: Parameters<typeof queuePipeline>[2][number] = { name: 'a' }) => {
  const made = await makeScene(app());
  const { project } = made;
  const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: project.id });
  const protocol = new Protocol({ url: app().url, token });
  const pipeline = await queuePipeline(app(), { project_id: project.id }, [attributes]);
  const job = await protocol.request();
  if (!job) throw new Error('no job was handed out');
  const log = async () => (await made.owner.get(`${made.path}/jobs/${job.id}/trace`)).body;
  return { ...made, protocol, job, pipeline, log };
};

const end = (protocol: Protocol, job: JobOrder, text: string, state = 'success', more = {}) =>
  protocol.update(job, { state, output: { checksum: checksum(text), bytesize: Buffer.byteLength(text) }, ...more });

describe('the state of a job', () => {
  it('is reported with the checksum of the log', async () => {
    const { protocol, job, pipeline } = await running();
    const alive = await protocol.update(job, { state: 'running' });
    expect([alive.status, alive.text, alive.headers.get('job-status')]).toEqual([200, '', 'running']);
    expect((await protocol.update(job, { state: 'pending' })).status).toBe(200);
    await protocol.patch(job, 0, bytes('hello\n'));
    const done = await end(protocol, job, 'hello\n');
    expect([done.status, done.headers.get('job-status')]).toEqual([200, 'success']);
    expect((await statusOf(app(), job.id)).status).toBe('success');
    const row = await db().selectFrom('pipelines').select('status').where('id', '=', pipeline.id).executeTakeFirst();
    expect(row?.status).toBe('success');
  });

  it('is a failure with a reason and an exit code', async () => {
    const { protocol, job, owner, path } = await running();
    await end(protocol, job, '', 'failed', { failure_reason: 'script_failure', exit_code: 3 });
    expect((await owner.get(`${path}/jobs/${job.id}`)).body).toMatchObject({
      status: 'failed',
      failure_reason: 'script_failure',
    });
    const { exit_code } = await db()
      .selectFrom('jobs')
      .select('exit_code')
      .where('id', '=', job.id)
      .executeTakeFirstOrThrow();
    expect(exit_code).toBe(3);
    const second = await running();
    await end(second.protocol, second.job, '', 'failed', { failure_reason: 'made_up' });
    expect(await statusOf(app(), second.job.id)).toEqual({ status: 'failed', failure_reason: 'unknown_failure' });
  });

  it('is not accepted before the whole log is there', async () => {
    const { protocol, job, log } = await running();
    await protocol.patch(job, 0, bytes('one\n'));
    expect((await end(protocol, job, 'one\ntwo\n')).status).toBe(412);
    // The stored part is kept, and the runner goes on after it.
    const again = await protocol.patch(job, 0, bytes('one\n'));
    expect([again.status, again.headers.get('range')]).toEqual([416, '0-4']);
    await protocol.patch(job, 4, bytes('two\n'));
    expect((await end(protocol, job, 'one\ntwo\n')).status).toBe(200);
    expect(await log()).toBe('one\ntwo\n');
  });

  it('waits for a log that is sent again after a wrong checksum', async () => {
    const { protocol, job, log } = await running();
    await protocol.patch(job, 0, bytes('oXe\n'));
    const legacy = await protocol.update(job, { state: 'success', checksum: checksum('one\n') });
    expect(legacy.status).toBe(412);
    expect((await protocol.patch(job, 0, bytes('one\n'))).status).toBe(202);
    expect((await end(protocol, job, 'one\n')).status).toBe(200);
    expect(await log()).toBe('one\n');
  });

  it('is accepted in the end from a runner that repeats a wrong checksum', async () => {
    const { protocol, job } = await running();
    const statuses: number[] = [];
    for (let tries = 0; tries < 4; tries++) {
      await protocol.patch(job, 0, bytes('one\n'));
      statuses.push((await end(protocol, job, 'two\n')).status);
    }
    expect(statuses).toEqual([412, 412, 412, 200]);
  });

  it('is answered with 202 while a part of the log is being stored', async () => {
    const { protocol, job } = await running();
    await protocol.patch(job, 0, bytes('one\n'));
    await app()
      .context()
      .transaction(async (tx) => {
        await tx.db.selectFrom('job_traces').select('size').where('job_id', '=', job.id).forUpdate().execute();
        const busy = await end(protocol, job, 'one\n');
        expect([busy.status, busy.headers.get('x-gitlab-trace-update-interval')]).toEqual([202, '1']);
      });
    expect((await end(protocol, job, 'one\n')).status).toBe(200);
  });

  it('is refused for other jobs, with a wrong token, and after the end', async () => {
    const { protocol, job } = await running();
    const other = await running();
    const refused = { message: '403 Forbidden - Job is not processing on runner' };
    const wrong = await protocol.update({ id: other.job.id, token: job.token }, { state: 'success' });
    expect([wrong.status, JSON.parse(wrong.text)]).toEqual([403, refused]);
    expect((await protocol.update({ id: job.id, token: 'glcbt-wrong' }, { state: 'success' })).status).toBe(403);
    expect((await app().anonymous.put(`/jobs/${job.id}`, { state: 'success' })).body).toEqual(refused);
    expect((await protocol.update(job, { state: 'unknown' })).status).toBe(400);
    expect(
      (await app().anonymous.put(`/jobs/${job.id}`, { state: 'success' }, { 'job-token': job.token })).status,
    ).toBe(200);
    const late = [await protocol.update(job, { state: 'success' }), await protocol.patch(job, 0, bytes('late'))];
    expect(late.map(({ status, headers }) => [status, headers.get('job-status')])).toEqual(
      Array(2).fill([403, 'success']),
    );
    expect(wrong.headers.get('job-status')).toBeNull();
    expect((await statusOf(app(), other.job.id)).status).toBe('running');
  });

  it('is a failure, and the runner stops, once the user is blocked', async () => {
    const { protocol, job, owner, maintainer, people, path } = await running();
    await db().updateTable('jobs').set({ user_id: people.maintainer.id }).where('id', '=', job.id).execute();
    const root = app().as(app().root);
    const artifacts = () => {
      const form = new FormData();
      form.set('file', new Blob(['x']), 'artifacts.zip');
      return app().anonymous.post(`/jobs/${job.id}/artifacts`, form, { 'job-token': job.token });
    };
    expect((await protocol.patch(job, 0, bytes('one\n'))).status).toBe(202);
    expect((await root.post(`/users/${people.maintainer.id}/block`)).status).toBe(201);
    expect((await artifacts()).status).toBe(403);
    expect((await statusOf(app(), job.id)).status).toBe('running');
    const reports = [await protocol.patch(job, 4, bytes('two\n')), await protocol.update(job, { state: 'success' })];
    expect(reports.map(({ status, headers }) => [status, headers.get('job-status')])).toEqual(
      Array(2).fill([403, 'failed']),
    );
    expect((await owner.get(`${path}/jobs/${job.id}`)).body).toMatchObject({
      status: 'failed',
      failure_reason: 'user_blocked',
    });
    // The job has ended: it stays so when the user may act again.
    expect((await root.post(`/users/${people.maintainer.id}/unblock`)).status).toBe(201);
    expect((await maintainer.get(`${path}/jobs/${job.id}/trace`)).body).toBe('one\n');
    expect((await protocol.update(job, { state: 'running' })).status).toBe(403);
  });

  it('sets the coverage from the last match in the log', async () => {
    const { protocol, job, owner, path } = await running({ name: 'a', coverage: 'TOTAL\\s+(\\d+\\.\\d+)%' });
    const text = `TOTAL 10.5%\n${'x'.repeat(100)}\nTOTAL  87.25%\nbye\n`;
    await protocol.patch(job, 0, bytes(text));
    await end(protocol, job, text);
    expect((await owner.get(`${path}/jobs/${job.id}`)).body.coverage).toBe(87.25);
  });

  it('sets the coverage by the pattern of the project if the job has none', async () => {
    const { protocol, job, owner, path } = await running();
    await owner.put(path, { build_coverage_regex: '/covered: (\\d+)%/' });
    await protocol.patch(job, 0, bytes('covered: 71%\n'));
    await end(protocol, job, 'covered: 71%\n');
    expect((await owner.get(`${path}/jobs/${job.id}`)).body.coverage).toBe(71);
    const other = await running();
    // Look-ahead is not part of RE2.
    await other.owner.put(other.path, { build_coverage_regex: '(?=x)' });
    await end(other.protocol, other.job, '');
    expect((await other.owner.get(`${other.path}/jobs/${other.job.id}`)).body).toMatchObject({
      ...{ status: 'success', coverage: null },
    });
  });

  it('stays canceled for every report of its runner after the cancellation', async () => {
    const { protocol, job, project } = await running();
    const ctx = app().context();
    await cancelJob(ctx, await getProject(ctx, { id: project.id }), job.id);
    const lastAnswer = await protocol.patch(job, 0, bytes('bye\n'));
    expect([lastAnswer.status, lastAnswer.headers.get('job-status')]).toEqual([202, 'canceling']);
    await end(protocol, job, 'bye\n', 'success');
    expect((await statusOf(app(), job.id)).status).toBe('canceled');
  });
});

describe('the log', () => {
  it('grows by parts that follow each other', async () => {
    const { protocol, job, log } = await running();
    const first = await protocol.patch(job, 0, bytes('\u001b[32mone\n'));
    expect([first.status, first.headers.get('range'), first.headers.get('job-status')]).toEqual([
      202,
      '0-9',
      'running',
    ]);
    expect(first.headers.get('x-gitlab-trace-update-interval')).toBe('60');
    expect(await log()).toBe('\u001b[32mone\n');
    const second = await protocol.patch(job, 9, bytes('two\n'));
    // Somebody has read the log.
    expect(second.headers.get('x-gitlab-trace-update-interval')).toBe('3');
    expect(await log()).toBe('\u001b[32mone\ntwo\n');
  });

  it('refuses parts that repeat, overlap or leave a gap, and says where to go on', async () => {
    const { protocol, job, log } = await running();
    await protocol.patch(job, 0, bytes('12345'));
    for (const start of [0, 3, 6, 1_000_000]) {
      const refused = await protocol.patch(job, start, bytes('abc'));
      expect([refused.status, refused.headers.get('range')]).toEqual([416, '0-5']);
      expect(JSON.parse(refused.text)).toEqual({ error: '416 Range Not Satisfiable' });
    }
    const cut = await protocol.patch(job, 5, bytes('67'), { range: '5-9' });
    expect([cut.status, cut.headers.get('range')]).toEqual([416, '0-5']);
    for (const range of ['', 'bytes 5-6', '5']) {
      expect((await protocol.patch(job, 5, bytes('67'), { range })).status).toBe(400);
    }
    expect(await log()).toBe('12345');
  });

  it('stores one of two parts that arrive at once', async () => {
    const { protocol, job, log } = await running();
    const replies = await Promise.all(['aaaa', 'bbbb', 'cccc'].map((text) => protocol.patch(job, 0, bytes(text))));
    expect(replies.map(({ status }) => status).sort()).toEqual([202, 416, 416]);
    expect(await log()).toMatch(/^(aaaa|bbbb|cccc)$/);
  });

  it('ends a job that prints more than the setting allows', async () => {
    const { protocol, job } = await running();
    const settings = app().as(app().root);
    await settings.put('/application/settings', { ci_jobs_trace_size_limit: 1 });
    try {
      const half = bytes('x'.repeat(700_000));
      expect((await protocol.patch(job, 0, half)).status).toBe(202);
      const refused = await protocol.patch(job, half.length, half);
      expect([refused.status, refused.headers.get('job-status')]).toEqual([403, 'failed']);
      expect(await statusOf(app(), job.id)).toEqual({ status: 'failed', failure_reason: 'trace_size_exceeded' });
    } finally {
      await settings.put('/application/settings', { ci_jobs_trace_size_limit: 100 });
    }
  });

  it('refuses a part that is too large before it arrives, and says how the job is', async () => {
    const { protocol, job, log } = await running();
    const part = bytes('x'.repeat(8 * 1024 * 1024 + 1));
    const refused = await protocol.patch(job, 0, part);
    expect([refused.status, refused.headers.get('job-status')]).toEqual([413, 'running']);
    const other = await protocol.patch({ ...job, token: 'glcbt-other' }, 0, part);
    expect(other.status).toBe(403);
    expect(await log()).toBe('');
  });

  it('is only for developers if the job prints its variables', async () => {
    const { protocol, job, reporter, owner, path } = await running();
    await protocol.patch(job, 0, bytes('++ TOKEN=x\n'), { debug: true });
    expect((await reporter.get(`${path}/jobs/${job.id}/trace`)).status).toBe(403);
    expect((await owner.get(`${path}/jobs/${job.id}/trace`)).body).toBe('++ TOKEN=x\n');
  });
});
