import { createClient } from 'graphql-sse';
import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { refreshNow } from '#domains/merge-requests/versions/refresh.ts';
import { getProject } from '#domains/projects/queries.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import { encodeCursor } from '#platform/cursor.ts';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushCommits } from '../support/commits.ts';
import { commit, makeMergeRequest } from './merge-scene.ts';

// Jobs and followers do most of what follows a push or a merge. Its events name the person who pushed or merged.

const app = useApp();

/** Returns whom the newest event of the kind names, in the log and in the body that hooks get. */
const namedBy = async (type: string, id: number, kind: string) => {
  await app().settle();
  const event = (await findEvents(app(), type, id)).findLast((each) => each.kind === kind);
  const definition = eventDefinitions.find((each) => each.kind === kind);
  if (!event || !definition) throw new Error(`no event ${kind}`);
  return { event: event.actor_id, hook: await definition.body(app().context(), event) };
};

const by = ({ id, username }: TestUser) => ({
  event: id,
  hook: expect.objectContaining({ user: expect.objectContaining({ username }) }),
});

/** Returns the kind and the actor of each event of the project, until the kind `last`. */
const subscribed = async (who: TestUser, projectPath: string, last: string): Promise<[string, number | null][]> => {
  const client = createClient({
    url: `${app().url}/api/graphql`,
    retryAttempts: 0,
    headers: await app().as(who).headers(),
  });
  const seen: [string, number | null][] = [];
  try {
    const query = `subscription { events(scope: { projectPath: "${projectPath}" }, after: "${encodeCursor([0])}") { kind actorId } }`;
    for await (const { data } of client.iterate<{ events: { kind: string; actorId: number | null } }>({ query })) {
      if (!data) break;
      seen.push([data.events.kind, data.events.actorId]);
      if (data.events.kind === last) return seen;
    }
    throw new Error('the subscription ended');
  } finally {
    client.dispose();
  }
};

describe('the events of a merge request', () => {
  it('name the person whose push merges it, also where it closes an issue', async () => {
    const { owner, people, path, project, id, head, target } = await makeMergeRequest(
      app(),
      {},
      { moves: false, description: 'Closes #1' },
    );
    const { body: issue } = await owner.post(`${path}/issues`, { title: 'One' });
    const ctx = app().context(people.maintainer);
    await moveRefs(ctx, await getProject(ctx, { id: project.id }), [
      { ref: 'refs/heads/main', oldOid: target, newOid: head },
    ]);
    expect(await namedBy('MergeRequest', id, 'merge_request.merged')).toEqual(by(people.maintainer));
    expect(await namedBy('Issue', issue.id, 'issue.closed')).toEqual(by(people.maintainer));
    const seen = await subscribed(people.owner, project.path_with_namespace, 'issue.closed');
    expect(seen).toContainEqual(['merge_request.merged', people.maintainer.id]);
    expect(seen.at(-1)).toEqual(['issue.closed', people.maintainer.id]);
  });

  it('name the person who deletes its branch', async () => {
    const { maintainer, people, path, id } = await makeMergeRequest(app());
    expect((await maintainer.delete(`${path}/repository/branches/feature`)).status).toBe(204);
    expect(await namedBy('MergeRequest', id, 'merge_request.closed')).toEqual(by(people.maintainer));
  });

  it('name the person who pushes to its branch, also where that ends approvals', async () => {
    const { maintainer, people, path, at, id } = await makeMergeRequest(app());
    const { maintainer: pusher, owner } = people;
    await app().as(owner).post(`${path}/approvals`, { reset_approvals_on_push: true });
    expect((await maintainer.post(`${at}/approve`)).status).toBe(201);
    await commit(maintainer, path, 'feature', 'three.txt');
    expect(await namedBy('MergeRequest', id, 'merge_request.updated')).toEqual(by(pusher));
    expect(await namedBy('MergeRequest', id, 'merge_request.unapproved')).toEqual(by(pusher));
    // The hub finds out by itself whether it can be merged.
    expect(await namedBy('MergeRequest', id, 'merge_request.checked')).toMatchObject({ event: null });
    // The same if it is closed.
    await maintainer.post(`${at}/approve`);
    await app().as(owner).put(at, { state_event: 'close' });
    const before = await findEvents(app(), 'MergeRequest', id);
    await commit(maintainer, path, 'feature', 'four.txt');
    await app().settle();
    const after = (await findEvents(app(), 'MergeRequest', id)).slice(before.length);
    expect(after.map(({ kind, actor_id }) => [kind, actor_id])).toEqual([['merge_request.unapproved', pusher.id]]);
  });

  it('do not name a reader who only waits for the new version', async () => {
    const { people, project, id, head } = await makeMergeRequest(app());
    const [next] = await pushCommits(app(), project, people.maintainer, [
      { branch: 'aside', from: 'feature', files: { aside: 'text' } },
    ]);
    const { git } = app().hub.services;
    const ctx = app().context(people.reporter);
    const { disk_path } = await getProject(ctx, { id: project.id });
    await app().settle();
    const before = await findEvents(app(), 'MergeRequest', id);
    // As between a push and the job that follows it.
    await git.updateRefs(disk_path, [{ ref: 'refs/heads/feature', oldOid: head, newOid: next ?? null }]);
    await refreshNow(ctx, id);
    const after = (await findEvents(app(), 'MergeRequest', id)).slice(before.length);
    expect(after.map(({ kind }) => kind)).toContain('merge_request.updated');
    expect(after.map(({ actor_id }) => actor_id)).not.toContain(people.reporter.id);
  });
});
