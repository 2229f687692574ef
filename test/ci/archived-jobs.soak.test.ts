import { sql } from 'kysely';
import { afterEach, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner } from '../support/runner/queue.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
const set = async (settings: Record<string, unknown>) =>
  expect((await app().as(app().root).put('/application/settings', settings)).status).toBe(200);
const age = (ids: readonly number[], days: number) =>
  sql`update jobs set created_at = now() - make_interval(days => ${days}) where id = any (${ids}::bigint[])`.execute(
    app().hub.services.db,
  );

afterEach(() =>
  set({ archive_builds_in_human_readable: '', downstream_pipeline_trigger_limit_per_project_user_sha: 0 }),
);

describe('archive_builds_in_human_readable', () => {
  it('archives old jobs: they are shown, but never run again', async () => {
    const scene = await pipelineScene(
      app(),
      'fails: {script: [x]}\nnew: {script: [x]}\ngate: {script: [x], when: manual}\nwaits: {script: [x], tags: [old]}',
    );
    const { id } = await scene.newest();
    await scene.finish(id, 'fails', 'failed');
    await scene.finish(id, 'new', 'failed');
    const jobs = await scene.jobs(id);
    const [fails, gate, waits] = [jobs.fails?.id ?? 0, jobs.gate?.id ?? 0, jobs.waits?.id ?? 0];
    await age([fails, gate, waits], 20);
    const archived = async () => {
      const { body } = await scene.client.get(`${scene.path}/pipelines/${id}/jobs`);
      return body.flatMap((job: { name: string; archived: boolean }) => (job.archived ? [job.name] : [])).sort();
    };
    const flags = async () => {
      const { data, errors } = await scene.client.graphql(`{ project(fullPath: "${scene.project.path_with_namespace}") {
        pipelines(first: 1) { nodes { retryable jobs(first: 10) { nodes { name retryable playable canPlayJob } } } } } }`);
      expect(errors).toBeUndefined();
      const [pipeline] = data.project.pipelines.nodes;
      const able = (flag: string) =>
        pipeline.jobs.nodes.flatMap((job: Record<string, unknown>) => (job[flag] ? [job.name] : [])).sort();
      return [pipeline.retryable, able('retryable'), able('playable'), able('canPlayJob')];
    };
    expect(await archived()).toEqual([]);
    expect(await flags()).toEqual([true, ['fails', 'new'], ['gate'], ['gate']]);
    await set({ archive_builds_in_human_readable: '15 days' });
    expect(await archived()).toEqual(['fails', 'gate', 'waits']);
    expect(await flags()).toEqual([true, ['new'], [], []]);
    const retry = await scene.client.post(`${scene.path}/jobs/${fails}/retry`);
    expect([retry.status, retry.body]).toEqual([403, { message: '403 Forbidden - Job is archived' }]);
    expect((await scene.client.post(`${scene.path}/jobs/${gate}/play`)).status).toBe(403);
    // A runner does not get it either.
    const { token } = await makeRunner(app(), { tag_list: ['old'] });
    const protocol = new Protocol({ url: app().url, token });
    expect(await protocol.request()).toBeNull();
    expect((await scene.jobs(id)).waits).toMatchObject({ status: 'failed', failure_reason: 'archived_failure' });
    // A retry of the pipeline leaves archived jobs as they are.
    expect((await scene.client.post(`${scene.path}/pipelines/${id}/retry`)).status).toBe(201);
    expect(await scene.shown(id)).toMatch(/fails failed.*waits failed.*new pending/);
    await set({ archive_builds_in_human_readable: '1 month' });
    expect((await scene.client.post(`${scene.path}/jobs/${fails}/retry`)).status).toBe(201);
  });
});

describe('downstream_pipeline_trigger_limit_per_project_user_sha', () => {
  it('fails the trigger jobs above the limit', async () => {
    const file = `
a: {trigger: {include: child.yml}, when: manual}
b: {trigger: {include: child.yml}, when: manual}
c: {trigger: {include: child.yml}, when: manual}
`;
    const scene = await pipelineScene(app(), file);
    await scene.commit({ 'child.yml': 'x: {script: [x]}' });
    const { id } = await scene.newest();
    const play = async (name: string) => {
      await scene.client.post(`${scene.path}/jobs/${await scene.jobId(id, name)}/play`);
      await app().settle();
      const job = (await scene.jobs(id))[name];
      return job?.failure_reason ?? job?.status;
    };
    await set({ downstream_pipeline_trigger_limit_per_project_user_sha: 1 });
    expect([await play('a'), await play('b')]).toEqual(['success', 'reached_downstream_pipeline_trigger_rate_limit']);
    await set({ downstream_pipeline_trigger_limit_per_project_user_sha: 0 });
    expect(await play('c')).toBe('success');
  });
});
