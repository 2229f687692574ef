import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createGit } from '#platform/git/git.ts';
import { createLogger } from '#platform/log.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'git-leftovers-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(root, { recursive: true, force: true });
});

it('hooks are written although a process with the same id, in another container, is writing them', async () => {
  // Stands for the draft of the other process.
  await mkdir(join(root, `.hooks/pre-receive.${process.pid}`), { recursive: true });
  createGit({ root, log: createLogger('silent') });
  expect(await readdir(join(root, '.hooks'))).toContain('pre-receive');
});

it('git works although the temporary folder is missing or its path is too long', async () => {
  for (const folder of ['/nonexistent', join(root, 'x'.repeat(100))]) {
    await mkdir(join(root, 'x'.repeat(100)), { recursive: true });
    vi.stubEnv('TMPDIR', folder);
    const git = createGit({ root, log: createLogger('silent') });
    const path = `a/${folder.length}.git`;
    await git.init(path, 'main');
    expect(await git.findObject(path, '1234567')).toBeNull();
    await git.close();
  }
});
