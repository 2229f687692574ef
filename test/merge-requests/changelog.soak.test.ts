import { describe, expect, it } from 'vitest';
import { filledProject } from '../repositories/reading-support.ts';
import { runGit, useFolder } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();

/** Creates a project with `v1.0.0` and later commits with and without trailers. */
const scene = async () => {
  const filled = await filledProject(app(), folder(), { a: '1' });
  const { tree, remote, commit } = filled;
  await commit({ old: '1' }, 'Long ago\n\nChangelog: added');
  await runGit(tree, 'tag', 'v1.0.0');
  await runGit(tree, 'tag', 'v1.5.0-rc.1');
  await runGit(tree, 'tag', '-a', '-m', 'x', 'v0.9.0');
  const one = await commit({ a: '2' }, 'Add one\n\nChangelog: added');
  await commit({ a: '3' }, 'Say nothing');
  const fixed = await commit({ a: '4' }, 'Fix it\n\nChangelog: fixed\nKind: a bug');
  const wrong = await commit({ b: '1' }, 'Add what is wrong\n\nChangelog: added');
  await commit({ b: '2' }, `Revert "Add what is wrong"\n\nThis reverts commit ${wrong}\n\nChangelog: removed`);
  const two = await commit({ a: '5' }, 'Add two\n\nChangelog: added');
  await runGit(tree, 'push', '-q', '--tags', remote);
  return { ...filled, one, two, fixed, changelog: filled.path('/changelog') };
};

describe('changelogs', () => {
  it('list the changes since the last release by category, without reverted changes', async () => {
    const { owner, project, changelog, one, two, fixed } = await scene();
    const client = app().as(owner);
    const { db } = app().hub.services;
    await db
      .insertInto('merge_requests')
      .values({
        project_id: project.id,
        iid: 7,
        title: 'm',
        source_branch: 'a',
        target_branch: 'main',
        state: 'merged',
        merge_commit_sha: fixed,
      })
      .execute();
    const name = project.path_with_namespace;
    const notes = `## 1.5.0 (2026-03-04)

### added (2 changes)

- [Add two](${name}@${two})
- [Add one](${name}@${one})

### fixed (1 change)

- [Fix it](${name}@${fixed}) ([merge request](${name}!7))
`;
    const found = await client.get(`${changelog}?version=1.5.0&date=2026-03-04`);
    expect([found.status, found.body]).toEqual([200, { notes }]);
    const kinds = await client.get(`${changelog}?version=1.5.0&date=2026-03-04&trailer=Kind`);
    expect(kinds.body.notes).toContain('### a bug (1 change)');
    const part = await client.get(`${changelog}?version=1.5.0&from=${one}&to=${fixed}&date=2026-03-04`);
    expect(part.body.notes).not.toContain('Add');
    const none = await client.get(`${changelog}?version=1.5.0&from=main&to=main&trailer=constructor&date=2026-03-04`);
    expect(none.body.notes).toBe('## 1.5.0 (2026-03-04)\n\nNo changes.\n');
    // The range starts at the previous release. The first release has none.
    const second = (await client.get(`${changelog}?version=1.0.0&to=v1.0.0&from=v0.9.0`)).body.notes;
    expect(second).toContain('No changes.');
    const first = await client.get(`${changelog}?version=0.9.0`);
    expect([first.status, first.body.message]).toEqual([422, expect.stringContaining('no previous tag')]);
    for (const wrong of ['', 'version=v1.5.0', 'version=1.5', 'version=1.5.0&date=x', 'version=1.5.0&config_file=x']) {
      expect([wrong, (await client.get(`${changelog}?${wrong}`)).status]).toEqual([wrong, 400]);
    }
    expect((await client.get(`${changelog}?version=1.5.0&from=absent`)).status).toBe(404);
  });

  it('are written to a file in the order of versions', async () => {
    const { owner, changelog, path } = await scene();
    const client = app().as(owner);
    const write = (version: string, more: Record<string, unknown> = {}) =>
      client.post(changelog, { version, date: '2026-03-04', ...more });
    const written = await write('2.0.0');
    expect([written.status, written.body.notes]).toEqual([200, expect.stringContaining('## 2.0.0 (2026-03-04)')]);
    expect((await write('1.5.0', { from: 'v1.0.0', message: 'Tell of 1.5.0' })).status).toBe(200);
    expect((await write('1.10.0', { from: 'v1.0.0' })).status).toBe(200);
    const text: string = (await client.get(path('/files/CHANGELOG.md/raw'))).body;
    expect(text.match(/^## .*/gm)).toEqual([
      '## 2.0.0 (2026-03-04)',
      '## 1.10.0 (2026-03-04)',
      '## 1.5.0 (2026-03-04)',
    ]);
    expect(text).not.toContain('\n\n\n');
    const titles = (await client.get(path('/commits?path=CHANGELOG.md'))).body.map(
      ({ title }: { title: string }) => title,
    );
    expect(titles).toEqual(['Add changelog for version 1.10.0', 'Tell of 1.5.0', 'Add changelog for version 2.0.0']);
    const again = await write('1.5.0', { from: 'v1.0.0' });
    expect([again.status, again.body.message]).toEqual([422, 'CHANGELOG.md already has a section for 1.5.0']);
    expect((await write('3.0.0', { branch: 'absent' })).status).toBe(404);
    expect((await write('3.0.0', { branch: 'absent', to: 'main' })).status).toBe(400);
    expect((await write('3.0.0', { config_file: 'x' })).status).toBe(400);
    expect((await write('3.0.0', { file: 'docs/NEWS.md' })).status).toBe(200);
    expect((await client.get(path('/files/docs%2FNEWS.md/raw'))).body).toContain('## 3.0.0');
    expect((await client.get(path('/files/CHANGELOG.md/raw'))).body).toBe(text);
  });

  it('are read by those who can read the code and written by those who can push', async () => {
    const { owner, project, changelog, path } = await scene();
    const [guest, reporter, developer, stranger] = await Promise.all([1, 2, 3, 4].map(() => app().make.user()));
    if (!guest || !reporter || !developer || !stranger) throw new Error('no users');
    await app().make.projectMember(project, guest, 10);
    await app().make.projectMember(project, reporter, 20);
    await app().make.projectMember(project, developer, 30);
    const before = (await app().as(owner).get(path('/commits/main'))).body.id;
    const statuses = async (client: ReturnType<ReturnType<typeof app>['as']>) => [
      (await client.get(`${changelog}?version=2.0.0`)).status,
      (await client.post(changelog, { version: '2.0.0' })).status,
    ];
    expect(await statuses(app().anonymous)).toEqual([404, 401]);
    expect(await statuses(app().as(stranger))).toEqual([404, 404]);
    expect(await statuses(app().as(guest))).toEqual([403, 403]);
    expect(await statuses(app().as(reporter))).toEqual([200, 403]);
    // `main` is protected: Maintainers push to it.
    expect(await statuses(app().as(developer))).toEqual([200, 403]);
    expect((await app().as(owner).get(path('/commits/main'))).body.id).toBe(before);
    expect(await statuses(app().as(owner))).toEqual([200, 200]);
  });
});
