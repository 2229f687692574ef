import { describe, expect, it } from 'vitest';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type RunningJob, upload, zipOf } from '../artifacts/support.ts';
import { useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner } from '../support/runner/queue.ts';
import { pipelineScene, type Scene } from './pipeline-scene.ts';

const app = useApp();

/** Runs a job that leaves an archive with these files. */
const leave = async (scene: Scene, pipelineId: number, name: string, files: Record<string, string>) => {
  const id = await scene.run(pipelineId, name);
  const job: RunningJob = { id, pipelineId, token: `glcbt-${randomToken()}` };
  const { db } = app().hub.services;
  await db
    .updateTable('jobs')
    .set({ token_digest: digestToken(job.token) })
    .where('id', '=', id)
    .execute();
  expect((await upload(app(), job, await zipOf(files))).status).toBe(201);
  await scene.end(id);
  return id;
};

const GENERATING = `
generate: {stage: build, script: [x], artifacts: {paths: [out]}}
plain: {stage: build, script: [x]}
start: {stage: test, variables: {NAME: out/child.yml}, trigger: {include: [{artifact: $NAME, job: generate}], strategy: depend}}
`;

describe('include:artifact', () => {
  const startedWith = async (files: Record<string, string>, file = GENERATING) => {
    const scene = await pipelineScene(app(), file);
    await scene.commit({ 'part.yml': 'part: {script: [x]}' });
    const { id } = await scene.newest();
    await scene.finish(id, 'plain');
    await leave(scene, id, 'generate', files);
    const [child] = await scene.pipelines('?source=parent_pipeline');
    const errors = child ? (await scene.client.get(`${scene.path}/pipelines/${child.id}`)).body.yaml_errors : null;
    return { scene, id, child, errors };
  };

  it('starts a child pipeline from a file that a job wrote, with local includes of the commit', async () => {
    const { scene, id, child } = await startedWith({ 'out/child.yml': 'include: part.yml\ninner: {script: [x]}' });
    expect(await scene.shown(child?.id ?? 0)).toBe('part pending, inner pending');
    expect(await scene.shown(id)).toBe('generate success, plain success, start running');
  });

  it.each([
    [{ 'out/other.yml': 'a: {script: [x]}' }, GENERATING, 'Artifact file `$NAME` of job `generate` does not exist!'],
    [{ 'out/child.yml': '- broken' }, GENERATING, '`$NAME`: Invalid configuration format'],
    [
      { x: '' },
      GENERATING.replace('job: generate', 'job: plain'),
      'Job `plain` not found in parent pipeline or does not have artifacts!',
    ],
    [{ x: '' }, GENERATING.replace('$NAME', 'a.txt'), 'Included file `a.txt` does not have YAML extension!'],
    [{ x: '' }, GENERATING.replace('$NAME', '../a.yml'), 'Artifact file `../a.yml` of job `generate` does not exist!'],
  ])('fails the bridge and stores why (%#)', async (files, file, error) => {
    const { scene, id, errors } = await startedWith(files, file);
    expect(errors).toBe(error);
    expect((await scene.jobs(id)).start).toMatchObject({
      status: 'failed',
      failure_reason: 'downstream_pipeline_creation_failed',
    });
  });
});

describe('needs:project', () => {
  it('gives a job the newest archive of a job of another project that accepts its token', async () => {
    const producer = await pipelineScene(app(), 'compile: {script: [x], artifacts: {paths: [out]}}');
    const { id } = await producer.newest();
    const made = await leave(producer, id, 'compile', { out: 'made' });
    const needed = `{project: $GROUP/${producer.project.path}, ref: main, job: compile, artifacts: true}`;
    const consumer = await pipelineScene(
      app(),
      `use: {script: [x], needs: [${needed}], variables: {GROUP: $CI_PROJECT_NAMESPACE}}
absent: {script: [x], needs: [{project: no/where, ref: main, job: compile, artifacts: true}]}
ordered: {script: [x], needs: [{project: no/where, ref: main, job: compile, artifacts: false}]}`,
      {},
      producer.owner,
    );
    const { token } = await makeRunner(app(), { runner_type: 'project_type', project_id: consumer.project.id });
    const protocol = new Protocol({ url: app().url, token });
    const first = await consumer.newest();
    const request = async () => {
      protocol.lastUpdate = '';
      const job = await protocol.request();
      await app().settle();
      return job;
    };
    // The other project does not accept the token yet. Without artifacts there is nothing to download.
    expect(await request()).toMatchObject({ job_info: { name: 'ordered' }, dependencies: [] });
    expect((await consumer.jobs(first.id)).use).toMatchObject({ failure_reason: 'missing_dependency_failure' });
    expect((await consumer.jobs(first.id)).absent).toMatchObject({ failure_reason: 'missing_dependency_failure' });
    await producer.client.post(`${producer.path}/job_token_scope/allowlist`, {
      target_project_id: consumer.project.id,
    });
    const use = (await consumer.jobs(first.id)).use?.id ?? 0;
    await consumer.client.post(`${consumer.path}/jobs/${use}/retry`);
    const job = await request();
    expect(job?.dependencies).toEqual([
      {
        id: made,
        name: 'compile',
        token: job?.token,
        artifacts_file: { filename: 'artifacts.zip', size: expect.any(Number) },
      },
    ]);
    const archive = await app().anonymous.get(`/jobs/${made}/artifacts`, { 'job-token': job?.token ?? '' });
    expect(archive.status).toBe(200);
    // A member of the consumer who cannot see the producer gets nothing.
    const other = await app().make.user();
    await app().make.projectMember(consumer.project, other, 40);
    const theirs = await app().as(other).post(`${consumer.path}/jobs/${job?.id}/cancel`);
    expect(theirs.status).toBe(201);
    await app().as(other).post(`${consumer.path}/jobs/${job?.id}/retry`);
    expect(await request()).toBeNull();
    expect((await consumer.jobs(first.id)).use).toMatchObject({ failure_reason: 'missing_dependency_failure' });
  });
});
