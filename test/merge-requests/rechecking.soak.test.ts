import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

type Scene = Awaited<ReturnType<typeof makeScene>>;

const commit = async ({ owner, path }: Scene, branch: string, file: string, content: string, start?: string) => {
  const answer = await owner.post(`${path}/repository/commits`, {
    branch,
    ...(start ? { start_branch: start } : {}),
    commit_message: `Change ${file}`,
    actions: [{ action: 'create', file_path: file, content }],
  });
  expect(answer.status).toBe(201);
  return answer.body.id as string;
};

const checks = async (projectId: number): Promise<[iid: number, status: string][]> => {
  const { db } = app().hub.services;
  const events = await db
    .selectFrom('events')
    .select('payload')
    .where('project_id', '=', projectId)
    .where('kind', '=', 'merge_request.checked')
    .orderBy('id')
    .execute();
  return events.map(({ payload }) => {
    const { iid, merge_status } = Object(payload).merge_request;
    return [iid, merge_status];
  });
};

describe('a push to the target branch of many merge requests', () => {
  it('changes the status of those that conflict now, and makes versions only where the merge base moved', async () => {
    const scene = await makeScene(app(), { initialize_with_readme: true });
    const { owner, path, project } = scene;
    await commit(scene, 'free', 'free.txt', 'free\n', 'main');
    await commit(scene, 'taken', 'both.txt', 'theirs\n', 'main');
    const early = await commit(scene, 'long', 'early.txt', 'early\n', 'main');
    await commit(scene, 'long', 'late.txt', 'late\n');
    await owner.post(`${path}/repository/branches`, { branch: 'empty', ref: 'main' });
    for (const source_branch of ['free', 'taken', 'long', 'empty', 'absent']) {
      const made = await owner.post(`${path}/merge_requests`, {
        source_branch,
        target_branch: 'main',
        title: source_branch,
      });
      expect(made.status).toBe(201);
    }
    await app().settle();
    const before = await checks(project.id);
    const statuses = async () =>
      (await owner.get(`${path}/merge_requests?sort=asc`)).body.map(
        (row: { merge_status: string }) => row.merge_status,
      );
    const [can, cannot] = ['can_be_merged', 'cannot_be_merged'];
    expect(await statuses()).toEqual([can, can, can, cannot, cannot]);

    await commit(scene, 'main', 'both.txt', 'ours\n');
    await app().settle();
    expect(await statuses()).toEqual([can, cannot, can, cannot, cannot]);
    // Those without commits of their own are refreshed one by one.
    const emitted = (await checks(project.id)).slice(before.length).filter(([iid]) => iid <= 3);
    expect(emitted).toEqual([[2, cannot]]);

    // The first commit of `long` arrives by another way, so that its merge base moves.
    const merged = await owner.post(`${path}/repository/commits/${early}/cherry_pick`, { branch: 'main' });
    expect(merged.status).toBe(201);
    await owner.post(`${path}/repository/branches`, { branch: 'early', ref: early });
    await owner.post(`${path}/merge_requests`, { source_branch: 'early', target_branch: 'main', title: 'early' });
    await app().settle();
    expect((await owner.put(`${path}/merge_requests/6/merge`)).status).toBe(200);
    await app().settle();
    const versions = async (iid: number) => (await owner.get(`${path}/merge_requests/${iid}/versions`)).body;
    expect(await versions(3)).toMatchObject([{ base_commit_sha: early }, {}]);
    expect((await owner.get(`${path}/merge_requests/3/commits`)).body).toHaveLength(1);
    expect([await versions(1), await versions(2)]).toMatchObject([[{}], [{}]]);
    expect((await statuses()).slice(0, 3)).toEqual([can, cannot, can]);
  });
});
