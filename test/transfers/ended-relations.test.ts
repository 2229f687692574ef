import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

// Merge requests between projects that are no longer related are closed.

const app = useApp();

const fork = async (user: TestUser, source: { readonly id: number }): Promise<{ id: number; path: string }> => {
  const { body } = await app().as(user).post(`/projects/${source.id}/fork`);
  await app().settle();
  return { id: body.id, path: body.path_with_namespace };
};

/** Commits to a new branch of one project, and opens a merge request for it in another. Returns its address. */
const propose = async (user: TestUser, source: { readonly id: number }, target: { readonly id: number }) => {
  const client = app().as(user);
  const branch = `to-${target.id}`;
  const actions = [{ action: 'create', file_path: `${branch}.txt`, content: 'new' }];
  const commit = { branch, start_branch: 'main', commit_message: 'Add', actions };
  expect((await client.post(`/projects/${source.id}/repository/commits`, commit)).status).toBe(201);
  const { status, body } = await client.post(`/projects/${source.id}/merge_requests`, {
    source_branch: branch,
    target_branch: 'main',
    target_project_id: target.id,
    title: branch,
  });
  expect(status).toBe(201);
  return `/projects/${target.id}/merge_requests/${body.iid}`;
};

const scene = async () => {
  const [owner, forker, second] = await app().make.users(3);
  if (!owner || !forker || !second) throw new Error('there are three users');
  const source = await app().make.project({ visibility: 'public', initialize_with_readme: true }, owner);
  await app().settle();
  const forked = await fork(forker, source);
  const forkOfFork = await fork(second, forked);
  const states = async (paths: readonly string[]) => {
    await app().settle();
    return Promise.all(paths.map(async (path) => (await app().as(app().root).get(path)).body.state));
  };
  return { owner, forker, second, source, forked, forkOfFork, states };
};

describe('a fork that becomes a separate project', () => {
  it('loses its open merge requests with the projects that it leaves, and no others', async () => {
    const { owner, forker, second, source, forked, forkOfFork, states } = await scene();
    const leaving = await propose(forker, forked, source);
    const ofItsFork = await propose(second, forkOfFork, source);
    await app().as(forker).post(`/projects/${forked.id}/members`, { user_id: owner.id, access_level: 30 });
    const entering = await propose(owner, source, forked);
    const own = await propose(forker, forked, forked);
    const between = await propose(second, forkOfFork, forked);
    const all = [leaving, ofItsFork, entering, own, between];
    expect(await states(all)).toEqual(Array(5).fill('opened'));

    // A refusal closes nothing.
    expect((await app().as(owner).delete(`/projects/${forked.id}/fork`)).status).toBe(403);
    expect(await states(all)).toEqual(Array(5).fill('opened'));

    expect((await app().as(forker).delete(`/projects/${forked.id}/fork`)).status).toBe(204);
    expect(await states(all)).toEqual(['closed', 'closed', 'closed', 'opened', 'opened']);
    const { body } = await app().as(owner).get(leaving);
    expect(body).toMatchObject({ closed_by: { id: forker.id }, closed_at: expect.any(String) });
    const history = (await app().as(owner).get(`${leaving}/resource_state_events`)).body;
    expect(history).toMatchObject([{ state: 'closed', user: { id: forker.id } }]);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['kind', 'actor_id', 'project_id'])
      .where('subject_type', '=', 'MergeRequest')
      .where('subject_id', '=', body.id)
      .where('kind', '=', 'merge_request.closed')
      .execute();
    expect(events).toEqual([{ kind: 'merge_request.closed', actor_id: forker.id, project_id: source.id }]);

    const reopened = await app().as(forker).put(leaving, { state_event: 'reopen' });
    expect(reopened.status).toBe(422);
    expect(reopened.body).toEqual({ message: ['Source project is not a fork of the target project'] });
    const again = await app().as(forker).post(`/projects/${forked.id}/fork/${source.id}`);
    expect(again.status).toBe(201);
    expect((await app().as(forker).put(leaving, { state_event: 'reopen' })).body.state).toBe('opened');
  });

  it('loses them over GraphQL too, with their automatic merge', async () => {
    const { owner, forker, source, forked, states } = await scene();
    const leaving = await propose(forker, forked, source);
    await app().settle();
    const { id } = (await app().as(owner).get(leaving)).body;
    await app()
      .hub.services.db.updateTable('merge_requests')
      .set({ merge_when_pipeline_succeeds: true, merge_user_id: owner.id })
      .where('id', '=', id)
      .execute();
    const unlink = `mutation { projectForkUnlink(input: { fullPath: "${forked.path}" }) { project { isForked } errors } }`;
    const { data } = await app().as(forker).graphql(unlink);
    expect(data.projectForkUnlink).toEqual({ project: { isForked: false }, errors: [] });
    expect(await states([leaving])).toEqual(['closed']);
    const { body } = await app().as(owner).get(leaving);
    expect(body.merge_when_pipeline_succeeds).toBe(false);
    const notes: { readonly body: string }[] = (await app().as(owner).get(`${leaving}/notes`)).body;
    expect(notes.map((note) => note.body)).toContain(
      'aborted the automatic merge because the fork relation was removed',
    );
  });
});
