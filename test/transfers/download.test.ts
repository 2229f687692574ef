import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { downloadExport } from './support.ts';

const app = useApp();

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({}, owner);
  const { bytes } = await downloadExport(app(), owner, project.id);
  const url = `/projects/${project.id}/export/download`;
  const ask = async (headers: Record<string, string>, method = 'GET') => {
    const response = await app().as(owner).fetch(method, url, undefined, headers);
    return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
  };
  return { owner, project, url, bytes, ask };
};

describe('the download of an export', () => {
  it('resumes where it was interrupted', async () => {
    const { bytes, ask } = await setUp();
    const half = Math.floor(bytes.length / 2);
    const whole = await ask({});
    const etag = whole.headers.get('etag') ?? '';
    expect([whole.status, whole.headers.get('accept-ranges'), etag]).toEqual([
      200,
      'bytes',
      expect.stringMatching(/^"[\w-]+"$/),
    ]);
    expect(whole.bytes.equals(bytes)).toBe(true);
    const rest = await ask({ range: `bytes=${half}-`, 'if-range': etag });
    expect([rest.status, rest.headers.get('content-range'), rest.headers.get('content-length')]).toEqual([
      206,
      `bytes ${half}-${bytes.length - 1}/${bytes.length}`,
      String(bytes.length - half),
    ]);
    expect(rest.headers.get('content-disposition')).toBe(whole.headers.get('content-disposition'));
    expect(Buffer.concat([bytes.subarray(0, half), rest.bytes]).equals(bytes)).toBe(true);
    expect((await ask({ range: 'bytes=0-0' })).bytes).toEqual(bytes.subarray(0, 1));
    expect((await ask({ range: 'bytes=-3' })).bytes).toEqual(bytes.subarray(-3));
    const beyond = await ask({ range: `bytes=${bytes.length}-` });
    expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${bytes.length}`]);
    expect((await ask({ 'if-none-match': etag })).status).toBe(304);
    const head = await ask({ range: 'bytes=0-0' }, 'HEAD');
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(bytes.length)]);
  });

  it('starts again if the export is a different one', async () => {
    const { owner, project, bytes, ask } = await setUp();
    const { headers } = await ask({});
    const first = headers.get('etag') ?? '';
    await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'New' });
    const { bytes: later } = await downloadExport(app(), owner, project.id);
    const again = await ask({ range: `bytes=${bytes.length - 1}-`, 'if-range': first });
    expect([again.status, again.bytes.equals(later)]).toEqual([200, true]);
    expect(again.headers.get('etag')).not.toBe(first);
  });

  it('refuses every part of it to users who may not export', async () => {
    const { project, url } = await setUp();
    const [developer, stranger] = [await app().make.user(), await app().make.user()];
    await app().make.projectMember(project, developer, 30);
    const statuses = await Promise.all(
      [app().anonymous, app().as(stranger), app().as(developer)].map(
        async (client) => (await client.get(url, { range: 'bytes=0-0' })).status,
      ),
    );
    expect(statuses).toEqual([401, 404, 403]);
  });
});
