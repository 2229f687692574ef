import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { insertDiff, insertMergeRequest } from './support.ts';

const app = useApp();

describe('the merge requests of a commit', () => {
  it('are those that contain it or were merged as it, for callers who may see them', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true, visibility: 'private' }, owner);
    const client = app().as(owner);
    const url = `/projects/${project.id}/repository/commits/main/merge_requests`;
    const sha: string = (await client.get(`/projects/${project.id}/repository/commits/main`)).body.id;
    const { db } = app().hub.services;
    const brings = await insertMergeRequest(db, { project_id: project.id });
    await insertDiff(db, brings.id, { shas: ['1'.repeat(40), sha] });
    const became = await insertMergeRequest(db, { project_id: project.id, state: 'merged', merge_commit_sha: sha });
    const another = await insertMergeRequest(db, { project_id: project.id });
    await insertDiff(db, another.id, { shas: ['2'.repeat(40)] });
    const iids = async (query = '') =>
      (await client.get(url + query)).body.map(({ iid }: { iid: number }) => iid).sort();
    expect(await iids()).toEqual([brings.iid, became.iid].sort());
    expect(await iids('?state=merged')).toEqual([became.iid]);
    expect((await client.get(url.replace('main', 'absent'))).body.message).toBe('404 Commit Not Found');
    const guest = await app().make.user();
    await app().make.projectMember(project, guest, 10);
    expect((await app().as(guest).get(url)).status).toBe(403);
    expect((await app().anonymous.get(url)).status).toBe(404);
  });
});
