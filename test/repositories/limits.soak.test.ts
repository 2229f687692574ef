import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { commitOfLargeDelta, commitOfManyFiles, pushOf } from '../support/packs.ts';
import { eventsOf } from './support.ts';

const app = useApp();

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'public' }, owner);
  const token = await app().tokenOf(owner);
  const push = async (body: Buffer) => {
    const answer = await fetch(`${app().url}/${project.path_with_namespace}.git/git-receive-pack`, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-git-receive-pack-request',
        authorization: `Basic ${Buffer.from(`x:${token}`).toString('base64')}`,
      },
      body: new Uint8Array(body),
    });
    return { status: answer.status, text: Buffer.from(await answer.arrayBuffer()).toString('latin1') };
  };
  const kinds = async () => (await eventsOf(app(), project.id)).map(({ kind }) => kind);
  return { owner, project, push, kinds };
};

describe('a small push that unpacks to a lot', () => {
  it("is refused for a file that is too large for git's memory limit, and leaves nothing", async () => {
    const { push, kinds } = await setUp();
    const { oid, pack } = commitOfLargeDelta(250);
    const { status, text } = await push(pushOf('refs/heads/main', oid, pack));
    expect(status).toBe(200);
    expect(text).toContain('needs more memory than the hub allows git');
    expect(text).toContain('ng refs/heads/main');
    expect(await kinds()).toEqual([]);
  });

  it('is refused if it has more files than the setting allows', async () => {
    const { push, kinds } = await setUp();
    const { oid, pack } = commitOfManyFiles(6);
    const { text } = await push(pushOf('refs/heads/main', oid, pack));
    expect(text).toContain('refs/heads/main: it has more than 500000 files and folders');
    expect(await kinds()).toEqual([]);
  });

  it('is accepted up to the limit', async () => {
    const { push, kinds } = await setUp();
    const { oid, pack } = commitOfManyFiles(4);
    const body = pushOf('refs/heads/main', oid, pack);
    await app().as(app().root).put('/application/settings', { push_max_files: 11_109 });
    expect((await push(body)).text).toContain('more than 11109 files');
    await app().as(app().root).put('/application/settings', { push_max_files: 11_110 });
    expect((await push(body)).text).toContain('ok refs/heads/main');
    expect(await kinds()).toContain('push.received');
    await app().as(app().root).put('/application/settings', { push_max_files: 500_000 });
  });
});

it('reads of a commit with a million files are refused if git would need too much memory', async () => {
  const { project, push } = await setUp();
  const { oid, pack } = commitOfManyFiles(6);
  await app().as(app().root).put('/application/settings', { push_max_files: 0 });
  expect((await push(pushOf('refs/heads/main', oid, pack))).text).toContain('ok refs/heads/main');
  await app().as(app().root).put('/application/settings', { push_max_files: 500_000 });

  const statusOf = async (path: string) =>
    (await app().anonymous.get(`/projects/${project.id}/repository/${path}`)).status;
  expect(await statusOf(`commits/${oid}/diff`)).toBe(413);
  expect(await statusOf(`commits/${oid}?stats=true`)).toBe(413);
  expect(await statusOf(`commits/${oid}?stats=false`)).toBe(200);
  expect(await statusOf('tree?recursive=true&per_page=20')).toBe(200);
});
