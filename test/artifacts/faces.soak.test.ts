import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { compiledJob } from '../support/runner/queue.ts';
import { endJob, insertRunningJob, makeJobScene, upload, zipOf } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;

const gid = (model: string, id: number) => `gid://gitlab/${model}/${id}`;

const ARTIFACTS = `query ($path: ID!, $id: JobID!) { project(fullPath: $path) { job(id: $id) {
  artifacts { nodes { id name fileType size expireAt downloadPath } } } } }`;

describe('artifacts in GraphQL', () => {
  it('are listed below their job', async () => {
    const { job, project, reporter } = await makeJobScene(app());
    const zip = await zipOf({ a: 'a' });
    await upload(app(), job, zip);
    await upload(app(), job, 'x', { query: 'artifact_type=sast&artifact_format=raw&expire_in=never', filename: 'r' });
    const { data } = await reporter.graphql(ARTIFACTS, {
      path: project.path_with_namespace,
      id: gid('Ci::Build', job.id),
    });
    expect(data.project.job.artifacts.nodes).toEqual([
      {
        id: expect.stringMatching(/^gid:\/\/gitlab\/Ci::JobArtifact\/\d+$/),
        name: 'artifacts.zip',
        fileType: 'ARCHIVE',
        size: zip.length,
        expireAt: expect.any(String),
        downloadPath: `/api/v4/projects/${project.id}/jobs/${job.id}/artifacts`,
      },
      {
        ...{ id: expect.any(String), name: 'r', fileType: 'SAST', size: 1, expireAt: null },
        downloadPath: `/api/v4/projects/${project.id}/jobs/${job.id}/artifacts?file_type=sast`,
      },
    ]);
  });

  it('are listed for a pipeline', async () => {
    const { job, project, reporter } = await makeJobScene(app());
    const other = await insertRunningJob(app(), { project_id: project.id });
    await upload(app(), job, await zipOf({ a: 'a' }));
    await upload(app(), job, 'x', { query: 'artifact_type=sast&artifact_format=raw', filename: 'r' });
    await upload(app(), other, await zipOf({ b: 'b' }), { filename: 'other.zip' });
    const query = `query ($path: ID!) { project(fullPath: $path) { pipelines(first: 2) { nodes {
      jobArtifacts { name fileType } } } } }`;
    const { data } = await reporter.graphql(query, { path: project.path_with_namespace });
    expect(data.project.pipelines.nodes).toEqual([
      { jobArtifacts: [{ name: 'other.zip', fileType: 'ARCHIVE' }] },
      {
        jobArtifacts: [
          { name: 'artifacts.zip', fileType: 'ARCHIVE' },
          { name: 'r', fileType: 'SAST' },
        ],
      },
    ]);
  });

  it('are destroyed by job and by id, kept, and expired', async () => {
    const { job, project, maintainer, reporter, owner } = await makeJobScene(app());
    const second = await insertRunningJob(app(), { project_id: project.id });
    const foreign = (await makeJobScene(app())).job;
    for (const each of [job, second, foreign]) await upload(app(), each, await zipOf({ a: 'a' }));
    const idOf = async (jobId: number) =>
      (await db().selectFrom('job_artifacts').select('id').where('job_id', '=', jobId).executeTakeFirstOrThrow()).id;
    const mutate = async (who: typeof owner, name: string, type: string, input: object, fields: string) => {
      const query = `mutation ($input: ${type}!) { ${name}(input: $input) { ${fields} errors } }`;
      const { data, errors } = await who.graphql(query, { input });
      return errors ? errors[0]?.extensions?.code : data[name];
    };
    const id = gid('Ci::Build', job.id);
    const keep = (who: typeof owner) =>
      mutate(who, 'jobArtifactsKeep', 'JobArtifactsKeepInput', { id }, 'job { artifacts { nodes { expireAt } } }');
    expect(await keep(reporter)).toBe('FORBIDDEN');
    expect(await keep(owner)).toEqual({ job: { artifacts: { nodes: [{ expireAt: null }] } }, errors: [] });

    const destroy = (who: typeof owner) =>
      mutate(who, 'jobArtifactsDestroy', 'JobArtifactsDestroyInput', { id }, 'job { id } destroyedArtifactsCount');
    expect(await destroy(reporter)).toBe('FORBIDDEN');
    expect(await destroy(maintainer)).toEqual({ job: { id }, destroyedArtifactsCount: 1, errors: [] });

    await upload(app(), job, await zipOf({ a: 'a' }));
    const artifact = { id: gid('Ci::JobArtifact', await idOf(job.id)) };
    const destroyOne = (who: typeof owner) =>
      mutate(who, 'artifactDestroy', 'ArtifactDestroyInput', artifact, 'artifact { id fileType }');
    expect(await destroyOne(reporter)).toBe('FORBIDDEN');
    expect(await destroyOne(app().as(await app().make.user()))).toBe('NOT_FOUND');
    expect(await destroyOne(maintainer)).toEqual({ artifact: { ...artifact, fileType: 'ARCHIVE' }, errors: [] });
    expect(await destroyOne(maintainer)).toBe('NOT_FOUND');

    const ids = [await idOf(second.id), await idOf(foreign.id)].map((each) => gid('Ci::JobArtifact', each));
    const bulk = (who: typeof owner, given: readonly string[]) =>
      mutate(
        who,
        'bulkDestroyJobArtifacts',
        'BulkDestroyJobArtifactsInput',
        { projectId: gid('Project', project.id), ids: given },
        'destroyedCount destroyedIds',
      );
    expect(await bulk(reporter, ids)).toBe('FORBIDDEN');
    expect((await bulk(maintainer, [])).errors).toEqual(['IDs array of job artifacts can not be empty']);
    expect(
      (
        await bulk(
          maintainer,
          Array.from({ length: 51 }, () => ids[0] ?? ''),
        )
      ).errors,
    ).toEqual(['The maximum number of job artifacts is 50']);
    expect(await bulk(maintainer, ids)).toEqual({ destroyedCount: 1, destroyedIds: [ids[0]], errors: [] });
    expect(await idOf(foreign.id)).toBeGreaterThan(0);

    await upload(app(), job, await zipOf({ a: 'a' }));
    const erase = (who: typeof owner) =>
      mutate(who, 'jobErase', 'JobEraseInput', { id }, 'job { erasedAt artifacts { nodes { id } } }');
    expect(await erase(reporter)).toBe('FORBIDDEN');
    expect(await erase(maintainer)).toBe('FORBIDDEN');
    await db().updateTable('jobs').set({ status: 'success' }).where('id', '=', job.id).execute();
    expect(await erase(maintainer)).toMatchObject({
      job: { erasedAt: expect.any(String), artifacts: { nodes: [] } },
      errors: [],
    });

    await upload(app(), second, await zipOf({ a: 'a' }));
    const expire = (who: typeof owner) =>
      mutate(
        who,
        'projectArtifactsExpire',
        'ProjectArtifactsExpireInput',
        { projectPath: project.path_with_namespace },
        'clientMutationId',
      );
    expect(await expire(reporter)).toBe('FORBIDDEN');
    expect(await expire(maintainer)).toEqual({ clientMutationId: null, errors: [] });
    await app().settle();
    await expect(idOf(second.id)).rejects.toThrow();
  });
});

describe('the token of a running job', () => {
  it('downloads artifacts of its project until the job ends', async () => {
    const { job, project, people, path } = await makeJobScene(app());
    const options = JSON.stringify({ artifacts: { access: 'none' } });
    const earlier = await insertRunningJob(app(), { project_id: project.id }, { options });
    await upload(app(), earlier, await zipOf({ a: 'a' }));
    await db().updateTable('jobs').set({ user_id: people.reporter.id }).where('id', '=', job.id).execute();
    const get = async (url: string, token: string) =>
      (await app().anonymous.fetch('GET', url, undefined, { 'job-token': token })).status;
    const runner = `/jobs/${earlier.id}/artifacts`;
    expect(await get(runner, job.token)).toBe(403);
    const needs = { project: null, ref: null, pipeline: String(earlier.pipelineId), job: 'compile', artifacts: true };
    await db()
      .updateTable('jobs')
      .set({ options: JSON.stringify(compiledJob({ name: 'compile', cross_needs: [needs] })) })
      .where('id', '=', job.id)
      .execute();
    await db().updateTable('pipelines').set({ bridge_job_id: earlier.id }).where('id', '=', job.pipelineId).execute();
    await endJob(app(), earlier);
    expect(await get(`${runner}?direct_download=true`, job.token)).toBe(200);
    expect(await get(`${path}/jobs/${earlier.id}/artifacts`, job.token)).toBe(403);
    expect(await get(`/jobs/${job.id}/artifacts`, job.token)).toBe(404);
    await upload(app(), job, await zipOf({ a: 'a' }));
    expect(await get(`${path}/jobs/${job.id}/artifacts/a`, job.token)).toBe(200);
    expect((await app().anonymous.get(`${path}/jobs/${job.id}/artifacts?job_token=${job.token}`)).status).toBe(200);
    expect(await get(runner, 'glcbt-wrong')).toBe(401);
    const other = await makeJobScene(app());
    await upload(app(), other.job, await zipOf({ a: 'a' }));
    const unseen = await app().anonymous.get(`/jobs/${other.job.id}/artifacts`, { 'job-token': job.token });
    const missing = await app().anonymous.get('/jobs/999999999/artifacts', { 'job-token': job.token });
    expect([unseen.status, unseen.body]).toEqual([404, missing.body]);
    await endJob(app(), job);
    expect(await get(runner, job.token)).toBe(401);
  });
});
