import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { expireArtifacts } from '#domains/artifacts/jobs.ts';
import { pipelineCreated, pipelineUpdated } from '#domains/ci/events.ts';
import { pipelinePayload } from '#domains/ci/payloads.ts';
import { appendTrace } from '#domains/traces/commands.ts';
import { archiveTraces } from '#domains/traces/jobs.ts';
import { removeDueFiles, reserveKeys } from '#platform/storage/removals.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { endJob, insertRunningJob, makeJobScene, type RunningJob, upload, zipOf } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;
const firstRun = { attempt: 1, lastAttempt: false };

const typesOf = async (jobId: number): Promise<string[]> =>
  (await db().selectFrom('job_artifacts').select('file_type').where('job_id', '=', jobId).execute())
    .map(({ file_type }) => file_type)
    .sort();

const storedFiles = async (projectId: number): Promise<number> => {
  let count = 0;
  for await (const _ of app().hub.services.storage.list(`artifacts/${projectId}/`)) count += 1;
  return count;
};

const sizeOf = async (project_id: number) =>
  (
    await db()
      .selectFrom('project_statistics')
      .select('job_artifacts_size')
      .where('project_id', '=', project_id)
      .executeTakeFirst()
  )?.job_artifacts_size;

const uploadTwo = async (job: RunningJob, query = '') => {
  await upload(app(), job, await zipOf({ a: 'a' }), { query });
  await upload(app(), job, 'report', { query: `artifact_type=sast&artifact_format=raw&${query}` });
};

const eventKinds = async (projectId: number, prefix = 'job_artifact') =>
  (await db().selectFrom('events').select('kind').where('project_id', '=', projectId).orderBy('id').execute())
    .map(({ kind }) => kind)
    .filter((kind) => kind.startsWith(prefix));

describe('keeping artifacts', () => {
  it('ends their expiry, and answers with the job', async () => {
    const { job, project, owner, reporter, guest, jobPath } = await makeJobScene(app());
    expect((await owner.post(`${jobPath}/artifacts/keep`)).status).toBe(404);
    await uploadTwo(job, 'expire_in=1+day');
    expect((await reporter.post(`${jobPath}/artifacts/keep`)).status).toBe(403);
    expect((await guest.post(`${jobPath}/artifacts/keep`)).status).toBe(403);
    const { status, body } = await owner.post(`${jobPath}/artifacts/keep`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: job.id,
      name: 'compile',
      artifacts_expire_at: null,
      download_url: `${app().url}/api/v4/projects/${project.id}/jobs/${job.id}/artifacts`,
    });
    expect(body.artifacts).toHaveLength(2);
    const rows = await db().selectFrom('job_artifacts').select('expire_at').where('job_id', '=', job.id).execute();
    expect(rows).toEqual([{ expire_at: null }, { expire_at: null }]);
    // Repeating it changes nothing.
    await owner.post(`${jobPath}/artifacts/keep`);
    expect(await eventKinds(project.id)).toEqual([
      'job_artifact.created',
      'job_artifact.created',
      'job_artifacts.kept',
    ]);
  });
});

describe('deleting artifacts', () => {
  it('of a job removes rows, files and their size, and is for maintainers', async () => {
    const { job, project, maintainer, reporter, jobPath } = await makeJobScene(app());
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    await uploadTwo(job);
    expect((await reporter.delete(`${jobPath}/artifacts`)).status).toBe(403);
    expect((await app().as(developer).delete(`${jobPath}/artifacts`)).status).toBe(403);
    expect((await app().anonymous.delete(`${jobPath}/artifacts`)).status).toBe(401);
    expect(await storedFiles(project.id)).toBe(3);
    expect((await maintainer.delete(`${jobPath}/artifacts`)).status).toBe(204);
    expect(await typesOf(job.id)).toEqual([]);
    await app().settle();
    expect([await storedFiles(project.id), await sizeOf(project.id)]).toEqual([0, 0]);
    expect((await maintainer.delete(`${jobPath}/artifacts`)).status).toBe(204);
    expect((await maintainer.delete(`${jobPath}0/artifacts`)).status).toBe(404);
    expect((await eventKinds(project.id)).at(-1)).toBe('job_artifacts.deleted');
  });

  it('of a project leaves locked ones', async () => {
    const { job, project, path, maintainer, reporter } = await makeJobScene(app());
    const locked = await insertRunningJob(app(), { project_id: project.id, locked: true });
    await uploadTwo(job, 'expire_in=never');
    await uploadTwo(locked);
    expect((await reporter.delete(`${path}/artifacts`)).status).toBe(403);
    const { status, body } = await maintainer.delete(`${path}/artifacts`);
    expect([status, body]).toEqual([202, { message: '202 Accepted' }]);
    await app().settle();
    expect(await typesOf(job.id)).toEqual([]);
    expect(await typesOf(locked.id)).toEqual(['archive', 'sast']);
    expect(await storedFiles(project.id)).toBe(3);
  });

  it('happens with the job, the pipeline and the project', async () => {
    const { job, project, owner, path } = await makeJobScene(app());
    const second = await insertRunningJob(app(), { project_id: project.id });
    const third = await insertRunningJob(app(), { project_id: project.id });
    for (const each of [job, second, third]) await uploadTwo(each);
    await db().deleteFrom('jobs').where('id', '=', job.id).execute();
    await db().deleteFrom('pipelines').where('id', '=', second.pipelineId).execute();
    await removeDueFiles.run(app().context(), {}, firstRun);
    expect(await storedFiles(project.id)).toBe(3);
    expect(await typesOf(third.id)).toEqual(['archive', 'sast']);
    await owner.delete(path);
    await owner.delete(`${path}?permanently_remove=true&full_path=${encodeURIComponent(project.path_with_namespace)}`);
    await removeDueFiles.run(app().context(), {}, firstRun);
    expect(await storedFiles(project.id)).toBe(0);
    expect(await db().selectFrom('storage_removals').selectAll().execute()).toEqual([]);
  });
});

describe('erasing a job', () => {
  it('removes its log, its artifacts and its variables, once it has ended', async () => {
    const { job, project, people, jobPath, maintainer, reporter } = await makeJobScene(app());
    await uploadTwo(job);
    const dotenv = { query: 'artifact_type=dotenv&artifact_format=gzip' };
    expect((await upload(app(), job, gzipSync('A=1'), dotenv)).status).toBe(201);
    const bytes = Buffer.from('log');
    await appendTrace(app().context(), job.id, { start: 0, bytes, debug: false });
    const refused = [403, '403 Forbidden - Job is not erasable!'];
    const erase = async (who: typeof maintainer) => {
      const { status, body } = await who.post(`${jobPath}/erase`);
      return [status, body.message];
    };
    expect(await erase(maintainer)).toEqual(refused);
    await endJob(app(), job);
    expect((await erase(reporter))[0]).toBe(403);
    expect(await typesOf(job.id)).toEqual(['archive', 'dotenv', 'sast']);
    await db().updateTable('jobs').set({ updated_at: '2020-01-01' }).where('id', '=', job.id).execute();
    await archiveTraces.run(app().context(), {}, firstRun);
    const { artifacts } = (await reporter.get(jobPath)).body;
    expect(artifacts.map((each: { file_type: string }) => each.file_type)).toEqual([
      'archive',
      'sast',
      'dotenv',
      'trace',
    ]);
    expect(artifacts[3]).toEqual({ file_type: 'trace', size: 3, filename: 'job.log', file_format: 'raw' });
    const { status, body } = await maintainer.post(`${jobPath}/erase`);
    expect(status).toBe(201);
    expect(body).toMatchObject({ id: job.id, artifacts: [], erased_at: expect.any(String) });
    expect((await maintainer.get(`${jobPath}/trace`)).body).toBe('');
    expect(await db().selectFrom('job_variables').select('key').where('job_id', '=', job.id).execute()).toEqual([]);
    const row = await db().selectFrom('jobs').select('erased_by_id').where('id', '=', job.id).executeTakeFirst();
    expect(row?.erased_by_id).toBe(people.maintainer.id);
    expect(await erase(maintainer)).toEqual(refused);
    await app().settle();
    expect(await storedFiles(project.id)).toBe(0);
    expect((await eventKinds(project.id, 'job.erased')).length).toBe(1);
  });

  it('is also for the developer who started it', async () => {
    const { job, project, jobPath } = await makeJobScene(app());
    const [starter, other] = [await app().make.user(), await app().make.user()];
    for (const user of [starter, other]) await app().make.projectMember(project, user, 30);
    await db().updateTable('jobs').set({ user_id: starter.id }).where('id', '=', job.id).execute();
    await uploadTwo(job);
    await endJob(app(), job, 'failed');
    expect((await app().as(other).post(`${jobPath}/erase`)).status).toBe(403);
    expect((await app().as(starter).post(`${jobPath}/erase`)).status).toBe(201);
  });
});

describe('expiry', () => {
  it('removes artifacts that have expired and are not locked', async () => {
    const { job, project, reporter, jobPath } = await makeJobScene(app());
    const locked = await insertRunningJob(app(), { project_id: project.id, locked: true });
    const later = await insertRunningJob(app(), { project_id: project.id });
    await uploadTwo(job, 'expire_in=0');
    await uploadTwo(locked, 'expire_in=0');
    await uploadTwo(later);
    // The archive is served until it is removed, but no file of it.
    expect((await reporter.get(`${jobPath}/artifacts`)).status).toBe(200);
    expect((await reporter.get(`${jobPath}/artifacts/a`)).status).toBe(404);
    expect((await reporter.get(`/projects/${project.id}/jobs/${locked.id}/artifacts/a`)).body).toBe('a');
    await expireArtifacts.run(app().context(), {}, firstRun);
    await app().settle();
    expect(await typesOf(job.id)).toEqual([]);
    expect(await typesOf(locked.id)).toEqual(['archive', 'sast']);
    expect(await typesOf(later.id)).toEqual(['archive', 'sast']);
    expect(await storedFiles(project.id)).toBe(6);
  });

  it('goes on after a failure of the storage, and removes the leftovers of an upload', async () => {
    const { project } = await makeScene(app());
    const { storage } = app().hub.services;
    const key = `artifacts/${project.id}/1/left`;
    await reserveKeys(app().context(), [key]);
    const { Readable } = await import('node:stream');
    await storage.write(key, Readable.from(['left']));
    await removeDueFiles.run(app().context(), {}, firstRun);
    expect(await storedFiles(project.id)).toBe(1);
    await db().updateTable('storage_removals').set({ due_at: '2020-01-01' }).where('storage_key', '=', key).execute();
    const away = { ...storage, remove: () => Promise.reject(new Error('away')) };
    const context = app().context();
    await expect(
      removeDueFiles.run({ ...context, services: { ...context.services, storage: away } }, {}, firstRun),
    ).rejects.toThrow('away');
    await removeDueFiles.run(app().context(), {}, firstRun);
    expect(await storedFiles(project.id)).toBe(0);
  });
});

describe('locks', () => {
  const tell = async (pipelineId: number, kind: typeof pipelineCreated, status?: string) => {
    await app()
      .context()
      .transaction(async (tx) => {
        if (status) await tx.db.updateTable('pipelines').set({ status }).where('id', '=', pipelineId).execute();
        const row = await tx.db
          .selectFrom('pipelines')
          .selectAll()
          .where('id', '=', pipelineId)
          .executeTakeFirstOrThrow();
        const subject = { type: 'Ci::Pipeline', id: row.id };
        tx.emit(kind, { subject, project_id: row.project_id, payload: pipelinePayload(row) });
      });
    await app().settle();
  };

  const isLocked = async (job: RunningJob) =>
    (await db().selectFrom('job_artifacts').select('locked').where('job_id', '=', job.id).execute()).map(
      ({ locked }) => locked,
    );

  it('hold the newest successful pipeline of a branch, and the newest one', async () => {
    const { project } = await makeScene(app());
    const jobs: RunningJob[] = [];
    for (const status of ['success', 'success', 'failed', 'failed']) {
      const job = await insertRunningJob(app(), { project_id: project.id });
      jobs.push(job);
      await tell(job.pipelineId, pipelineCreated);
      await upload(app(), job, await zipOf({ a: 'a' }));
      expect(await isLocked(job)).toEqual([true]);
      await tell(job.pipelineId, pipelineUpdated, status);
    }
    expect(await Promise.all(jobs.map(isLocked))).toEqual([[false], [true], [false], [true]]);
  });

  it('reach artifacts that came before them, and end with the branch', async () => {
    const { project, path, owner } = await makeScene(app(), { initialize_with_readme: true });
    await owner.post(`${path}/repository/branches?branch=side&ref=main`);
    const job = await insertRunningJob(app(), { project_id: project.id, ref: 'side' });
    await upload(app(), job, await zipOf({ a: 'a' }));
    expect(await isLocked(job)).toEqual([false]);
    await tell(job.pipelineId, pipelineCreated, 'success');
    expect(await isLocked(job)).toEqual([true]);
    expect((await owner.delete(`${path}/repository/branches/side`)).status).toBe(204);
    await app().settle();
    expect(await isLocked(job)).toEqual([false]);
  });

  it('of merge requests end with their source branch', async () => {
    const { project, path, owner } = await makeScene(app(), { initialize_with_readme: true });
    const actions = [{ action: 'create', file_path: 'change', content: 'x' }];
    const commit = { branch: 'side', start_branch: 'main', commit_message: 'Change', actions };
    expect((await owner.post(`${path}/repository/commits`, commit)).status).toBe(201);
    const request = { source_branch: 'side', target_branch: 'main', title: 'Change' };
    const { iid, id } = (await owner.post(`${path}/merge_requests`, request)).body;
    const ref = `refs/merge-requests/${iid}/head`;
    const job = await insertRunningJob(app(), { project_id: project.id, ref, merge_request_id: id });
    const other = await insertRunningJob(app(), { project_id: project.id, ref: 'main' });
    for (const each of [job, other]) {
      await upload(app(), each, await zipOf({ a: 'a' }));
      await tell(each.pipelineId, pipelineCreated, 'success');
    }
    expect([await isLocked(job), await isLocked(other)]).toEqual([[true], [true]]);
    expect((await owner.delete(`${path}/repository/branches/side`)).status).toBe(204);
    await app().settle();
    expect([await isLocked(job), await isLocked(other)]).toEqual([[false], [true]]);
  });

  it('are not made if the project or the instance does not want them', async () => {
    const { project, path, owner } = await makeScene(app());
    await owner.put(path, { keep_latest_artifact: false });
    const job = await insertRunningJob(app(), { project_id: project.id });
    await tell(job.pipelineId, pipelineCreated);
    await upload(app(), job, await zipOf({ a: 'a' }));
    expect(await isLocked(job)).toEqual([false]);
    await owner.put(path, { keep_latest_artifact: true });
    await app().as(app().root).put('/application/settings', { keep_latest_artifact: false });
    const other = await insertRunningJob(app(), { project_id: project.id });
    await tell(other.pipelineId, pipelineCreated);
    await app().as(app().root).put('/application/settings', { keep_latest_artifact: true });
    await upload(app(), other, await zipOf({ a: 'a' }));
    expect(await isLocked(other)).toEqual([false]);
  });
});
