import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { endJob, insertRunningJob, makeJobScene, upload, zipOf } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;

const artifactsOf = (jobId: number) =>
  db().selectFrom('job_artifacts').selectAll().where('job_id', '=', jobId).orderBy('id').execute();

const storedFiles = async (prefix: string): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of app().hub.services.storage.list(prefix)) keys.push(key);
  return keys.sort();
};

const sizeOf = async (project_id: number) =>
  (
    await db()
      .selectFrom('project_statistics')
      .select('job_artifacts_size')
      .where('project_id', '=', project_id)
      .executeTakeFirstOrThrow()
  ).job_artifacts_size;

describe('an upload', () => {
  it('stores the archive of a running job with its index', async () => {
    const { job, project, owner, jobPath } = await makeJobScene(app());
    const zip = await zipOf({ 'bin/app': 'program', 'readme.txt': 'hello' });
    const sent = await upload(app(), job, zip, { query: 'artifact_format=zip&artifact_type=archive&expire_in=1+week' });
    expect([sent.status, sent.headers.get('job-status')]).toEqual([201, 'running']);
    const [row] = await artifactsOf(job.id);
    expect(row).toMatchObject({
      project_id: project.id,
      file_type: 'archive',
      file_format: 'zip',
      filename: 'artifacts.zip',
      size: zip.length,
      access: 'all',
      entries: 2,
      index_problem: null,
      locked: false,
    });
    expect(await storedFiles(`artifacts/${project.id}/`)).toEqual([row?.storage_key, row?.index_key].sort());
    expect(await sizeOf(project.id)).toBe(zip.length);
    expect(await db().selectFrom('storage_removals').selectAll().execute()).toEqual([]);
    const { body } = await owner.get(jobPath);
    expect(body.artifacts).toEqual([
      { file_type: 'archive', size: zip.length, filename: 'artifacts.zip', file_format: 'zip' },
    ]);
    expect(body.artifacts_file).toEqual({ filename: 'artifacts.zip', size: zip.length });
    const days = (Date.parse(body.artifacts_expire_at) - Date.now()) / 86_400_000;
    expect(Math.round(days)).toBe(7);
  });

  it('is refused without the token of the running job', async () => {
    const { job, project } = await makeJobScene(app());
    const other = await insertRunningJob(app(), { project_id: project.id });
    const zip = await zipOf({ a: 'a' });
    const refused = async (token: string) => {
      const { status, body, headers } = await upload(app(), job, zip, { token });
      return [status, body.message, headers.get('job-status')];
    };
    const answer = [403, '403 Forbidden - Job is not processing on runner'];
    expect(await refused('glcbt-wrong')).toEqual([...answer, null]);
    expect(await refused(other.token)).toEqual([...answer, null]);
    expect((await upload(app(), { ...job, id: 999_999_999 }, zip)).status).toBe(403);
    await endJob(app(), job, 'canceled');
    expect(await refused(job.token)).toEqual([...answer, 'canceled']);
    expect(await artifactsOf(job.id)).toEqual([]);
    expect(await storedFiles(`artifacts/${project.id}/`)).toEqual([]);
  });

  it('takes the token as a parameter too, but not two tokens', async () => {
    const { job } = await makeJobScene(app());
    const form = () => {
      const data = new FormData();
      data.append('file', new Blob(['x']), 'x.gz');
      return data;
    };
    const path = `/jobs/${job.id}/artifacts?artifact_type=cobertura&artifact_format=gzip`;
    const both = await app().anonymous.post(`${path}&token=other`, form(), { 'job-token': job.token });
    expect([both.status, both.body]).toEqual([400, { error: 'token differs from JOB-TOKEN' }]);
    expect((await app().anonymous.post(`${path}&token=${job.token}`, form())).status).toBe(201);
  });

  it('is accepted again with the same content, and refused with other content', async () => {
    const { job, project } = await makeJobScene(app());
    const zip = await zipOf({ a: 'a' });
    expect((await upload(app(), job, zip)).status).toBe(201);
    expect((await upload(app(), job, zip)).status).toBe(201);
    const { status, body } = await upload(app(), job, await zipOf({ a: 'b' }));
    expect([status, body.message]).toEqual([400, 'another artifact of the same type already exists']);
    expect(await artifactsOf(job.id)).toHaveLength(1);
    expect(await sizeOf(project.id)).toBe(zip.length);
  });

  it('is refused for a wrong format, type or expiry before it is stored', async () => {
    const { job } = await makeJobScene(app());
    const refused = async (query: string) => {
      const { status, body } = await upload(app(), job, 'x', { query });
      return [status, body.message ?? body.error];
    };
    expect(await refused('artifact_type=junit&artifact_format=zip')).toEqual([
      400,
      'Invalid file format with specified file type',
    ]);
    expect((await refused('artifact_type=trace'))[0]).toBe(400);
    expect((await refused('artifact_format=rar'))[0]).toBe(400);
    expect(await refused('expire_in=soon')).toEqual([400, 'expire_in is invalid (allowed: 1 week, 3h 30 min, never)']);
    expect(await artifactsOf(job.id)).toEqual([]);
  });

  it('expires as the setting says, and never if the job says so', async () => {
    const { job } = await makeJobScene(app());
    await upload(app(), job, await zipOf({ a: 'a' }));
    await upload(app(), job, 'x', { query: 'artifact_type=sast&artifact_format=raw&expire_in=never' });
    const { rows } = await sql<{ file_type: string; days: number | null }>`
      select file_type, round(extract(epoch from expire_at - created_at) / 86400)::int as days
      from job_artifacts where job_id = ${job.id} order by id`.execute(db());
    expect(rows).toEqual([
      { file_type: 'archive', days: 30 },
      { file_type: 'sast', days: null },
    ]);
  });

  it('is cut off with 413 at the limit of the type, the project, the group or the instance', async () => {
    const { job, project, group, owner, path } = await makeJobScene(app());
    const admin = app().as(app().root);
    const megabytes = (count: number) => Buffer.alloc(count * 1024 * 1024, 'x');
    const send = async (size: number, query = 'artifact_type=sast&artifact_format=raw') => {
      const { status, body } = await upload(app(), job, megabytes(size), { query });
      return status === 201 ? 201 : [status, body.message];
    };
    const tooLarge = [413, 'file size has reached maximum size limit'];
    expect(await send(2, 'artifact_type=cyclonedx&artifact_format=gzip')).toEqual(tooLarge);
    const refused = await upload(app(), job, megabytes(2), { query: 'artifact_type=cyclonedx&artifact_format=gzip' });
    expect([refused.status, refused.headers.get('job-status')]).toEqual([413, 'running']);
    const limit = { max_artifacts_size: 1 };
    expect((await owner.put(`/groups/${group.id}`, limit)).status).toBe(403);
    expect((await admin.put(`/groups/${group.id}`, limit)).body.max_artifacts_size).toBe(1);
    expect((await owner.get(`/groups/${group.id}`)).body).not.toHaveProperty('max_artifacts_size');
    expect(await send(2)).toEqual(tooLarge);
    expect(await artifactsOf(job.id)).toEqual([]);
    expect((await owner.put(path, { max_artifacts_size: 3 })).status).toBe(403);
    expect((await admin.put(path, { max_artifacts_size: 0 })).status).toBe(400);
    for (const place of ['/projects', `/projects/user/${(await owner.get('/user')).body.id}`]) {
      const { status, body } = await admin.post(place, { name: 'limited', max_artifacts_size: 7 });
      expect([status, body.max_artifacts_size]).toEqual([201, 7]);
    }
    expect((await owner.post('/projects', { name: 'refused', max_artifacts_size: 7 })).status).toBe(403);
    expect((await admin.put(path, { max_artifacts_size: 3 })).body.max_artifacts_size).toBe(3);
    expect(await send(2)).toBe(201);
    expect(await send(4, 'artifact_type=dast&artifact_format=raw')).toEqual(tooLarge);
    // Without a limit of its own the project has that of its group, and without that the one of the instance.
    const unlimited = `mutation ($project: ID!, $group: ID!) {
      projectCiCdSettingsUpdate(input: { fullPath: $project, maxArtifactsSize: null }) {
        ciCdSettings { maxArtifactsSize } errors
      }
      groupUpdate(input: { fullPath: $group, maxArtifactsSize: 2 }) { errors }
    }`;
    const { data } = await admin.graphql(unlimited, { project: project.path_with_namespace, group: group.full_path });
    expect(data).toEqual({
      projectCiCdSettingsUpdate: { ciCdSettings: { maxArtifactsSize: null }, errors: [] },
      groupUpdate: { errors: [] },
    });
    expect(await send(3, 'artifact_type=dast&artifact_format=raw')).toEqual(tooLarge);
    expect(await send(1, 'artifact_type=dast&artifact_format=raw')).toBe(201);
    expect(await storedFiles(`artifacts/${project.id}/`)).toHaveLength(2);
  });

  it('needs a file, and only one', async () => {
    const { job } = await makeJobScene(app());
    const form = new FormData();
    form.append('other', 'x');
    const { status, body } = await app().anonymous.post(`/jobs/${job.id}/artifacts`, form, { 'job-token': job.token });
    expect([status, body.error]).toEqual([400, 'file is missing']);
    const two = new FormData();
    for (const name of ['a.zip', 'b.zip']) two.append('file', new Blob(['x']), name);
    expect((await app().anonymous.post(`/jobs/${job.id}/artifacts`, two, { 'job-token': job.token })).status).toBe(400);
    expect(await artifactsOf(job.id)).toEqual([]);
  });
});
