import { join } from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { remoteOf, runGit, tryGit, useFolder } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { commit } from './merge-scene.ts';

// `allow_collaboration` lets those who can merge a merge request push to its branch in the fork.

const app = useApp();
const folder = useFolder();

/** A contributor's merge request from a fork, whose target has moved on. */
const makeFork = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), { initialize_with_readme: true, visibility: 'public' });
  const { owner, path, people, project } = scene;
  const contributor = app().as(people.stranger);
  const fork = (await contributor.post(`${path}/fork`)).body;
  await app().settle();
  const own = `/projects/${fork.id}`;
  for (const branch of ['mine', 'other']) {
    await contributor.post(`${own}/repository/branches`, { branch, ref: 'main' });
  }
  await commit(contributor, own, 'mine', 'mine.txt');
  await commit(owner, path, 'main', 'theirs.txt');
  const made = await contributor.post(`${own}/merge_requests`, {
    source_branch: 'mine',
    target_branch: 'main',
    target_project_id: project.id,
    title: 'Add',
    allow_collaboration: true,
    ...attributes,
  });
  expect(made.status).toBe(201);
  await app().settle();
  return { ...scene, contributor, fork, own, at: `${path}/merge_requests/1` };
};

/** Pushes a new commit on the tip of `mine` to the fork. Returns what git says if it is refused, else an empty text. */
const push = async (fork: { path_with_namespace: string }, user: TestUser, name: string, to = 'mine') => {
  const tree = join(folder(), name);
  const remote = await remoteOf(app(), fork, user);
  await runGit(folder(), 'clone', '--quiet', '--branch', 'mine', remote, tree);
  await runGit(tree, '-c', 'user.name=X', '-c', 'user.email=x@example.net', 'commit', '--allow-empty', '-m', name);
  const { code, stderr } = await tryGit(tree, 'push', remote, `HEAD:refs/heads/${to}`);
  return code === 0 ? '' : stderr;
};

describe('a fork that allows collaboration', () => {
  it('takes pushes to the branch of the merge request from those who can merge it', async () => {
    const { owner, fork, own, people, at, contributor } = await makeFork();
    expect(await push(fork, people.maintainer, 'one')).toBe('');
    await app().settle();
    const { commit: tip } = (await contributor.get(`${own}/repository/branches/mine`)).body;
    expect(tip.title).toBe('one');
    expect((await owner.get(at)).body.sha).toBe(tip.id);
    expect(await push(fork, people.maintainer, 'two', 'other')).toContain('not allowed to push to this branch or tag');
    expect(await push(fork, people.maintainer, 'three', 'new')).toContain('not allowed to push to this branch or tag');
    const gone = await tryGit(folder(), 'push', await remoteOf(app(), fork, people.maintainer), ':refs/heads/mine');
    expect(gone.code).not.toBe(0);
    // They get no other right to the fork.
    const refused = await app().as(people.maintainer).post(`${own}/repository/branches`, { branch: 'x', ref: 'main' });
    expect(refused.status).toBe(403);
    // Reporters cannot merge.
    expect(await push(fork, people.reporter, 'four')).toContain('403');
    await owner.put(at, { state_event: 'close' });
    expect(await push(fork, people.maintainer, 'five')).toContain('403');
  });

  it('takes commits and suggestions of them over the API, too', async () => {
    const { fork, own, at, maintainer, reporter, contributor } = await makeFork();
    const send = (client: typeof maintainer, branch: string, further: Record<string, unknown> = {}) =>
      client.post(`${own}/repository/commits`, {
        branch,
        commit_message: 'Help',
        actions: [{ action: 'create', file_path: `${branch}.md`, content: 'one\ntwo\n' }],
        ...further,
      });
    expect((await send(maintainer, 'mine')).status).toBe(201);
    expect((await send(maintainer, 'other')).status).toBe(403);
    expect((await send(maintainer, 'new', { start_branch: 'mine' })).status).toBe(403);
    expect((await send(reporter, 'mine')).status).toBe(403);
    expect((await maintainer.post(`${own}/repository/tags`, { tag_name: 'v1', ref: 'mine' })).status).toBe(403);
    const input = {
      projectPath: fork.path_with_namespace,
      branch: 'mine',
      message: 'Help again',
      actions: [{ action: 'UPDATE', filePath: 'mine.md', content: 'one\ntwo\nthree\n' }],
    };
    const commitCreate = async (client: typeof maintainer) =>
      (
        await client.graphql('mutation ($input: CommitCreateInput!) { commitCreate(input: $input) { errors } }', {
          input,
        })
      ).data.commitCreate;
    expect((await commitCreate(reporter))?.errors ?? ['refused']).not.toEqual([]);
    expect(await commitCreate(maintainer)).toEqual({ errors: [] });
    await app().settle();
    const { diff_refs } = (await maintainer.get(at)).body;
    const position = { position_type: 'text', ...diff_refs, new_path: 'mine.md', new_line: 2 };
    const { body: thread } = await maintainer.post(`${at}/discussions`, {
      body: '```suggestion:-0+0\nzwei\n```',
      position,
    });
    const [{ id }] = thread.notes[0].suggestions;
    expect((await reporter.put(`/suggestions/${id}/apply`)).status).toBe(403);
    expect((await maintainer.put(`/suggestions/${id}/apply`)).status).toBe(200);
    const file = await maintainer.get(`${own}/repository/files/mine.md/raw?ref=mine`);
    expect(file.body).toBe('one\nzwei\nthree\n');
    await app().settle();
    const { body: last } = await maintainer.post(`${at}/discussions`, {
      body: '```suggestion:-0+0\ndos\n```',
      position: { ...position, ...(await maintainer.get(at)).body.diff_refs },
    });
    expect(last.notes[0].suggestions).toMatchObject([{ appliable: true }]);
    await contributor.delete(own);
    const { body: left } = await maintainer.get(`${at}/discussions/${last.id}`);
    expect(left.notes[0].suggestions).toMatchObject([{ appliable: false }]);
    expect(await maintainer.put(`/suggestions/${left.notes[0].suggestions[0].id}/apply`)).toMatchObject({
      status: 400,
      body: { message: "Can't apply as the source branch was deleted." },
    });
  });

  it('takes cherry-picks, reverts and changelogs of them', async () => {
    const { fork, own, maintainer, reporter } = await makeFork();
    const [picked] = (await maintainer.get(`${own}/repository/commits?ref_name=mine`)).body;
    await commit(app().as(fork.owner), own, 'other', 'other.txt');
    const [other] = (await maintainer.get(`${own}/repository/commits?ref_name=other`)).body;
    const at = (action: string, { id }: { id: string } = other) => `${own}/repository/commits/${id}/${action}`;
    for (const client of [reporter, app().as(await app().make.user())]) {
      expect((await client.post(at('cherry_pick'), { branch: 'mine' })).status).toBe(403);
      expect((await client.post(at('revert', picked), { branch: 'mine' })).status).toBe(403);
      expect((await client.post(`${own}/repository/changelog`, { version: '1.0.0', branch: 'mine' })).status).toBe(403);
    }
    expect((await app().anonymous.post(at('cherry_pick'), { branch: 'mine' })).status).toBe(401);
    expect((await maintainer.post(at('cherry_pick', picked), { branch: 'other' })).status).toBe(403);
    expect((await maintainer.post(at('revert'), { branch: 'other' })).status).toBe(403);
    expect((await maintainer.post(at('cherry_pick'), { branch: 'mine', dry_run: true })).body).toEqual({
      dry_run: 'success',
    });
    const done = await maintainer.post(at('cherry_pick'), { branch: 'mine' });
    expect([done.status, done.body.title]).toEqual([201, 'Change other.txt']);
    const undone = await maintainer.post(at('revert', done.body), { branch: 'mine' });
    expect([undone.status, undone.body.title]).toEqual([201, 'Revert "Change other.txt"']);
    const log = { version: '1.0.0', from: picked.id };
    expect((await maintainer.post(`${own}/repository/changelog`, { ...log, branch: 'mine' })).status).toBe(200);
    expect((await maintainer.post(`${own}/repository/changelog`, { ...log, branch: 'other' })).status).toBe(403);
  });

  it('shows in its branches who may push to them', async () => {
    const { fork, own, maintainer, reporter, contributor, at, owner, project } = await makeFork();
    const query = `query ($path: ID!) { project(fullPath: $path) { repository {
      branches { nodes { name canPush } } branch(name: "mine") { canPush } } } }`;
    const pushable = async (client: typeof maintainer) => {
      const { body } = await client.get(`${own}/repository/branches`);
      const rest = body.filter(({ can_push }: { can_push: boolean }) => can_push);
      const one = (await client.get(`${own}/repository/branches/mine`)).body.can_push;
      const { repository } = (await client.graphql(query, { path: fork.path_with_namespace })).data.project;
      const graphql = repository.branches.nodes.filter(({ canPush }: { canPush: boolean }) => canPush);
      const names = rest.map(({ name }: { name: string }) => name);
      expect(graphql.map(({ name }: { name: string }) => name)).toEqual(names);
      expect([one, repository.branch.canPush]).toEqual([names.includes('mine'), names.includes('mine')]);
      return names;
    };
    expect(await pushable(contributor)).toEqual(['main', 'mine', 'other']);
    expect(await pushable(maintainer)).toEqual(['mine']);
    expect(await pushable(reporter)).toEqual([]);
    expect(await pushable(app().anonymous)).toEqual([]);
    await owner.put(at, { state_event: 'close' });
    expect(await pushable(maintainer)).toEqual([]);
    await owner.put(at, { state_event: 'reopen' });
    await contributor.post(`${own}/protected_branches`, { name: 'mine', push_access_level: 0 });
    expect(await pushable(maintainer)).toEqual([]);
    expect(await pushable(contributor)).toEqual(['main', 'other']);
    const { data } = await contributor.graphql(
      `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") {
        userPermissions { pushToSourceBranch } } } }`,
      { path: project.path_with_namespace },
    );
    expect(data.project.mergeRequest.userPermissions).toEqual({ pushToSourceBranch: false });
  });

  it('takes none where the author does not allow it, and none to protected branches', async () => {
    const { contributor, fork, own, people, at } = await makeFork({ allow_collaboration: false });
    expect(await push(fork, people.maintainer, 'first')).toContain('403');
    await contributor.put(at, { allow_collaboration: true });
    expect(await push(fork, people.maintainer, 'second')).toBe('');
    await contributor.post(`${own}/protected_branches`, { name: 'mine' });
    expect(await push(fork, people.maintainer, 'third')).toContain('protected');
  });

  it('can be rebased by them, and shows this to frontends', async () => {
    const { maintainer, reporter, at, project, own, contributor } = await makeFork();
    const query = `query ($path: ID!) { project(fullPath: $path) {
      mergeRequest(iid: "1") { userPermissions { pushToSourceBranch } } } }`;
    const may = async (client: typeof maintainer) =>
      (await client.graphql(query, { path: project.path_with_namespace })).data.project.mergeRequest.userPermissions;
    expect(await may(maintainer)).toEqual({ pushToSourceBranch: true });
    expect(await may(reporter)).toEqual({ pushToSourceBranch: false });
    expect((await maintainer.get(at)).body).toMatchObject({
      allow_collaboration: true,
      allow_maintainer_to_push: true,
    });
    expect((await reporter.put(`${at}/rebase`)).status).toBe(403);
    expect((await maintainer.put(`${at}/rebase`)).status).toBe(202);
    await app().settle();
    expect((await maintainer.get(at)).body).toMatchObject({ merge_error: null, diff_refs: expect.any(Object) });
    const { body } = await contributor.get(`${own}/repository/commits?ref_name=mine`);
    expect(body.map(({ title }: { title: string }) => title).slice(0, 2)).toEqual([
      'Change mine.txt',
      'Change theirs.txt',
    ]);
  });

  it('takes none while one of the projects is private, and shows when the permission has no effect', async () => {
    const { contributor, maintainer, owner, people, fork, own, path, project, at } = await makeFork();
    const query = `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") { allowCollaboration } } }`;
    const shown = async () => {
      const { body } = await owner.get(at);
      const [listed] = (await owner.get(`${path}/merge_requests`)).body;
      const { data } = await owner.graphql(query, { path: project.path_with_namespace });
      const all = [
        body.allow_collaboration,
        body.allow_maintainer_to_push,
        listed.allow_collaboration,
        data.project.mergeRequest.allowCollaboration,
      ];
      expect(new Set(all).size).toBe(1);
      return all[0];
    };
    const commits = async () => {
      const answer = await maintainer.post(`${own}/repository/commits`, {
        branch: 'mine',
        commit_message: 'Help',
        actions: [{ action: 'create', file_path: `${crypto.randomUUID()}.md`, content: 'text\n' }],
      });
      return answer.status;
    };
    // They can read the fork, even when it is private.
    await contributor.post(`${own}/members`, { user_id: people.maintainer.id, access_level: 20 });
    expect([await commits(), await shown()]).toEqual([201, true]);
    await contributor.put(own, { visibility: 'private' });
    expect([await commits(), await shown()]).toEqual([403, false]);
    expect((await maintainer.get(`${own}/repository/branches/mine`)).body.can_push).toBe(false);
    await contributor.put(own, { visibility: 'public' });
    expect([await commits(), await shown()]).toEqual([201, true]);
    await contributor.post(`${own}/protected_branches`, { name: 'mine' });
    expect([await commits(), await shown()]).toEqual([403, false]);
    await contributor.delete(`${own}/protected_branches/mine`);
    // Forks become private with the project that they come from; this one becomes public again.
    await owner.put(path, { visibility: 'private' });
    await sql`update projects set visibility_level = 20 where id = ${fork.id}`.execute(app().hub.services.db);
    expect([await commits(), await shown()]).toEqual([403, false]);
    await sql`update projects set visibility_level = 20 where id = ${project.id}`.execute(app().hub.services.db);
    expect(await shown()).toBe(true);
    await sql`update merge_requests set source_project_id = null where project_id = ${project.id}`.execute(
      app().hub.services.db,
    );
    expect(await shown()).toBe(false);
  });
});
