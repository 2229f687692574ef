import { expect, it } from 'vitest';
import { statusOf } from '#domains/ci/model.ts';
import { statusOfJobs } from '#domains/ci/processing/status.ts';
import { finishJob, runJobs } from '#domains/ci/transitions.ts';
import { useApp } from '../support/app.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();

const FILE = `
stages: [build, test, deploy]
${['a', 'b', 'c', 'd'].map((name) => `build ${name}: {stage: build, script: [x], retry: {max: 1}}`).join('\n')}
${['a', 'b', 'c', 'd'].map((name) => `test ${name}: {stage: test, script: [x], needs: ["build ${name}"]}`).join('\n')}
optional: {stage: test, script: [x], allow_failure: true}
always: {stage: deploy, script: [x], when: always}
deploy: {stage: deploy, script: [x], resource_group: one}
manual: {stage: deploy, script: [x], when: manual}
`;

/** Deterministic, so that a failure can be repeated. */
const randomOf = (seed: number) => () => {
  seed = (seed * 1_664_525 + 1_013_904_223) % 4_294_967_296;
  return seed / 4_294_967_296;
};

it.each([1, 2, 3, 4, 5, 6])(
  'keeps statuses true while runners and people race for the jobs of a pipeline (seed %i)',
  async (seed) => {
    const random = randomOf(seed);
    const scene = await pipelineScene(app(), FILE);
    const { id } = await scene.newest();
    const { db } = app().hub.services;
    const newest = () =>
      db
        .selectFrom('jobs')
        .selectAll()
        .where('pipeline_id', '=', id)
        .where('retried', '=', false)
        .orderBy('id')
        .execute();
    const successes = new Map<number, number>();
    const assignment = { runner_id: scene.runner.id, runner_manager_id: null, timeout: 60 };
    const act = async (): Promise<void> => {
      const jobs = await newest();
      const job = jobs[Math.floor(random() * jobs.length)];
      if (!job) return;
      const call = (path: string) => scene.client.post(`${scene.path}${path}`);
      const what = random();
      if (job.status === 'pending') {
        await app()
          .context()
          .transaction((tx) => runJobs(tx, [{ id: job.id, ...assignment }]));
      } else if (job.status === 'running' || job.status === 'canceling') {
        const status = random() < 0.75 ? 'success' : 'failed';
        const ended = await app()
          .context()
          .transaction((tx) => finishJob(tx, job.id, { status }));
        if (ended?.status === 'success') successes.set(job.id, (successes.get(job.id) ?? 0) + 1);
      } else if (what < 0.1) await call(`/jobs/${job.id}/retry`);
      else if (what < 0.2) await call(`/jobs/${job.id}/play`);
      else if (what < 0.25) await call(`/jobs/${job.id}/cancel`);
      else if (what < 0.27) await call(`/pipelines/${id}/cancel`);
      else if (what < 0.3) await call(`/pipelines/${id}/retry`);
    };
    const check = async (): Promise<void> => {
      await app().settle();
      const jobs = (await newest()).map((job) => ({ ...job, status: statusOf(job) }));
      expect(await scene.statusOf(id)).toBe(statusOfJobs(jobs));
      const names = jobs.map(({ name }) => name);
      expect(new Set(names).size).toBe(names.length);
      expect(names).toHaveLength(12);
      const holders = jobs.filter(
        ({ resource_group_id, status }) =>
          resource_group_id !== null && ['pending', 'running', 'canceling'].includes(status),
      );
      expect(holders.length).toBeLessThanOrEqual(1);
      expect(jobs.filter(({ status, token_digest }) => status !== 'running' && token_digest !== null)).toEqual([]);
      const stages = await db.selectFrom('stages').select(['id', 'status']).where('pipeline_id', '=', id).execute();
      for (const stage of stages) {
        expect(stage.status).toBe(statusOfJobs(jobs.filter(({ stage_id }) => stage_id === stage.id)));
      }
    };
    for (let round = 0; round < 12; round++) {
      await Promise.all(Array.from({ length: 12 }, act));
      await check();
    }
    // Nothing is lost: once nobody interferes, everything that waits for a runner can run to its end.
    for (let round = 0; round < 40; round++) {
      const pending = (await newest()).filter(({ status }) => status === 'pending' || status === 'running');
      if (pending.length === 0) break;
      for (const job of pending) {
        await app()
          .context()
          .transaction((tx) => runJobs(tx, [{ id: job.id, ...assignment }]));
        await app()
          .context()
          .transaction((tx) => finishJob(tx, job.id, { status: 'success' }));
      }
      await check();
    }
    const left = (await newest()).filter(
      ({ status }) => !['success', 'failed', 'canceled', 'skipped'].includes(status),
    );
    expect(left.filter(({ status }) => status !== 'manual' && status !== 'created')).toEqual([]);
    expect([...successes.values()].filter((times) => times > 1)).toEqual([]);
  },
  120_000,
);
