import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { Receiver, signersOf } from './receiver.ts';

const app = useApp();
beforeAll(async () => {
  await app().as(app().root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
});

const push = async (project: { path_with_namespace: string }, branch: string) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-hooks-'));
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Ann', '-c', 'user.email=ann@example.com', ...args], {
      cwd: folder,
      stdio: 'pipe',
    });
  git('init', '-q', '-b', branch);
  git('commit', '-q', '--allow-empty', '-m', 'First');
  const url = new URL(`${app().url}/${project.path_with_namespace}.git`);
  url.username = 'oauth2';
  url.password = await app().tokenOf(app().root);
  const { spawn } = await import('node:child_process');
  const child = spawn('git', ['push', '-q', url.href, branch], { cwd: folder, stdio: 'ignore' });
  await new Promise((resolve, reject) =>
    child.on('exit', (code) => (code === 0 ? resolve(0) : reject(new Error(`push ${code}`)))),
  );
  rmSync(folder, { recursive: true });
};

describe('a push', () => {
  it('reaches the hooks of its group and of the groups above, signed, each with its own id', async () => {
    await using receiver = await Receiver.start();
    const root = app().as(app().root);
    const group = await app().make.group();
    const below = await app().make.group({ parent_id: group.id });
    const project = await app().make.project({ namespace_id: below.id });
    const { status, body: hook } = await root.post(`/groups/${group.id}/hooks`, {
      url: receiver.url,
      token: 'shared-secret',
    });
    expect(status).toBe(201);
    await root.post(`/groups/${below.id}/hooks`, { url: `${receiver.url}/below` });
    await app().settle();
    await push(project, 'main');
    await app().settle();
    expect(receiver.received.map(({ path }) => path).sort()).toEqual(['/hook', '/hook/below']);
    const got = receiver.received.find(({ path }) => path === '/hook');
    if (!got) throw new Error('nothing came');
    expect(got.headers).toMatchObject({
      'content-type': 'application/json',
      'x-gitlab-event': 'Push Hook',
      'x-gitlab-token': 'shared-secret',
      'x-gitlab-instance': app().url,
      'x-millrace-attempt': '1',
      'webhook-id': got.headers['idempotency-key'],
    });
    expect(signersOf(got, [hook.signing_token])).toHaveLength(1);
    expect(got.body).toMatchObject({ object_kind: 'push', ref: 'refs/heads/main', project_id: project.id });
    const ids = receiver.received.map(({ headers }) => headers['idempotency-key']);
    expect(new Set(ids).size).toBe(2);
    const events = await root.get(`/groups/${group.id}/hooks/${hook.id}/events`);
    expect(events.body).toMatchObject([
      { response_status: '200', trigger: 'push_hooks', response_body: 'ok', url: receiver.url, attempt: 1 },
    ]);
    expect(events.body[0].request_data.ref).toBe('refs/heads/main');
    expect(events.body[0].request_headers['X-Gitlab-Token']).toBe('[REDACTED]');
  });
});
