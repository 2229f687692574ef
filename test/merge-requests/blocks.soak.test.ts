import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { mutate } from '../support/graphql.ts';
import { makeMergeRequest } from './merge-scene.ts';

const app = useApp();

/** A merge request of `feature`, and one of `first` that adds another file. */
const setUp = async () => {
  const scene = await makeMergeRequest(app());
  const { owner, path, project } = scene;
  const answer = await owner.post(`${path}/repository/commits`, {
    branch: 'first',
    start_branch: 'main',
    commit_message: 'Come first',
    actions: [{ action: 'create', file_path: 'first.txt', content: 'x\n' }],
  });
  expect(answer.status).toBe(201);
  const { body: first } = await owner.post(`${path}/merge_requests`, {
    source_branch: 'first',
    target_branch: 'main',
    title: 'Come first',
  });
  await app().settle();
  const named = { projectPath: project.path_with_namespace, iid: '1' };
  return { ...scene, first, named, firstAt: `${path}/merge_requests/2`, blocks: `${scene.at}/blocks` };
};

const statusOf = async (client: Client, at: string): Promise<string> =>
  (await client.get(at)).body.detailed_merge_status;

describe('a merge request that waits for another one', () => {
  it('can be merged only after it', async () => {
    const { owner, reporter, at, blocks, id, first, firstAt, project } = await setUp();
    const made = await owner.post(blocks, { blocking_merge_request_id: first.id });
    expect(made).toMatchObject({
      status: 201,
      body: {
        id: expect.any(Number),
        project_id: project.id,
        blocking_merge_request: { id: first.id, title: 'Come first', references: { relative: '!2' } },
        blocked_merge_request: { id, iid: 1 },
      },
    });
    expect((await reporter.get(blocks)).body).toEqual([made.body]);
    expect((await reporter.get(`${firstAt}/blockees`)).body).toEqual([made.body]);
    expect((await reporter.get(`${at}/blockees`)).body).toEqual([]);
    expect(await statusOf(owner, at)).toBe('merge_request_blocked');
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    expect((await owner.put(`${firstAt}/merge`)).status).toBe(200);
    await app().settle();
    expect(await statusOf(owner, at)).toBe('mergeable');
    const kinds = await app()
      .hub.services.db.selectFrom('events')
      .select('kind')
      .where('subject_type', '=', 'MergeRequest')
      .where('subject_id', '=', id)
      .where('kind', '=', 'merge_request.checked')
      .orderBy('id')
      .execute();
    // It was checked at first, and told when the block came, when its target moved, and when the other was merged.
    expect(kinds.length).toBeGreaterThanOrEqual(3);
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
    // A merged one keeps its blocks.
    expect((await owner.delete(`${blocks}/${made.body.id}`)).status).toBe(403);
  });

  it.each(['merged', 'deleted', 'unblocked'] as const)('is merged automatically once it is %s', async (end) => {
    const { owner, at, blocks, first, firstAt } = await setUp();
    const { body: block } = await owner.post(blocks, { blocking_merge_request_id: first.id });
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).body.state).toBe('opened');
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('opened');
    if (end === 'merged') await owner.put(`${firstAt}/merge`);
    if (end === 'deleted') await owner.delete(firstAt);
    if (end === 'unblocked') expect((await owner.delete(`${blocks}/${block.id}`)).status).toBe(204);
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('merged');
    expect((await owner.delete(`${blocks}/999999999`)).status).toBe(403);
  });

  it('still waits for one that is closed, which brings no changes', async () => {
    const { owner, at, blocks, first, firstAt } = await setUp();
    const { body: block } = await owner.post(blocks, { blocking_merge_request_id: first.id });
    expect((await owner.put(firstAt, { state_event: 'close' })).body.state).toBe('closed');
    await app().settle();
    expect(await statusOf(owner, at)).toBe('merge_request_blocked');
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    expect((await owner.delete(`${blocks}/${block.id}`)).status).toBe(204);
    expect(await statusOf(owner, at)).toBe('mergeable');
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
  });

  it.each(['project', 'group'] as const)(
    'is merged automatically once the %s of the other is deleted',
    async (what) => {
      const { owner, at, blocks, people } = await setUp();
      const elsewhere = await makeMergeRequest(app());
      await app().make.projectMember(elsewhere.project, people.owner, 30);
      const made = await owner.post(blocks, { blocking_merge_request_id: elsewhere.id });
      expect(made.status).toBe(201);
      expect((await owner.put(`${at}/merge`, { auto_merge: true })).body.state).toBe('opened');
      await app().settle();
      expect((await owner.get(at)).body.state).toBe('opened');
      const deleted = what === 'project' ? elsewhere.path : `/groups/${elsewhere.group.id}`;
      expect((await elsewhere.owner.delete(deleted)).status).toBe(202);
      await app().settle();
      expect((await owner.get(at)).body.state).toBe('merged');
    },
  );

  it('waits once, never for itself, and only for merge requests that the caller can see', async () => {
    const { owner, reporter, stranger, at, blocks, id, first, firstAt } = await setUp();
    const hidden = await makeMergeRequest(app());
    const block = (client: Client, where: string, blocking_merge_request_id: unknown) =>
      client.post(where, { blocking_merge_request_id });
    expect((await block(owner, blocks, first.id)).status).toBe(201);
    expect((await block(owner, blocks, first.id)).status).toBe(409);
    expect((await block(owner, blocks, id)).status).toBe(400);
    // Nor in a circle.
    expect((await block(owner, `${firstAt}/blocks`, id)).status).toBe(400);
    expect((await block(owner, blocks, hidden.id)).status).toBe(404);
    expect((await block(owner, blocks, 999_999_999)).status).toBe(404);
    expect((await block(owner, blocks, 'x')).status).toBe(400);
    expect((await block(reporter, blocks, first.id)).status).toBe(403);
    expect((await block(stranger, blocks, first.id)).status).toBe(404);
    expect((await app().anonymous.get(blocks)).status).toBe(404);
    const [{ id: blockId }] = (await owner.get(blocks)).body;
    expect((await reporter.delete(`${blocks}/${blockId}`)).status).toBe(403);
    expect((await owner.delete(`${firstAt}/blocks/${blockId}`)).status).toBe(404);
    expect((await owner.get(blocks)).body).toHaveLength(1);
    expect(await statusOf(owner, at)).toBe('merge_request_blocked');
  });

  it('never waits in a circle that two blocks close at once', async () => {
    const { owner, path, blocks, id, first, firstAt } = await setUp();
    const answer = await owner.post(`${path}/merge_requests`, {
      source_branch: 'first',
      target_branch: 'feature',
      title: 'Come last',
    });
    expect(answer.status).toBe(201);
    const last = answer.body;
    expect((await owner.post(blocks, { blocking_merge_request_id: first.id })).status).toBe(201);
    const closing = await Promise.all([
      owner.post(`${firstAt}/blocks`, { blocking_merge_request_id: last.id }),
      owner.post(`${path}/merge_requests/${last.iid}/blocks`, { blocking_merge_request_id: id }),
    ]);
    expect(closing.map(({ status }) => status).toSorted()).toEqual([201, 400]);
  });

  it('is shown over GraphQL, without merge requests that the caller cannot see', async () => {
    const { owner, maintainer, reporter, named, first, people } = await setUp();
    const elsewhere = await makeMergeRequest(app());
    await app().make.projectMember(elsewhere.project, people.owner, 30);
    const gid = (id: number) => `gid://gitlab/MergeRequest/${id}`;
    const fields = `mergeRequest { detailedMergeStatus
      blockingMergeRequests { totalCount hiddenCount visibleMergeRequests { iid project { id } } } }`;
    for (const id of [first.id, elsewhere.id]) {
      await mutate(owner, 'mergeRequestBlockCreate', { ...named, blockingMergeRequestId: gid(id) }, fields);
    }
    const read = async (client: Client) => {
      const { data } = await client.graphql(
        `query ($path: ID!) { project(fullPath: $path) { mergeRequests(iids: ["1"]) {
        nodes { detailedMergeStatus blockingMergeRequests { totalCount hiddenCount visibleMergeRequests { iid } } } } } }`,
        {
          path: named.projectPath,
        },
      );
      return data.project.mergeRequests.nodes;
    };
    const seen = (...iids: string[]) => [
      {
        detailedMergeStatus: 'BLOCKED_STATUS',
        blockingMergeRequests: {
          totalCount: 2,
          hiddenCount: 2 - iids.length,
          visibleMergeRequests: iids.map((iid) => ({ iid })),
        },
      },
    ];
    expect(await read(owner)).toEqual(seen('2', '1'));
    expect(await read(reporter)).toEqual(seen('2'));
    for (const id of [first.id, elsewhere.id]) {
      await mutate(maintainer, 'mergeRequestBlockDestroy', { ...named, blockingMergeRequestId: gid(id) });
    }
    expect(await read(owner)).toMatchObject([
      { detailedMergeStatus: 'MERGEABLE', blockingMergeRequests: { totalCount: 0, visibleMergeRequests: [] } },
    ]);
  });
});
