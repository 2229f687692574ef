import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { startFront } from './external.ts';
import { hasPythonGitlab, runPython } from './python-gitlab.ts';

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
beforeAll(() => {
  front.target = app().hub.url;
});
afterAll(() => front.close());

describe('python-gitlab', () => {
  it.skipIf(!hasPythonGitlab)(
    'creates, reads, lists, changes, deletes, exports and imports records, and shows errors',
    async () => {
      const owner = await app().make.user();
      const other = await app().make.user();
      const args = [front.url, await app().tokenOf(owner), String(other.id)];
      expect(await runPython('python_gitlab.py', ...args)).toBe('ok');
    },
  );

  it.skipIf(!hasPythonGitlab)('creates, finds, changes and removes users, and sets custom attributes', async () => {
    const group = await app().make.group();
    const project = await app().make.project();
    const args = [front.url, await app().tokenOf(app().root), String(group.id), String(project.id)];
    expect(await runPython('python_gitlab_users.py', ...args)).toBe('ok');
  });
});
