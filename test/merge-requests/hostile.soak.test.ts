import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { runGit } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';

// Untrusted input of merge requests (reference: threats).

const app = useApp();
const MEBIBYTE = 1_048_576;

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), { initialize_with_readme: true, ...attributes });
  const { owner, path } = scene;
  await owner.post(`${path}/repository/commits`, {
    branch: 'topic',
    start_branch: 'main',
    commit_message: 'Change',
    actions: [{ action: 'create', file_path: 'a.txt', content: 'x\n' }],
  });
  const post = (body: Record<string, unknown>) =>
    owner.post(`${path}/merge_requests`, { source_branch: 'topic', target_branch: 'main', title: 'Change', ...body });
  return { ...scene, post, at: `${path}/merge_requests/1` };
};

const REFS = [
  '-x',
  '--upload-pack=touch /tmp/x',
  'a..b',
  '@',
  'a@{1}',
  'a.lock',
  'a//b',
  '/a',
  'a/',
  'a b',
  'a\tb',
  'a~1',
  'a^',
  'a:b',
  'a?',
  'a[',
  'a\\b',
  '.a',
  'a/.b',
  'x'.repeat(300),
  'a'.repeat(40),
  'b'.repeat(64),
];

describe('hostile input of merge requests', () => {
  it('is refused as the name of a branch, when opening and when changing', async () => {
    const { owner, post, at, path } = await setUp();
    for (const name of [...REFS, 'a\0b']) {
      for (const field of ['source_branch', 'target_branch'] as const) {
        expect([name, field, (await post({ [field]: name })).status]).toEqual([name, field, 400]);
      }
    }
    expect((await owner.get(`${path}/merge_requests`)).body).toEqual([]);
    expect((await post({})).status).toBe(201);
    for (const name of REFS) expect([name, (await owner.put(at, { target_branch: name })).status]).toEqual([name, 400]);
    // Full names mean branches of that name, and never another ref.
    for (const name of ['refs/heads/main', 'heads/main', 'refs/merge-requests/1/head', 'HEAD']) {
      const { status } = await post({ source_branch: name, title: 'Odd' });
      expect([name, status === 201 || status === 400]).toEqual([name, true]);
    }
    await app().settle();
    for (const { sha, detailed_merge_status } of (await owner.get(`${path}/merge_requests?search=Odd`)).body) {
      expect([sha, detailed_merge_status]).toEqual([null, 'commits_status']);
    }
  });

  it('is refused as a text, or kept as it is', async () => {
    const { owner, post, at, people } = await setUp();
    expect((await post({ title: 'a\0b' })).status).toBe(400);
    expect((await post({ description: 'a\0b' })).status).toBe(400);
    expect((await post({ title: 'x'.repeat(256) })).status).toBe(400);
    expect((await post({ description: 'x'.repeat(MEBIBYTE + 1) })).status).toBe(400);
    expect((await post({ description: ['x'] })).status).toBe(400);
    expect((await post({ labels: Array.from({ length: 1_001 }, (_, n) => `l${n}`) })).status).toBe(400);
    expect((await post({ reviewer_ids: Array.from({ length: 201 }, (_, n) => n + 1) })).status).toBe(400);
    for (const wrong of [2 ** 63, -1, 1.5, 'x', { id: 1 }]) {
      expect([wrong, (await post({ target_project_id: wrong })).status]).toEqual([
        wrong,
        expect.toSatisfy((s) => s === 400 || s === 404),
      ]);
    }
    const made = await post({
      title: '<script>alert(1)</script>',
      description: '[x](javascript:alert(1)) <img onerror=x>',
    });
    expect(made.status).toBe(201);
    const html = (await owner.get(`${at}?render_html=true`)).body;
    expect(html.title_html).not.toContain('<script');
    expect(html.description_html).not.toMatch(/<img|href="javascript/);
    // The answer to a stranger does not reveal whether the named thing exists.
    const hidden = await app().make.project({ visibility: 'private' }, people.owner);
    const { stranger } = people;
    const own = await app().make.project({ initialize_with_readme: true }, stranger);
    const ask = (target: number) =>
      app().as(stranger).post(`/projects/${own.id}/merge_requests`, {
        source_branch: 'main',
        target_branch: 'main',
        title: 'x',
        target_project_id: target,
      });
    const [known, unknown] = [await ask(hidden.id), await ask(999_999_999)];
    expect([known.status, known.body]).toEqual([404, unknown.body]);
  });

  it('of a megabyte is read in time that grows with its length', async () => {
    const { owner, post, at } = await setUp({
      merge_commit_template: '%{title}\n\n%{description}\n\n%{all_commits}',
    });
    const fill = (unit: string) => unit.repeat(Math.ceil(MEBIBYTE / unit.length)).slice(0, MEBIBYTE);
    const made = await post({ description: fill('Closes #1, #2 and ') });
    expect(made.status).toBe(201);
    for (const unit of ['- [ ] ', 'Closes ', '/label ~']) {
      const { status } = await owner.put(at, { description: fill(unit) });
      expect([unit, status]).toEqual([unit, 200]);
      expect([unit, (await owner.get(`${at}?render_html=true`)).status]).toEqual([unit, 200]);
    }
    await owner.put(at, { description: fill('%{description}%{all_commits} x') });
    await app().settle();
    const merged = await owner.put(`${at}/merge`);
    expect(merged).toMatchObject({ status: 200, body: { state: 'merged' } });
  });

  it('cannot make a message explode', async () => {
    const template = '%{description}'.repeat(30);
    const { owner, post, at, project } = await setUp({ merge_commit_template: template });
    await post({ description: 'x'.repeat(MEBIBYTE) });
    await app().settle();
    const merged = await owner.put(`${at}/merge`);
    expect(merged.status).toBe(200);
    const { db, config } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const repository = join(config.dataDir, 'repositories', disk_path);
    const size = await runGit(repository, 'cat-file', '-s', merged.body.merge_commit_sha);
    expect(Number(size)).toBeLessThanOrEqual(2 * MEBIBYTE);
  });
});
