import { describe, expect, it } from 'vitest';
import { insertPipeline } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { endJob, insertRunningJob, makeJobScene, upload, zipOf } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;

describe('the archive of a job', () => {
  it('is downloaded as it was uploaded, whole and in parts', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    const zip = await zipOf({ 'a.txt': 'a'.repeat(1000), 'b.txt': 'b' });
    await upload(app(), job, zip);
    const whole = await reporter.fetch('GET', `${jobPath}/artifacts`);
    expect(whole.status).toBe(200);
    expect(whole.headers.get('content-type')).toBe('application/octet-stream');
    expect(whole.headers.get('content-disposition')).toBe(
      `attachment; filename="artifacts.zip"; filename*=UTF-8''artifacts.zip`,
    );
    expect(Buffer.from(await whole.arrayBuffer()).equals(zip)).toBe(true);
    const part = await reporter.fetch('GET', `${jobPath}/artifacts`, undefined, { range: 'bytes=10-19' });
    expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes 10-19/${zip.length}`]);
    expect(Buffer.from(await part.arrayBuffer()).equals(zip.subarray(10, 20))).toBe(true);
    const head = await reporter.head(`${jobPath}/artifacts`);
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(zip.length)]);
    const etag = whole.headers.get('etag') ?? '';
    const known = await reporter.get(`${jobPath}/artifacts`, { 'if-none-match': etag });
    expect(known.status).toBe(304);
  });

  it('is only for those who may read the job', async () => {
    const { job, jobPath, guest, stranger, maintainer } = await makeJobScene(app());
    await upload(app(), job, await zipOf({ a: 'a' }));
    const statuses = async (path: string) =>
      Promise.all([maintainer, guest, stranger, app().anonymous].map(async (who) => (await who.get(path)).status));
    expect(await statuses(`${jobPath}/artifacts`)).toEqual([200, 403, 404, 404]);
    expect(await statuses(`${jobPath}/artifacts/a`)).toEqual([200, 403, 404, 404]);
    expect(await statuses(`${jobPath}/artifacts/tree`)).toEqual([200, 403, 404, 404]);
  });

  it('is limited to the role that the job says, and for nobody if it says so', async () => {
    const { project, people, path, reporter, maintainer, owner } = await makeJobScene(app());
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    expect(people).toBeDefined();
    const downloads = async (access: string) => {
      const job = await insertRunningJob(
        app(),
        { project_id: project.id },
        { options: JSON.stringify({ artifacts: { access } }) },
      );
      await upload(app(), job, await zipOf({ a: 'a' }));
      const clients = [reporter, app().as(developer), maintainer, owner];
      return Promise.all(
        clients.map(async (client) => (await client.get(`${path}/jobs/${job.id}/artifacts/a`)).status),
      );
    };
    expect(await downloads('all')).toEqual([200, 200, 200, 200]);
    expect(await downloads('developer')).toEqual([403, 200, 200, 200]);
    expect(await downloads('maintainer')).toEqual([403, 403, 200, 200]);
    expect(await downloads('none')).toEqual([403, 403, 403, 403]);
  });

  it('of a public project is for everyone, unless its jobs are for members', async () => {
    const { job, owner, path, jobPath } = await makeJobScene(app(), { visibility: 'public' });
    await upload(app(), job, await zipOf({ a: 'a' }));
    expect((await app().anonymous.get(`${jobPath}/artifacts`)).status).toBe(200);
    await owner.put(path, { public_jobs: false });
    expect((await app().anonymous.get(`${jobPath}/artifacts`)).status).toBe(401);
  });

  it('is not there for jobs without one, and for jobs of other projects', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    const other = await makeScene(app());
    expect((await reporter.get(`${jobPath}/artifacts`)).status).toBe(404);
    await upload(app(), job, await zipOf({ a: 'a' }));
    expect((await other.owner.get(`${other.path}/jobs/${job.id}/artifacts`)).status).toBe(404);
  });
});

describe('a report of a job', () => {
  it('is downloaded by its type as it was uploaded, by those who may', async () => {
    const { job, jobPath, reporter, guest, stranger } = await makeJobScene(app());
    const report = '[{"description": "x"}]';
    const query = 'artifact_type=codequality&artifact_format=raw';
    expect((await upload(app(), job, report, { query, filename: 'gl-code-quality-report.json' })).status).toBe(201);
    const answer = await reporter.fetch('GET', `${jobPath}/artifacts?file_type=codequality`);
    expect([answer.status, await answer.text()]).toEqual([200, report]);
    expect(answer.headers.get('content-type')).toBe('application/octet-stream');
    expect(answer.headers.get('content-disposition')).toContain('filename="gl-code-quality-report.json"');
    const status = async (who: typeof reporter, type: string) =>
      (await who.get(`${jobPath}/artifacts?file_type=${type}`)).status;
    expect(await status(reporter, 'archive')).toBe(404);
    expect(await status(reporter, 'sast')).toBe(404);
    expect(await status(guest, 'codequality')).toBe(403);
    expect(await status(stranger, 'codequality')).toBe(404);
    // Its variables may be secrets.
    expect(await status(reporter, 'dotenv')).toBe(400);
    expect(await status(reporter, 'none')).toBe(400);
    const other = await makeJobScene(app());
    const foreign = `/projects/${other.project.id}/jobs/${job.id}/artifacts?file_type=codequality`;
    expect((await other.owner.get(foreign)).status).toBe(404);
  });

  it('is limited to the role that the job says', async () => {
    const { project, path, reporter, maintainer } = await makeJobScene(app());
    const options = JSON.stringify({ artifacts: { access: 'maintainer' } });
    const job = await insertRunningJob(app(), { project_id: project.id }, { options });
    await upload(app(), job, '{}', { query: 'artifact_type=terraform&artifact_format=raw', filename: 'tfplan.json' });
    const report = `${path}/jobs/${job.id}/artifacts?file_type=terraform`;
    expect([(await reporter.get(report)).status, (await maintainer.get(report)).status]).toEqual([403, 200]);
  });
});

describe('a file of an archive', () => {
  it('is served with its type, whole and in parts', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    const text = 'line of text\n'.repeat(50_000);
    await upload(
      app(),
      job,
      await zipOf({ 'out/page.html': '<b>', 'out/big file.log': text, 'out/x.png': 'png', empty: '' }),
    );
    const page = await reporter.fetch('GET', `${jobPath}/artifacts/out/page.html`);
    expect([page.status, await page.text()]).toEqual([200, '<b>']);
    expect(page.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.headers.get('content-disposition')).toContain('attachment; filename="page.html"');
    const png = await reporter.fetch('GET', `${jobPath}/artifacts/out/x.png`);
    expect([png.headers.get('content-type'), await png.text()]).toEqual(['image/png', 'png']);
    const log = `${jobPath}/artifacts/out/big%20file.log`;
    expect((await reporter.get(log)).body).toBe(text);
    const part = await reporter.fetch('GET', log, undefined, { range: 'bytes=500000-500012' });
    expect([part.status, await part.text()]).toEqual([206, text.slice(500_000, 500_013)]);
    expect((await reporter.head(log)).headers.get('content-length')).toBe(String(text.length));
    expect((await reporter.get(`${jobPath}/artifacts/empty`)).body).toBe('');
  });

  it('is found among many, for any name and size', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    // Enough for several blocks of the index. Their order in UTF-16 and in UTF-8 differs.
    const prefixes = ['a', 'é', '～', '🙂', '"x"', 'a b'];
    const names = Array.from({ length: 1_200 }, (_, n) => `${prefixes[n % 6]}/${n % 7}/file ${n}`);
    const large = 'z'.repeat(300_000);
    const files = Object.fromEntries(names.map((name) => [name, name]));
    await upload(app(), job, await zipOf({ ...files, large }));
    const content = async (name: string) =>
      (await reporter.get(`${jobPath}/artifacts/${encodeURIComponent(name).replaceAll('%2F', '/')}`)).body;
    for (const name of names.filter((_, n) => n % 61 === 0)) expect(await content(name)).toBe(name);
    expect(await content('large')).toBe(large);
    const part = await reporter.fetch('GET', `${jobPath}/artifacts/a/0/file%200`, undefined, { range: 'bytes=2-4' });
    expect([part.status, await part.text()]).toEqual([206, '0/f']);
    expect((await reporter.get(`${jobPath}/artifacts/0`)).status).toBe(404);
    expect((await reporter.get(`${jobPath}/artifacts/${encodeURIComponent('🙂')}/9`)).status).toBe(404);
    const tree = await reporter.get(`${jobPath}/artifacts/tree?path=${encodeURIComponent('～')}`);
    expect(tree.body).toHaveLength(7);
  });

  it('is refused to a caller from the moment at which their token or their role is gone', async () => {
    const { job, people, reporter, maintainer, jobPath } = await makeJobScene(app());
    await upload(app(), job, await zipOf({ a: 'a' }));
    const status = async (who: typeof reporter) => (await who.get(`${jobPath}/artifacts/a`)).status;
    for (let n = 0; n < 3; n++) expect([await status(reporter), await status(maintainer)]).toEqual([200, 200]);
    await db()
      .updateTable('personal_access_tokens')
      .set({ revoked: true })
      .where('user_id', '=', people.reporter.id)
      .execute();
    expect(await status(reporter)).toBe(401);
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', people.maintainer.id).execute();
    expect(await status(maintainer)).toBe(403);
  });

  it('is 404 if it is absent or a directory, and 400 for a path that cannot be', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    await upload(app(), job, await zipOf({ 'out/a': 'a' }));
    const status = async (path: string) => (await reporter.get(`${jobPath}/artifacts/${path}`)).status;
    expect(await status('none')).toBe(404);
    expect(await status('out')).toBe(404);
    expect(await status('out/')).toBe(404);
    expect(await status('out//a')).toBe(400);
    expect(await status('out/%2e%2e%2fa')).toBe(400);
    expect(await status('a%00b')).toBe(400);
    expect(await status('%2fetc%2fpasswd')).toBe(400);
    expect(await status('a%ffb')).toBe(400);
  });
});

describe('the tree of an archive', () => {
  it('lists a directory, or all below it, in pages', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    const many = Object.fromEntries(Array.from({ length: 700 }, (_, n) => [`deep/dir/file${n}`, 'x']));
    await upload(app(), job, await zipOf({ ...many, 'a.txt': 'abc', 'deep-er': 'x', 'z/y/x': '1' }));
    const list = async (query: string) => {
      const { body } = await reporter.get(`${jobPath}/artifacts/tree?${query}`);
      return body.map((item: { path: string }) => item.path);
    };
    const { body } = await reporter.get(`${jobPath}/artifacts/tree`);
    expect(body).toEqual([
      { name: 'a.txt', path: 'a.txt', type: 'file', size: 3, mode: '100644' },
      { name: 'deep-er', path: 'deep-er', type: 'file', size: 1, mode: '100644' },
      { name: 'deep', path: 'deep', type: 'directory', size: null, mode: null },
      { name: 'z', path: 'z', type: 'directory', size: null, mode: null },
    ]);
    expect(await list('path=deep')).toEqual(['deep/dir']);
    expect(await list('path=z/&recursive=true')).toEqual(['z/y', 'z/y/x']);
    expect(await list('recursive=true&per_page=3&page=2')).toEqual(['deep/dir', 'deep/dir/file0', 'deep/dir/file1']);
    const all = [...(await list('path=deep/dir&per_page=100&page=7')), ...(await list('path=deep/dir&page=400'))];
    expect(all).toHaveLength(100);
    const missing = await reporter.get(`${jobPath}/artifacts/tree?path=none`);
    expect([missing.status, missing.body.message]).toEqual([404, '404 Path Not Found']);
    expect((await reporter.get(`${jobPath}/artifacts/tree?path=../x`)).status).toBe(400);
  });
});

describe('the newest artifacts of a branch or tag', () => {
  const latest = async (scene: Awaited<ReturnType<typeof makeScene>>, ref: string, job: string, more = '') => {
    const path = `${scene.path}/jobs/artifacts/${encodeURIComponent(ref)}`;
    const { status, body } = await scene.reporter.get(`${path}/raw/v?job=${encodeURIComponent(job)}${more}`);
    return status === 200 ? body : status;
  };
  const add = async (
    project_id: number,
    content: string,
    pipeline: Parameters<typeof insertPipeline>[1] extends infer A ? Partial<A> : never = {},
    job: Parameters<typeof insertRunningJob>[2] = {},
    status = 'success',
  ) => {
    const added = await insertRunningJob(app(), { project_id, ...pipeline }, job);
    await upload(app(), added, await zipOf({ v: content, 'raw/v': `${content} below` }));
    await endJob(app(), added, status);
    return added;
  };

  it('are those of the newest successful pipeline, by the whole name of the job', async () => {
    const scene = await makeScene(app());
    const id = scene.project.id;
    await add(id, 'old');
    await add(id, 'new');
    await add(id, 'failed', {}, {}, 'failed');
    await add(id, 'side', { ref: 'feature/x' });
    await add(id, 'part', { ref: 'parts' }, { name: 'test 1/2' });
    expect(await latest(scene, 'main', 'compile')).toBe('new');
    expect(await latest(scene, 'feature/x', 'compile')).toBe('side');
    expect(await latest(scene, 'parts', 'test 1/2')).toBe('part');
    expect(await latest(scene, 'parts', 'test')).toBe(404);
    expect(await latest(scene, 'main', 'other')).toBe(404);
    expect(await latest(scene, 'HEAD', 'compile')).toBe(404);
    expect(await latest(scene, 'a'.repeat(40), 'compile')).toBe(404);
    const archive = await scene.reporter.fetch('GET', `${scene.path}/jobs/artifacts/feature/x/download?job=compile`);
    expect([archive.status, archive.headers.get('content-type')]).toEqual([200, 'application/octet-stream']);
    expect((await scene.reporter.get(`${scene.path}/jobs/artifacts/main/download`)).status).toBe(400);
    const raw = await scene.reporter.get(`${scene.path}/jobs/artifacts/main/raw/v?job=compile`);
    expect(raw.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    // Scripts do not encode the slashes of a branch.
    for (const [at, content] of [
      ['feature/x/raw/v', 'side'],
      ['feature/x/raw/raw/v', 'side below'],
      ['main/raw/raw/v', 'new below'],
    ]) {
      const found = await scene.reporter.get(`${scene.path}/jobs/artifacts/${at}?job=compile`);
      expect([at, found.status, found.body]).toEqual([at, 200, content]);
    }
    expect((await scene.reporter.get(`${scene.path}/jobs/artifacts/feature/y/raw/v?job=compile`)).status).toBe(404);
    expect((await scene.stranger.get(`${scene.path}/jobs/artifacts/feature/x/raw/v?job=compile`)).status).toBe(404);
    expect((await scene.guest.get(`${scene.path}/jobs/artifacts/main/raw/v?job=compile`)).status).toBe(403);
    expect((await scene.guest.get(`${scene.path}/jobs/artifacts/none/raw/v?job=compile`)).status).toBe(403);
    expect((await scene.stranger.get(`${scene.path}/jobs/artifacts/main/raw/v?job=compile`)).status).toBe(404);
  });

  it('include child pipelines after their parent, and leave out retried jobs and merge requests', async () => {
    const scene = await makeScene(app());
    const id = scene.project.id;
    const parent = await insertPipeline(db(), { project_id: id }, [{ name: 'run', stage: 'a', kind: 'bridge' }]);
    const child = { source: 'parent_pipeline', bridge_job_id: parent.jobs[0] ?? 0 };
    await add(id, 'child', child);
    expect(await latest(scene, 'main', 'compile')).toBe('child');
    const token = await insertRunningJob(app(), { project_id: id });
    await db().updateTable('jobs').set({ pipeline_id: parent.id }).where('id', '=', token.id).execute();
    await upload(app(), token, await zipOf({ v: 'parent' }));
    expect(await latest(scene, 'main', 'compile')).toBe('parent');
    await db().updateTable('jobs').set({ retried: true }).where('id', '=', token.id).execute();
    expect(await latest(scene, 'main', 'compile')).toBe('child');
  });

  it('are searched in older pipelines if asked', async () => {
    const scene = await makeScene(app());
    const id = scene.project.id;
    await add(id, 'old');
    await add(id, 'other', {}, { name: 'lint' });
    expect(await latest(scene, 'main', 'compile')).toBe(404);
    expect(await latest(scene, 'main', 'compile', '&search_recent_successful_pipelines=true')).toBe('old');
    const path = `${scene.path}/jobs/artifacts/main/download?job=compile&search_recent_successful_pipelines`;
    expect((await scene.reporter.get(`${path}=false`)).status).toBe(404);
    expect((await scene.reporter.get(`${path}=true`)).status).toBe(200);
  });
});
