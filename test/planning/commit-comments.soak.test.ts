import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { readEvents } from '#platform/event-log/read.ts';
import { filledProject } from '../repositories/reading-support.ts';
import { runGit, useFolder } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();

const eventsOf = async (projectId: number) => {
  await app().settle();
  const window = { after: 0, until: Number.MAX_SAFE_INTEGER, limit: 1_000 };
  const events = await readEvents(app().hub.services.db, window, { kinds: null, project_id: projectId });
  return events.filter(({ kind }) => kind === 'note.created');
};

describe('comments on commits', () => {
  it('accepts comments on the whole commit or on a line, and lists the oldest first', async () => {
    const { owner, project, tree, path, commit } = await filledProject(app(), folder(), { 'a b.txt': 'one\n' });
    const sha = await commit({ 'a b.txt': 'one\ntwo\n' }, 'Second');
    const client = app().as(owner);
    const comments = path(`/commits/${sha}/comments`);
    const whole = await client.post(comments, { note: 'Well *done*' });
    expect([whole.status, whole.body]).toEqual([
      201,
      {
        note: 'Well *done*',
        path: null,
        line: null,
        line_type: null,
        author: expect.objectContaining({ id: owner.id, username: owner.username }),
        created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      },
    ]);
    const line = await client.post(path('/commits/main/comments'), { note: 'two?', path: 'a b.txt', line: 2 });
    expect(line.body).toMatchObject({ note: 'two?', path: 'a b.txt', line: 2, line_type: 'new' });
    const old = await client.post(comments, { note: 'was', path: 'README.md', line: 1, line_type: 'old' });
    expect(old.body).toMatchObject({ path: 'README.md', line: 1, line_type: 'old' });
    const listed = await client.get(comments);
    expect(listed.body).toEqual([whole.body, line.body, old.body]);
    const page = await client.get(`${comments}?per_page=1&page=2`);
    expect([page.body, page.headers.get('x-total')]).toEqual([[line.body], '3']);
    // The parent commit has none of these comments.
    const parent = await runGit(tree, 'rev-parse', 'HEAD~1');
    expect((await client.get(path(`/commits/${parent}/comments`))).body).toEqual([]);

    const [event] = await eventsOf(project.id);
    const definition = eventDefinitions.find(({ kind }) => kind === 'note.created');
    if (!event || !definition) throw new Error('no event');
    expect(definition.trigger(event.payload)).toBe('note_events');
    const web = `${app().url}/${project.path_with_namespace}`;
    expect(await definition.body(app().context(), event)).toMatchObject({
      object_kind: 'note',
      event_type: 'note',
      user: { username: owner.username },
      project_id: project.id,
      object_attributes: {
        note: 'Well *done*',
        noteable_type: 'Commit',
        noteable_id: null,
        commit_id: sha,
        action: 'create',
        url: expect.stringMatching(`^${web}/-/commit/${sha}#note_\\d+$`),
      },
      commit: { id: sha, title: 'Second', url: `${web}/-/commit/${sha}` },
    });
    const placed = (await eventsOf(project.id))[1];
    expect(placed && (await definition.body(app().context(), placed))).toMatchObject({
      object_attributes: { position: { head_sha: sha, new_path: 'a b.txt', new_line: 2 } },
    });
  });

  it('requires a commit, a text and a file that exist', async () => {
    const { owner, project, path } = await filledProject(app(), folder(), { 'new.txt': '1\n' });
    const client = app().as(owner);
    const comments = path('/commits/main/comments');
    expect(await client.get(path('/commits/absent/comments'))).toMatchObject({
      status: 404,
      body: { message: '404 Commit Not Found' },
    });
    expect((await client.post(path('/commits/absent/comments'), { note: 'x' })).status).toBe(404);
    for (const wrong of [
      {},
      { note: ' ' },
      { note: 'x', path: 'new.txt' },
      { note: 'x', line: 1 },
      { note: 'x', line_type: 'new' },
      { note: 'x', path: 'new.txt', line: 0 },
      { note: 'x', path: 'new.txt', line: 1, line_type: 'both' },
      { note: 'x', path: 'absent', line: 1 },
      { note: 'x', path: '../new.txt', line: 1 },
      // This commit added the file, so it has no old side.
      { note: 'x', path: 'new.txt', line: 1, line_type: 'old' },
    ]) {
      expect([wrong, (await client.post(comments, wrong)).status]).toEqual([wrong, 400]);
    }
    expect((await client.get(comments)).body).toEqual([]);
    expect(await eventsOf(project.id)).toEqual([]);
  });

  it('lets users comment only if they may read the code and create notes', async () => {
    const { owner, project, path } = await filledProject(app(), folder());
    const [guest, reporter, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    await app().make.projectMember(project, guest, 10);
    await app().make.projectMember(project, reporter, 20);
    const comments = path('/commits/main/comments');
    const statuses = async (client: ReturnType<ReturnType<typeof app>['as']>) => [
      (await client.get(comments)).status,
      (await client.post(comments, { note: 'x' })).status,
    ];
    expect(await statuses(app().anonymous)).toEqual([404, 401]);
    expect(await statuses(app().as(stranger))).toEqual([404, 404]);
    // Guests of a private project cannot read the code.
    expect(await statuses(app().as(guest))).toEqual([403, 403]);
    expect(await statuses(app().as(reporter))).toEqual([200, 201]);
    expect((await eventsOf(project.id)).map((event) => event.min_access_level)).toEqual([20]);
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'public' });
    expect(await statuses(app().anonymous)).toEqual([200, 401]);
    expect(await statuses(app().as(stranger))).toEqual([200, 201]);
    await app().as(owner).put(`/projects/${project.id}`, { repository_access_level: 'private' });
    expect(await statuses(app().as(stranger))).toEqual([404, 404]);
    expect(await statuses(app().as(guest))).toEqual([403, 403]);
    await app().as(owner).post(`/projects/${project.id}/archive`);
    expect(await statuses(app().as(owner))).toEqual([200, 403]);
    expect((await app().as(owner).get(comments)).body).toHaveLength(2);
  });
});
