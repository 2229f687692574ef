import { describe, expect, it } from 'vitest';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { packProject } from './archive.ts';
import { runImport } from './support.ts';

const app = useApp();
const LOWER = 'is not allowed since the fork source project has lower visibility.';

const fork = async (user: TestUser, source: { id: number }, body: Record<string, unknown> = {}) => {
  const { status, body: made } = await app().as(user).post(`/projects/${source.id}/fork`, body);
  expect([status, made]).toEqual([201, expect.anything()]);
  await app().settle();
  return made;
};
const open = (user: TestUser, project: { id: number }, visibility = 'public') =>
  app().as(user).put(`/projects/${project.id}`, { visibility });
const visibilityOf = async (...projects: { id: number }[]) => {
  const found = [];
  for (const { id } of projects) found.push((await app().as(app().root).get(`/projects/${id}`)).body.visibility);
  return found;
};
const refusal = (visibility: string) => ({
  status: 400,
  body: { message: { visibility_level: [`${visibility} ${LOWER}`] } },
});

/** Creates a project, and a fork by a user who may only read it. */
const scene = async (visibility = 'private') => {
  const { make } = app();
  const [owner, forker] = [await make.user(), await make.user()];
  const source = await make.project({ visibility }, owner);
  await make.projectMember(source, forker, 20);
  return { owner, forker, source, forked: await fork(forker, source) };
};

describe('a fork of a project that is not public', () => {
  it('cannot be made more visible by an edit, over REST and GraphQL', async () => {
    const { forker, forked } = await scene();
    for (const visibility of ['internal', 'public']) {
      expect(await open(forker, forked, visibility)).toMatchObject(refusal(visibility));
    }
    const { data } = await app()
      .as(forker)
      .graphql(
        `mutation { projectUpdate(input: { fullPath: "${forked.path_with_namespace}", visibility: public, name: "Mine" }) { errors } }`,
      );
    expect(data.projectUpdate.errors).toEqual([`Visibility level public ${LOWER}`]);
    const { body } = await app().as(forker).get(`/projects/${forked.id}`);
    expect([body.visibility, body.name]).toEqual(['private', forked.name]);

    const internal = await scene('internal');
    expect(await open(internal.forker, internal.forked)).toMatchObject(refusal('public'));
    expect((await open(internal.forker, internal.forked, 'private')).status).toBe(200);
    expect((await open(internal.forker, internal.forked, 'internal')).status).toBe(200);
  });

  it('cannot be made more visible by a transfer or by removing the fork relation', async () => {
    const { forker, forked } = await scene();
    const group = await app().make.group({ visibility: 'public' }, forker);
    const client = app().as(forker);
    expect((await client.put(`/projects/${forked.id}/transfer`, { namespace: group.id })).status).toBe(200);
    expect(await open(forker, forked)).toMatchObject(refusal('public'));
    expect((await client.delete(`/projects/${forked.id}/fork`)).status).toBe(204);
    expect(await open(forker, forked)).toMatchObject(refusal('public'));
    expect(await open(forker, await fork(forker, forked, { path: 'again', name: 'again' }))).toMatchObject(
      refusal('public'),
    );
    // Administrators may exceed the limit.
    expect((await open(app().root, forked)).status).toBe(200);
    expect((await open(forker, forked, 'private')).status).toBe(200);
    expect((await open(forker, forked)).status).toBe(200);
  });

  it('cannot be made more visible after its source is deleted', async () => {
    const { owner, forker, source, forked } = await scene();
    expect((await app().as(owner).delete(`/projects/${source.id}`)).status).toBe(202);
    await app().settle();
    expect(await open(forker, forked)).toMatchObject(refusal('public'));
  });

  it('cannot be made more visible by an import that replaces it', async () => {
    const { forker, forked } = await scene();
    const archive = await packProject({ issues: [{ iid: 1, title: 'One' }] });
    const done = await runImport(app(), forker, archive, {
      path: forked.path,
      overwrite: 'true',
      'override_params[visibility]': 'public',
    });
    expect(done).toMatchObject({ import_status: 'finished', import_error: null });
    const { body } = await app()
      .as(forker)
      .get(`/projects/${encodeURIComponent(forked.path_with_namespace)}`);
    expect([body.visibility, body.id === forked.id]).toEqual(['private', false]);
    expect(await open(forker, body)).toMatchObject(refusal('public'));
  });

  it('cannot be made more visible by the owner of a fork in between', async () => {
    const { forker, forked } = await scene();
    const second = await fork(forker, forked, { path: 'second', name: 'second' });
    expect(await open(forker, second)).toMatchObject(refusal('public'));
  });

  it('can be made more visible by an owner of the source, and then so can its forks', async () => {
    const { owner, forker, source, forked } = await scene();
    await app().make.projectMember(forked, owner, 50);
    expect((await open(owner, forked, 'internal')).status).toBe(200);
    expect(await open(forker, forked)).toMatchObject(refusal('public'));
    const other = await app().make.user();
    const second = await fork(other, forked);
    expect(second.visibility).toBe('internal');
    expect(await open(other, second)).toMatchObject(refusal('public'));
    expect(await visibilityOf(source, forked, second)).toEqual(['private', 'internal', 'internal']);
  });

  it('cannot be linked from a project that is more visible', async () => {
    const { owner, forker, source } = await scene();
    const stranger = await app().make.user();
    const own = await app().make.project({ visibility: 'public' }, forker);
    const below = await fork(stranger, own);
    const link = (user: TestUser) => app().as(user).post(`/projects/${own.id}/fork/${source.id}`);
    expect(await link(forker)).toMatchObject(refusal('public'));
    const { data } = await app()
      .as(forker)
      .graphql(
        `mutation { projectForkLink(input: { fullPath: "${own.path_with_namespace}", forkedFromPath: "${source.path_with_namespace}" }) { errors } }`,
      );
    expect(data.projectForkLink.errors).toEqual([`Visibility level public ${LOWER}`]);
    expect((await app().as(forker).get(`/projects/${own.id}`)).body).not.toHaveProperty('forked_from_project');
    expect((await open(forker, own, 'private')).status).toBe(200);
    expect(await visibilityOf(below)).toEqual(['private']);
    expect((await link(forker)).status).toBe(201);
    expect(await open(forker, own)).toMatchObject(refusal('public'));
    expect(await open(stranger, below)).toMatchObject(refusal('public'));
    // An owner of both projects may link them.
    const mine = await app().make.project({ visibility: 'public' }, owner);
    expect((await app().as(owner).post(`/projects/${mine.id}/fork/${source.id}`)).status).toBe(201);
  });

  it('follows the restricted levels of the instance', async () => {
    const { forker, source, forked } = await scene('public');
    const settings = (restricted_visibility_levels: string[]) =>
      app().as(app().root).put('/application/settings', { restricted_visibility_levels });
    await settings(['public']);
    try {
      const second = await fork(forker, source, { path: 'second', name: 'second' });
      expect(second.visibility).toBe('internal');
      expect(await visibilityOf(source, forked)).toEqual(['public', 'public']);
    } finally {
      await settings([]);
    }
  });
});

describe('a fork of a project with reduced visibility', () => {
  it('gets the same visibility, at every level, with an event', async () => {
    const { owner, forker, source, forked } = await scene('public');
    const [other, stranger] = [await app().make.user(), await app().make.user()];
    const second = await fork(other, forked);
    const quiet = await fork(other, source, { path: 'quiet', name: 'quiet', visibility: 'private' });
    const all = [source, forked, second, quiet];
    const seen = async () => {
      const statuses = [];
      for (const { id } of all) statuses.push((await app().as(stranger).get(`/projects/${id}`)).status);
      return statuses;
    };
    const forksOf = async () => (await app().as(app().root).get(`/projects/${source.id}`)).body.forks_count;
    expect([await seen(), await forksOf()]).toEqual([[200, 200, 200, 404], 1]);

    expect((await open(owner, source, 'internal')).status).toBe(200);
    expect(await visibilityOf(...all)).toEqual(['internal', 'internal', 'internal', 'private']);
    expect((await app().anonymous.get(`/projects/${second.id}`)).status).toBe(404);
    expect([await seen(), await forksOf()]).toEqual([[200, 200, 200, 404], 1]);

    expect((await open(owner, source, 'private')).status).toBe(200);
    expect(await visibilityOf(...all)).toEqual(['private', 'private', 'private', 'private']);
    expect([await seen(), await forksOf()]).toEqual([[404, 404, 404, 404], 2]);
    const events = (await findEvents(app(), 'Project', second.id)).filter(({ kind }) => kind === 'project.updated');
    expect(events.map(({ payload }) => payload)).toEqual([
      expect.objectContaining({ visibility_level: 10, changes: { visibility_level: { previous: 20, current: 10 } } }),
      expect.objectContaining({ visibility_level: 0, changes: { visibility_level: { previous: 10, current: 0 } } }),
    ]);
    const untouched = await findEvents(app(), 'Project', quiet.id);
    expect(untouched.map(({ kind }) => kind)).not.toContain('project.updated');

    // When the source is opened again, its forks may follow but do not change by themselves.
    expect(await open(forker, forked)).toMatchObject(refusal('public'));
    expect((await open(owner, source)).status).toBe(200);
    expect(await visibilityOf(...all)).toEqual(['public', 'private', 'private', 'private']);
    expect(await open(other, second)).toMatchObject(refusal('public'));
    expect((await open(forker, forked)).status).toBe(200);
    expect((await open(other, second)).status).toBe(200);
    expect(await forksOf()).toBe(1);
  });

  it('never ends up more visible than it, even with concurrent changes', async () => {
    const { owner, forker, source, forked } = await scene('public');
    for (let round = 0; round < 5; round++) {
      await Promise.all([
        open(owner, source, 'private'),
        open(forker, forked),
        app()
          .as(forker)
          .post(`/projects/${source.id}/fork`, { path: `at-once-${round}`, name: `at-once-${round}` }),
      ]);
      await app().settle();
      const { rows } = await app().hub.services.pool.query(
        'select visibility_level, visibility_ceiling from projects where forked_from_id = $1',
        [source.id],
      );
      expect([...new Set(rows.map((row) => JSON.stringify(row)))]).toEqual([
        '{"visibility_level":0,"visibility_ceiling":0}',
      ]);
      expect((await open(owner, source)).status).toBe(200);
      await open(forker, forked);
    }
  });
});
