import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { pushCommits } from '../support/commits.ts';
import { untilBlocked } from '../support/locks.ts';
import { packProject } from './archive.ts';
import { downloadExport, importArchive } from './support.ts';

const app = useApp();

it('merge requests from forks arrive with branches of their own, and can be merged', async () => {
  const { root, as, make } = app();
  const project = await make.project({ initialize_with_readme: true, visibility: 'public' }, root);
  const path = `/projects/${project.id}`;
  const contributors = await make.users(3);
  const iids: number[] = [];
  const forks: number[] = [];
  // Two forks use the same name, and one uses that of the default branch.
  for (const [index, branch] of ['fix', 'fix', 'main'].entries()) {
    const contributor = contributors[index];
    if (!contributor) throw new Error('a user is missing');
    const fork = (await as(contributor).post(`${path}/fork`)).body;
    await app().settle();
    await pushCommits(app(), fork, contributor, [
      { branch, ...(branch === 'main' ? {} : { from: 'main' }), files: { [`${index}.txt`]: `${index}\n` } },
    ]);
    const made = await as(contributor).post(`/projects/${fork.id}/merge_requests`, {
      source_branch: branch,
      target_branch: 'main',
      target_project_id: project.id,
      title: `Add ${index}`,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    iids.push(made.body.iid);
    forks.push(fork.id);
  }
  await app().settle();
  const owner = as(root);
  const closed = iids[2];
  const before = new Map<number, string>();
  for (const iid of iids) before.set(iid, (await owner.get(`${path}/merge_requests/${iid}`)).body.sha);

  // The commits of a fork outlive it.
  await as(root).delete(`/projects/${forks[1]}`);
  await app().settle();
  expect((await owner.get(`${path}/merge_requests/${iids[1]}`)).body).toMatchObject({
    merge_status: 'cannot_be_merged',
  });

  const { bytes } = await downloadExport(app(), root, project.id);
  const { id } = (await importArchive(app(), root, bytes, { path: 'of-forks' })).body;
  await app().settle();
  expect((await owner.get(`/projects/${id}/import`)).body).toMatchObject({
    import_status: 'finished',
    failed_relations: [],
  });
  const copied = async (iid: number) => (await owner.get(`/projects/${id}/merge_requests/${iid}`)).body;
  const branches = ['fix', `fix-${iids[1]}`, `main-${closed}`];
  for (const [index, iid] of iids.entries()) {
    expect(await copied(iid)).toMatchObject({
      state: 'opened',
      source_project_id: id,
      source_branch: branches[index],
      sha: before.get(iid),
    });
    const { body } = await owner.get(`/projects/${id}/repository/branches/${branches[index]}`);
    expect(body.commit.id).toBe(before.get(iid));
    // Reading it has it checked.
    await app().settle();
    expect(await copied(iid)).toMatchObject({ merge_status: 'can_be_merged', detailed_merge_status: 'mergeable' });
  }
  // A push to the target leaves each its changes.
  await pushCommits(app(), { id }, root, [{ branch: 'main', files: { 'more.txt': 'more\n' } }]);
  await app().settle();
  for (const iid of iids) {
    const { status, body } = await owner.put(`/projects/${id}/merge_requests/${iid}/merge`);
    expect([status, body.state], JSON.stringify(body)).toEqual([200, 'merged']);
    await app().settle();
  }
  const { body: tree } = await owner.get(`/projects/${id}/repository/tree`);
  expect(tree.map(({ name }: { readonly name: string }) => name)).toEqual(
    expect.arrayContaining(['0.txt', '1.txt', '2.txt', 'more.txt']),
  );
});

it('a merge request from a fork has no source if the archive lacks its commits', async () => {
  const { root, as, make } = app();
  const project = await make.project({ initialize_with_readme: true }, root);
  const form = new FormData();
  const archive = await packProject({
    merge_requests: [
      {
        iid: 4,
        title: 'From afar',
        source_branch: 'main',
        target_branch: 'main',
        source_project_id: 7,
        target_project_id: 8,
        diff_head_sha: 'a'.repeat(40),
        merge_status: 'can_be_merged',
        merge_user_id: 9,
      },
      { iid: 5, title: 'Done', state: 'merged', source_branch: 'gone', target_branch: 'main', merge_user_id: 9 },
    ],
  });
  form.set('file', new Blob([new Uint8Array(archive)]), 'export.tar.gz');
  form.set('path', project.path_with_namespace);
  form.set('relation', 'merge_requests');
  expect((await as(root).post('/projects/import-relation', form)).status).toBe(201);
  await app().settle();
  expect((await as(root).get(`/projects/${project.id}/merge_requests/4`)).body).toMatchObject({
    state: 'opened',
    source_project_id: null,
    source_branch: 'main',
    merge_status: 'cannot_be_merged',
    detailed_merge_status: 'commits_status',
    // Nobody is about to merge it here.
    merge_user: null,
  });
  expect((await as(root).get(`/projects/${project.id}/merge_requests/5`)).body).toMatchObject({
    state: 'merged',
    merge_user: { id: root.id },
  });
});

it('a relation import pushes the branches of forks, past no protection, and starts no pipelines', async () => {
  const { as, make, hub } = app();
  const [owner, importer] = await make.users(2);
  if (!owner || !importer) throw new Error('a user is missing');
  const project = await make.project({ initialize_with_readme: true }, owner);
  await make.projectMember(project, importer, 40);
  const path = `/projects/${project.id}`;
  const files = { '.gitlab-ci.yml': 'test: { script: "true" }' };
  const heads = await pushCommits(app(), project, owner, [
    { branch: 'one', from: 'main', files: { ...files, one: '1' } },
    { branch: 'two', from: 'main', files: { ...files, two: '2' } },
  ]);
  await app().settle();
  // The commits stay, as those of a deleted fork do.
  for (const [index, branch] of ['one', 'two'].entries()) {
    await as(owner).post(`${path}/merge_requests`, { title: branch, source_branch: branch, target_branch: 'main' });
    await app().settle();
    expect((await as(owner).delete(`${path}/repository/branches/${branch}`)).status).toBe(204);
    await app().settle();
    expect((await as(owner).get(`${path}/merge_requests/${index + 1}`)).body.state).toBe('closed');
  }
  await as(owner).post(`${path}/protected_branches`, { name: 'stable', push_access_level: 0 });
  const opened = { state: 'opened', target_branch: 'main' };
  const fromFork = (iid: number, source_branch: string, diff_head_sha: string | undefined) => ({
    ...opened,
    iid,
    title: `From a fork ${iid}`,
    source_branch,
    diff_head_sha,
    source_project_id: 7,
    target_project_id: 8,
  });
  const send = async (merge_requests: readonly object[]) => {
    const form = new FormData();
    form.set('file', new Blob([new Uint8Array(await packProject({ merge_requests }))]), 'export.tar.gz');
    form.set('path', project.path_with_namespace);
    form.set('relation', 'merge_requests');
    expect((await as(importer).post('/projects/import-relation', form)).status).toBe(201);
    await app().settle();
  };
  // A merge request that waits for its branch.
  await send([{ ...opened, iid: 11, title: 'Waits', source_branch: 'fix' }]);
  const read = async (iid: number) => {
    await as(owner).get(`${path}/merge_requests/${iid}`);
    await app().settle();
    return (await as(owner).get(`${path}/merge_requests/${iid}`)).body;
  };
  expect(await read(11)).toMatchObject({ state: 'opened', sha: null });
  const { rows: before } = await hub.services.pool.query('select max(id) as id from events');
  await send([fromFork(12, 'fix', heads[0]), fromFork(13, 'stable', heads[1])]);
  expect(await read(12)).toMatchObject({ state: 'opened', source_branch: 'fix', sha: heads[0] });
  expect(await read(13)).toMatchObject({ state: 'opened', source_branch: 'stable-13', sha: heads[1] });
  expect((await as(owner).get(`${path}/repository/branches/stable`)).status).toBe(404);
  // The branch has come.
  expect(await read(11)).toMatchObject({ sha: heads[0] });
  const { rows: pushes } = await hub.services.pool.query(
    `select actor_id, payload ->> 'ref' as ref from events where id > $1 and project_id = $2 and kind = 'push.received'
     order by id`,
    [before[0].id, project.id],
  );
  expect(pushes).toEqual([
    { actor_id: null, ref: 'refs/heads/fix' },
    { actor_id: null, ref: 'refs/heads/stable-13' },
  ]);
  expect((await as(owner).get(`${path}/pipelines?ref=fix`)).body).toEqual([]);
});

it('a relation import holds no lock of the project while it pushes', async () => {
  const { root, as, make, hub } = app();
  const project = await make.project({ initialize_with_readme: true }, root);
  const path = `/projects/${project.id}`;
  const [tip] = await pushCommits(app(), project, root, [{ branch: 'fix', from: 'main', files: { one: '1' } }]);
  await app().settle();
  const lines = [1, 2].map((iid) => ({
    iid,
    title: 'From a fork',
    source_branch: 'theirs',
    target_branch: 'main',
    diff_head_sha: tip,
    source_project_id: 7,
    target_project_id: 8,
  }));
  const form = new FormData();
  form.set('file', new Blob([new Uint8Array(await packProject({ merge_requests: lines }))]), 'export.tar.gz');
  form.set('path', project.path_with_namespace);
  form.set('relation', 'merge_requests');
  await hub.services.db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`millrace:push:${project.id}`}, 0))`.execute(trx);
    expect((await as(root).post('/projects/import-relation', form)).status).toBe(201);
    await untilBlocked(app());
    // It would wait for as long as this transaction lasts.
    const change = await as(root).put(path, { description: 'Changed meanwhile' });
    expect(change).toMatchObject({ status: 200, body: { description: 'Changed meanwhile' } });
  });
  await app().settle();
  for (const { iid } of lines)
    expect((await as(root).get(`${path}/merge_requests/${iid}`)).body).toMatchObject({ source_branch: 'theirs' });
});
