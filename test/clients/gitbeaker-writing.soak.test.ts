import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
let owner: TestUser;
let api: InstanceType<typeof Gitlab>;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
});
afterAll(() => front.close());

const refusal = (description: string) => ({ cause: { description: expect.stringContaining(description) } });

describe('gitbeaker', () => {
  it('commits, writes files, cherry-picks and reverts', async () => {
    const { id } = await app().make.project({ initialize_with_readme: true }, owner);
    const first = await api.Commits.create(id, 'main', 'Two files', [
      { action: 'create', filePath: 'a/one.txt', content: 'one\n' },
      { action: 'create', filePath: 'bin', content: 'AAE=', encoding: 'base64' },
    ]);
    expect(first).toMatchObject({ title: 'Two files', stats: { additions: 1 } });
    const topic = await api.Commits.create(
      id,
      'topic',
      'Topic',
      [
        { action: 'move', filePath: 'b/one.txt', previousPath: 'a/one.txt' },
        { action: 'chmod', filePath: 'bin', execute_filemode: true },
      ],
      { startBranch: 'main' },
    );
    expect(topic.parent_ids).toEqual([first.id]);
    await expect(api.Commits.create(id, 'main', 'x', [{ action: 'delete', filePath: 'none' }])).rejects.toMatchObject(
      refusal("A file with this name doesn't exist"),
    );
    expect(await api.Commits.cherryPick(id, topic.id, 'main')).toMatchObject({ title: 'Topic' });
    await expect(api.Commits.cherryPick(id, topic.id, 'main')).rejects.toMatchObject(refusal('cherry-pick'));
    expect(await api.Commits.revert(id, topic.id, 'topic')).toMatchObject({ title: 'Revert "Topic"' });
    const file = 'docs/read me.md';
    expect(await api.RepositoryFiles.create(id, file, 'main', 'hello', 'Create')).toEqual({
      file_path: file,
      branch: 'main',
    });
    await api.RepositoryFiles.edit(id, file, 'main', 'hello again', 'Edit', { authorName: 'Ann' });
    expect((await api.RepositoryFiles.showRaw(id, file, 'main')).toString()).toBe('hello again');
    await api.RepositoryFiles.remove(id, file, 'main', 'Remove');
    await expect(api.RepositoryFiles.remove(id, file, 'main', 'Remove')).rejects.toMatchObject(
      refusal("A file with this name doesn't exist"),
    );
  });

  it('tags and protects tags', async () => {
    const { id } = await app().make.project({ initialize_with_readme: true }, owner);
    const tag = await api.Tags.create(id, 'v1.0', 'main', { message: 'First' });
    expect(tag).toMatchObject({ name: 'v1.0', message: 'First', protected: false });
    expect((await api.Tags.all(id)).map(({ name }) => name)).toEqual(['v1.0']);
    expect(await api.ProtectedTags.protect(id, 'v*', { createAccessLevel: 40 })).toMatchObject({ name: 'v*' });
    expect(await api.Tags.show(id, 'v1.0')).toMatchObject({ protected: true, target: tag.target });
    await expect(api.Tags.remove(id, 'v1.0')).rejects.toMatchObject(refusal('Protected tags cannot be deleted'));
    expect(await api.ProtectedTags.all(id)).toMatchObject([{ create_access_levels: [{ access_level: 40 }] }]);
    await api.ProtectedTags.unprotect(id, 'v*');
    await api.Tags.remove(id, 'v1.0');
    expect(await api.Tags.all(id)).toEqual([]);
  });
});
