import { expect, it } from 'vitest';
import { Receiver } from '../hooks/receiver.ts';
import { makeScene } from '../planning/scene.ts';
import { remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { pushCommits, README } from '../support/commits.ts';

// A transaction that waits for a second connection keeps its own meanwhile. Of those here, only the dispatch of hooks may
// do that. If pushes or merges did it too, two of them would wait for each other, until the pool gives up.
const app = useApp({ connections: 2 });
const folder = useFolder();

const AT_ONCE = Array.from({ length: 12 }, (_, n) => n);

it('serves concurrent pushes, merges and hooks on a hub with two connections', async () => {
  await using receiver = await Receiver.start();
  await app().as(app().root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  const { owner, path, project, people } = await makeScene(app());
  await pushCommits(app(), project, people.owner, [
    README,
    ...AT_ONCE.map((n) => ({ branch: `target-${n}`, from: 'main', files: { 'target.txt': `${n}\n` } })),
    ...AT_ONCE.map((n) => ({ branch: `source-${n}`, from: 'main', files: { 'source.txt': `${n}\n` } })),
  ]);
  const hook = { url: receiver.url, push_events: true, merge_requests_events: true };
  expect((await owner.post(`${path}/hooks`, hook)).status).toBe(201);
  const opened = await Promise.all(
    AT_ONCE.map((n) =>
      owner.post(`${path}/merge_requests`, {
        source_branch: `source-${n}`,
        target_branch: `target-${n}`,
        title: `Merge ${n}`,
      }),
    ),
  );
  expect(opened.map(({ status }) => status)).toEqual(AT_ONCE.map(() => 201));
  await app().settle();

  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, people.owner);
  await runGit(tree, 'fetch', '-q', remote, 'main');
  const [merged] = await Promise.all([
    Promise.all(opened.map(({ body }) => owner.put(`${path}/merge_requests/${body.iid}/merge`))),
    Promise.all(AT_ONCE.map((n) => runGit(tree, 'push', '-q', remote, `FETCH_HEAD:refs/heads/pushed-${n}`))),
  ]);
  expect(merged.map(({ body }) => body.state)).toEqual(AT_ONCE.map(() => 'merged'));
  await app().settle();

  const heard = (kind: string, wanted: (body: Receiver['received'][number]['body']) => boolean) =>
    receiver.received.filter(({ body }) => body.object_kind === kind && wanted(body)).length;
  expect(heard('push', ({ ref }) => ref.startsWith('refs/heads/pushed-'))).toBe(AT_ONCE.length);
  expect(heard('merge_request', (body) => body.object_attributes.action === 'merge')).toBe(AT_ONCE.length);
});
