import { Gitlab } from '@gitbeaker/rest';
import { afterAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
afterAll(() => front.close());

describe('gitbeaker', () => {
  it('forks a project, lists its forks, and removes and restores the fork relationship', async () => {
    front.target = app().hub.url;
    const owner = await app().make.user();
    const forker = await app().make.user();
    const source = await app().make.project({ visibility: 'public', initialize_with_readme: true }, owner);
    const api = new Gitlab({ host: front.url, token: await app().tokenOf(forker) });
    const fork = await api.Projects.fork(source.id, { path: 'beaker', name: 'Beaker' });
    expect(fork).toMatchObject({ path: 'beaker', import_status: 'scheduled', forked_from_project: { id: source.id } });
    await app().settle();
    expect(await api.Projects.show(fork.id)).toMatchObject({ import_status: 'finished', empty_repo: false });
    expect((await api.Projects.allForks(source.id)).map(({ id }) => id)).toEqual([fork.id]);
    await api.Projects.removeForkRelationship(fork.id);
    expect((await api.Projects.show(fork.id)).forked_from_project).toBeUndefined();
    await api.Projects.createForkRelationship(fork.id, source.id);
    expect((await api.Projects.show(fork.id)).forked_from_project).toMatchObject({ id: source.id, forks_count: 1 });
    await expect(api.Projects.fork(source.id, { path: 'beaker', name: 'Beaker' })).rejects.toMatchObject({
      cause: { response: { status: 409 } },
    });
  });
});
