import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { insertMergeRequest } from '../merge-requests/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { computedMs } from '../support/computed-ms.ts';
import { commitFile, eventsOf, remoteOf, runGit, tryGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

/** Creates a project with `main` and the given branches, all at the first commit. */
const setUp = async (branches: readonly string[] = [], attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private', ...attributes }, owner);
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, owner);
  const push = (...refspecs: readonly string[]) => pushTree(app(), project, owner, tree, ...refspecs);
  await push('main', ...branches.map((name) => `main:${name}`));
  return { owner, project, tree, remote, push, path: `/projects/${project.id}/repository/branches` };
};
/** Adds a commit to the default branch, so that earlier branches are behind it. */
const moveOn = async ({ tree, push }: Pick<Awaited<ReturnType<typeof setUp>>, 'tree' | 'push'>): Promise<void> => {
  await commitFile(tree, 'moved', 'on', 'Move on');
  await push('main');
};
const memberOf = async (project: { id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};
// biome-ignore lint/suspicious/noExplicitAny: records of every kind
const namesOf = (answer: { body: any }) => answer.body.map(({ name }: { name: string }) => name);

describe('GET branches', () => {
  it('lists them by name, with all their fields', async () => {
    const { owner, project, tree, path, push } = await setUp(['done', 'zeta']);
    await moveOn({ tree, push });
    await push('main:fresh');
    const head = await commitFile(tree, 'b', 'b', 'Second\n\nWith a body\n\nReviewed-by: Bob');
    await push('main:ahead');
    const { status, body, headers } = await app().as(owner).get(path);
    expect(status).toBe(200);
    expect(headers.get('x-total')).toBe('5');
    expect(body.map(({ name, merged }: { name: string; merged: boolean }) => [name, merged])).toEqual([
      ['ahead', false],
      ['done', true],
      // This branch has the commit of the default branch, so nothing was merged from it.
      ['fresh', false],
      ['main', false],
      ['zeta', true],
    ]);
    const { commit, ...rest } = body[0];
    expect(rest).toEqual({
      name: 'ahead',
      merged: false,
      protected: false,
      default: false,
      developers_can_push: false,
      developers_can_merge: false,
      can_push: true,
      web_url: `${app().url}/${project.path_with_namespace}/-/tree/ahead`,
    });
    expect(commit).toMatchObject({
      id: head,
      short_id: head.slice(0, 8),
      title: 'Second',
      author_name: 'Ada',
      trailers: { 'Reviewed-by': 'Bob' },
      web_url: `${app().url}/${project.path_with_namespace}/-/commit/${head}`,
    });
    expect(body[3]).toMatchObject({ name: 'main', default: true, protected: true, can_push: true });
    const { body: forDeveloper } = await app()
      .as(await memberOf(project, 30))
      .get(`${path}/main`);
    expect(forDeveloper).toMatchObject({ can_push: false, developers_can_push: false });
  });

  it('searches by part, prefix, suffix and RE2 expression, and paginates', async () => {
    const { owner, path } = await setUp(['feature/one', 'feature/two', 'one-more']);
    const client = app().as(owner);
    expect(namesOf(await client.get(`${path}?search=ONE`))).toEqual(['feature/one', 'one-more']);
    expect(namesOf(await client.get(`${path}?search=${encodeURIComponent('^one')}`))).toEqual(['one-more']);
    expect(namesOf(await client.get(`${path}?search=${encodeURIComponent('one$')}`))).toEqual(['feature/one']);
    // An empty term is at the start and at the end of every name.
    for (const all of ['^', '$'])
      expect((await client.head(`${path}?search=${encodeURIComponent(all)}`)).headers.get('x-total'), all).toBe('4');
    expect(namesOf(await client.get(`${path}?regex=${encodeURIComponent('^feature/.*o$')}`))).toEqual(['feature/two']);
    expect((await client.get(`${path}?regex=${encodeURIComponent('(a')}`)).status).toBe(400);
    expect((await client.get(`${path}?regex=${encodeURIComponent('(a)\\1')}`)).status).toBe(400);
    expect(namesOf(await client.get(`${path}?per_page=2&page=2`))).toEqual(['main', 'one-more']);
    expect((await client.head(path)).headers.get('x-total')).toBe('4');
  });

  it('paginates by name in byte order, even if branches are deleted meanwhile', async () => {
    const { owner, path } = await setUp(['B', 'a', 'a-b', 'é', 'z/y']);
    const client = app().as(owner);
    const first = await client.get(`${path}?pagination=keyset&per_page=2`);
    expect(namesOf(first)).toEqual(['B', 'a']);
    expect(first.headers.get('x-total')).toBeNull();
    const next = (answer: typeof first) => /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? '';
    expect((await client.delete(`${path}/a`)).status).toBe(204);
    const second = await client.get(next(first).replace(/^.*\/api\/v4/, ''));
    expect(namesOf(second)).toEqual(['a-b', 'main']);
    const third = await client.get(next(second).replace(/^.*\/api\/v4/, ''));
    expect(namesOf(third)).toEqual(['z/y', 'é']);
    expect(third.headers.get('link')).toBeNull();
    expect((await client.get(`${path}?pagination=keyset&sort=updated_desc`)).status).toBe(405);
  });

  it('sorts by the last commit', async () => {
    const { owner, tree, path, push } = await setUp(['b', 'a']);
    await commitFile(tree, 'x', 'x', 'Later', '2030-01-01T00:00:00Z');
    await push('main:late');
    const client = app().as(owner);
    expect(namesOf(await client.get(`${path}?sort=updated_desc`))).toEqual(['late', 'a', 'b', 'main']);
    expect(namesOf(await client.get(`${path}?sort=updated_asc&per_page=2&page=2`))).toEqual(['main', 'late']);
    expect((await client.get(`${path}?sort=name_desc`)).body).toEqual({
      error: expect.stringContaining('sort does not have a valid value'),
    });
  });

  it('combines a search with an expression, and explains an invalid expression', async () => {
    const { owner, path } = await setUp(['feature/one', 'feature/two', 'one']);
    const client = app().as(owner);
    expect(namesOf(await client.get(`${path}?search=feature&regex=one`))).toEqual(['feature/one']);
    for (const regex of ['(a', '(a)\\1', '(?=a)', 'a{1001}', '[z-a]', '*']) {
      expect((await client.get(`${path}?regex=${encodeURIComponent(regex)}`)).body, regex).toEqual({
        error: 'regex is invalid (allowed: an RE2 expression)',
      });
    }
    expect((await client.get(`${path}?regex=${encodeURIComponent('(x{500}){2}'.repeat(2))}`)).body).toEqual({
      error: 'regex is too complex',
    });
    for (const bad of ['regex[]=a', 'search[]=a', 'search=%00', `regex=${'a'.repeat(1_001)}`]) {
      expect((await client.get(`${path}?${bad}`)).status, bad).toBe(400);
    }
  });

  it('shows for each branch on a long page whether it is merged', async () => {
    const { owner, tree, path, push } = await setUp(Array.from({ length: 30 }, (_, n) => `b${n}`));
    await moveOn({ tree, push });
    await runGit(tree, 'checkout', '-q', '-b', 'work');
    for (let n = 0; n < 5; n++) {
      await commitFile(tree, `w${n}`, 'w', `Work ${n}`);
      await push(`work:work-${n}`);
    }
    const { body } = await app().as(owner).get(`${path}?per_page=100`);
    const merged = body.filter(({ merged }: { merged: boolean }) => merged);
    expect([body.length, merged.length]).toEqual([36, 30]);
  });

  it('takes less than a second of CPU time for hostile expressions on 10,000 branches, and answers others meanwhile', async () => {
    const { owner, project, tree, path } = await setUp();
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    const { disk_path } = await app()
      .hub.services.db.selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const { dataDir } = app().hub.services.config;
    const lines = Array.from({ length: 10_000 }, (_, n) => `${head} refs/heads/b${n}-${'a'.repeat(40)}`).sort();
    await writeFile(
      join(dataDir, 'repositories', disk_path, 'packed-refs'),
      `# pack-refs with:\n${lines.join('\n')}\n`,
    );
    for (const [regex, found] of [
      ['(a+)+$', '10000'],
      ['(a|aa)*b$', '0'],
      ['(.*)(.*)(.*)(.*)x', '0'],
      // Either all branches are tested in time, or the expression is refused.
      ['(?:a?){40}a{40}\\b.{20}$', null],
      ['(((.{0,9}){0,9}){0,3}c){2}', null],
    ] as const) {
      const startedAt = computedMs();
      const slow = app()
        .as(owner)
        .get(`${path}?regex=${encodeURIComponent(regex)}`);
      const cheap = await app().anonymous.get('/-/liveness');
      expect(cheap.status).toBe(200);
      expect(computedMs() - startedAt, regex).toBeLessThan(1_000);
      const { status, headers } = await slow;
      expect(computedMs() - startedAt, regex).toBeLessThan(2_000);
      if (found === null) expect([200, 400], regex).toContain(status);
      else expect(headers.get('x-total'), regex).toBe(found);
    }
  });

  it('answers HEAD with 204, or 404 for an unknown branch', async () => {
    const { owner, path } = await setUp(['a/b']);
    const client = app().as(owner);
    for (const name of ['main', 'a%2Fb']) {
      const { status, headers, body } = await client.head(`${path}/${name}`);
      expect([name, status, headers.get('content-type'), body || null]).toEqual([name, 204, null, null]);
    }
    expect((await client.head(`${path}/absent`)).status).toBe(404);
    expect((await app().anonymous.head(`${path}/main`)).status).toBe(404);
    expect((await client.get(`${path}/main`)).status).toBe(200);
  });

  it('shows a public repository to everyone, and a private one to Reporters and above', async () => {
    const open = await setUp([], { visibility: 'public' });
    expect((await app().anonymous.get(open.path)).status).toBe(200);
    expect((await app().anonymous.get(`${open.path}/main`)).status).toBe(200);
    const closed = await setUp();
    const statusFor = async (user: TestUser) => (await app().as(user).get(closed.path)).status;
    expect((await app().anonymous.get(closed.path)).status).toBe(404);
    expect(await statusFor(await app().make.user())).toBe(404);
    expect(await statusFor(await memberOf(closed.project, 10))).toBe(403);
    expect(await statusFor(await memberOf(closed.project, 20))).toBe(200);
    const { status, body } = await app().as(closed.owner).get(`${closed.path}/none`);
    expect([status, body]).toEqual([404, { message: '404 Branch Not Found' }]);
  });
});

describe('POST branches of an empty repository', () => {
  const empty = async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'private' }, owner);
    const path = `/projects/${project.id}/repository`;
    return { owner, project, path, list: async () => namesOf(await app().as(owner).get(`${path}/branches`)) };
  };

  it('creates the default branch with a readme if the new branch starts from it', async () => {
    const { owner, path, list } = await empty();
    const made = await app().as(owner).post(`${path}/branches`, { branch: 'feature/x', ref: 'main' });
    expect([made.status, made.body.name, made.body.commit.title]).toEqual([201, 'feature/x', 'Add README.md']);
    expect(await list()).toEqual(['feature/x', 'main']);
    const { body } = await app().as(owner).get(`${path}/files/README.md?ref=main`);
    expect([body.size, body.commit_id]).toEqual([0, made.body.commit.id]);
  });

  it('leaves it empty if the caller may not push to it, or the branch is invalid', async () => {
    const { owner, project, path, list } = await empty();
    const developer = await memberOf(project, 30);
    const post = async (user: TestUser, body: Record<string, string>) => {
      const { status } = await app().as(user).post(`${path}/branches`, body);
      return status;
    };
    expect(await post(developer, { branch: 'x', ref: 'main' })).toBe(403);
    expect(await post(await app().make.user(), { branch: 'x', ref: 'main' })).toBe(404);
    expect(await post(owner, { branch: 'x..y', ref: 'main' })).toBe(400);
    expect(await post(owner, { branch: 'x', ref: 'other' })).toBe(400);
    expect(await post(owner, { branch: 'main', ref: 'main' })).toBe(400);
    expect(await list()).toEqual([]);
    await app().as(owner).post(`/projects/${project.id}/protected_branches`, { name: 'kept/*', push_access_level: 0 });
    expect(await post(owner, { branch: 'kept/x', ref: 'main' })).toBe(403);
    await app().as(owner).post(`/projects/${project.id}/push_rule`, { branch_name_regex: '^feature/' });
    expect(await post(owner, { branch: 'x', ref: 'main' })).toBe(403);
    expect(await list()).toEqual([]);
  });
});

describe('POST and DELETE branches', () => {
  it('creates and deletes a branch, with the same events as a push', async () => {
    const { owner, project, tree, path } = await setUp();
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    const created = await app().as(owner).post(path, { branch: 'feature/x', ref: 'main' });
    expect(created.status).toBe(201);
    expect(created.body).toMatchObject({ name: 'feature/x', commit: { id: head } });
    expect(
      (
        await app()
          .as(owner)
          .post(`${path}?branch=by-sha&ref=${head.slice(0, 10)}`)
      ).status,
    ).toBe(201);
    const deleted = await app().as(owner).delete(`${path}/feature%2Fx`);
    expect([deleted.status, deleted.body]).toEqual([204, '']);
    const events = (await eventsOf(app(), project.id)).slice(2);
    expect(events.map(({ kind, payload }) => [kind, payload.ref, payload.before, payload.after])).toEqual([
      ['push.received', 'refs/heads/feature/x', null, head],
      ['repository.updated', undefined, undefined, undefined],
      ['push.received', 'refs/heads/by-sha', null, head],
      ['repository.updated', undefined, undefined, undefined],
      ['push.received', 'refs/heads/feature/x', head, null],
      ['repository.updated', undefined, undefined, undefined],
    ]);
    expect(events[0]?.actor_id).toBe(owner.id);
  });

  it('refuses invalid requests, and changes nothing', async () => {
    const { owner, project, path } = await setUp(['taken', 'kept']);
    const post = async (user: TestUser, branch: string, ref = 'main') => {
      const { status, body } = await app().as(user).post(path, { branch, ref });
      return [status, body.message ?? body.error];
    };
    expect(await post(owner, 'taken')).toEqual([400, 'Branch already exists']);
    expect(await post(owner, 'x', 'nowhere')).toEqual([400, 'Invalid reference name: nowhere']);
    for (const name of ['-x', 'a..b', 'a@{b', 'x.lock', 'a\tb', 'a'.repeat(300), 'a'.repeat(40), 'HEAD', 'refs/x']) {
      expect(await post(owner, name), name).toEqual([400, 'Branch name is invalid']);
    }
    expect(await post(owner, 'taken/below')).toEqual([400, 'The branch name clashes with that of another branch']);
    expect((await app().as(owner).post(path, { branch: 'x' })).body).toEqual({ error: 'ref is missing' });
    await app().as(owner).post(`/projects/${project.id}/protected_branches`, { name: 'k*' });
    const developer = await memberOf(project, 30);
    expect((await post(developer, 'keep'))[0]).toBe(403);
    expect((await post(await memberOf(project, 20), 'x'))[0]).toBe(403);
    expect((await post(await app().make.user(), 'x'))[0]).toBe(404);
    expect((await app().anonymous.post(path, { branch: 'x', ref: 'main' })).status).toBe(401);
    const remove = async (user: TestUser, branch: string) => {
      const { status, body } = await app().as(user).delete(`${path}/${branch}`);
      return [status, body.message];
    };
    expect(await remove(owner, 'main')).toEqual([400, 'The default branch of a project cannot be deleted.']);
    expect(await remove(owner, 'kept')).toEqual([400, 'Protected branch cannot be removed']);
    expect(await remove(owner, 'none')).toEqual([404, '404 Branch Not Found']);
    expect((await remove(await memberOf(project, 20), 'taken'))[0]).toBe(403);
    expect(namesOf(await app().as(owner).get(path))).toEqual(['kept', 'main', 'taken']);
    expect(await eventsOf(app(), project.id)).toHaveLength(4);
  });

  it('creates the branch for one of twenty concurrent requests', async () => {
    const { owner, project, path } = await setUp();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => app().as(owner).post(path, { branch: 'x', ref: 'main' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 400)]);
    expect(await eventsOf(app(), project.id)).toHaveLength(4);
  });

  it('deletes all merged branches, except protected ones', async () => {
    const { owner, project, tree, path, push } = await setUp(['merged/a', 'merged/b', 'kept']);
    await app().as(owner).post(`/projects/${project.id}/protected_branches`, { name: 'kept' });
    await moveOn({ tree, push });
    await commitFile(tree, 'b', 'b', 'Second');
    await push('main:ahead');
    const url = `/projects/${project.id}/repository/merged_branches`;
    expect(
      (
        await app()
          .as(await memberOf(project, 20))
          .delete(url)
      ).status,
    ).toBe(403);
    const { status, body } = await app().as(owner).delete(url);
    expect([status, body]).toEqual([202, { message: '202 Accepted' }]);
    await app().settle();
    expect(namesOf(await app().as(owner).get(path))).toEqual(['ahead', 'kept', 'main']);
    const deleted = (await eventsOf(app(), project.id)).filter(({ payload }) => payload.after === null);
    expect(deleted.map(({ payload, actor_id }) => [payload.ref, actor_id])).toEqual([
      ['refs/heads/merged/a', owner.id],
      ['refs/heads/merged/b', owner.id],
    ]);
  });
});

describe('DELETE merged_branches', () => {
  it('keeps branches without commits of their own, and those of open merge requests', async () => {
    const { owner, project, tree, path, push } = await setUp(['source', 'target', 'closed', 'elsewhere', 'old']);
    const fork = await app().make.project({}, owner);
    await moveOn({ tree, push });
    await app().as(owner).post(path, { branch: 'fresh', ref: 'main' });
    const { db } = app().hub.services;
    const here = { project_id: project.id, source_project_id: project.id };
    await insertMergeRequest(db, { ...here, source_branch: 'source', target_branch: 'target' });
    await insertMergeRequest(db, { ...here, source_branch: 'closed', target_branch: 'main', state: 'closed' });
    // A branch of another project with the same name must not count.
    await insertMergeRequest(db, { project_id: fork.id, source_project_id: fork.id, source_branch: 'old' });
    await insertMergeRequest(db, { project_id: fork.id, source_project_id: project.id, source_branch: 'elsewhere' });
    expect((await app().as(owner).delete(`/projects/${project.id}/repository/merged_branches`)).status).toBe(202);
    await app().settle();
    expect(namesOf(await app().as(owner).get(path))).toEqual(['elsewhere', 'fresh', 'main', 'source', 'target']);
  });

  it('keeps branches that are pushed to meanwhile or protected by a wildcard, and may be requested twice', async () => {
    const many = Array.from({ length: 52 }, (_, n) => `old/${String(n).padStart(2, '0')}`);
    const { owner, project, tree, remote, path, push } = await setUp([...many, 'keep/me/too']);
    const client = app().as(owner);
    await client.post(`/projects/${project.id}/protected_branches`, { name: 'keep/*' });
    await moveOn({ tree, push });
    const head = await commitFile(tree, 'b', 'b', 'Second');
    const url = `/projects/${project.id}/repository/merged_branches`;
    expect([(await client.delete(url)).status, (await client.delete(url)).status]).toEqual([202, 202]);
    const pushes = ['old/10', 'old/30', 'old/51'].map((name) => tryGit(tree, 'push', '-q', remote, `main:${name}`));
    const [, ...pushed] = await Promise.all([app().settle(), ...pushes]);
    const { body } = await client.get(`${path}?per_page=100`);
    const left = new Map(body.map(({ name, commit }: { name: string; commit: { id: string } }) => [name, commit.id]));
    for (const [at, name] of ['old/10', 'old/30', 'old/51'].entries()) {
      expect(left.get(name), pushed[at]?.stderr).toBe(pushed[at]?.code === 0 ? head : undefined);
      left.delete(name);
    }
    expect([...left.keys()]).toEqual(['keep/me/too', 'main']);
    const deleted = (await eventsOf(app(), project.id)).filter(({ payload }) => payload.after === null);
    const names = deleted.map(({ payload }) => payload.ref);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('a protected branch', () => {
  it('applies the most permissive rule by role, user and group, over git and the API', async () => {
    const { owner, project, tree, remote, path } = await setUp(['release/1']);
    const client = app().as(owner);
    const rules = `/projects/${project.id}/protected_branches`;
    const group = await app().make.group({ visibility: 'public' });
    const [inGroup, named, other] = [await app().make.user(), await memberOf(project, 30), await memberOf(project, 30)];
    await app().make.groupMember(group, inGroup, 30);
    const share = { group_id: group.id, group_access: 30 };
    expect((await client.post(`/projects/${project.id}/share`, share)).status).toBe(201);
    const protect = async (body: Record<string, unknown>) => expect((await client.post(rules, body)).status).toBe(201);
    await protect({ name: 'r*', push_access_level: 40, merge_access_level: 0 });
    await protect({ name: 'release/*', push_access_level: 30 });
    await protect({ name: 'g-*', allowed_to_push: [{ group_id: group.id }, { user_id: named.id }] });
    await protect({ name: 'shut', push_access_level: 0 });
    await protect({ name: 'top', push_access_level: 60 });
    const seen = async (user: TestUser) => {
      const { body } = await app()
        .as(user)
        .get(`${path}/${encodeURIComponent('release/1')}`);
      return [body.protected, body.can_push, body.developers_can_push, body.developers_can_merge];
    };
    expect(await seen(other)).toEqual([true, true, true, false]);
    const create = async (user: TestUser, branch: string) =>
      (await app().as(user).post(path, { branch, ref: 'main' })).status;
    expect(await create(other, 'release/2')).toBe(201);
    expect(await create(other, 'r2')).toBe(403);
    expect(await create(other, 'g-1')).toBe(403);
    expect(await create(inGroup, 'g-1')).toBe(201);
    expect(await create(named, 'g-2')).toBe(201);
    expect(await create(owner, 'g-3')).toBe(403);
    expect(await create(owner, 'shut')).toBe(403);
    expect(await create(app().root, 'shut')).toBe(403);
    expect(await create(owner, 'top')).toBe(403);
    expect(await create(app().root, 'top')).toBe(201);
    await commitFile(tree, 'c', 'c', 'Third');
    const push = async (user: TestUser, ref: string) =>
      (await tryGit(tree, 'push', '-q', await remoteOf(app(), project, user), `main:${ref}`)).code;
    expect([await push(other, 'release/1'), await push(inGroup, 'g-1')]).toEqual([0, 0]);
    const refused = await tryGit(tree, 'push', await remoteOf(app(), project, other), 'main:g-2');
    expect(refused.stderr).toContain('You are not allowed to push code to protected branches on this project.');
    // Without the share, members of the group lose access to the project.
    await client.delete(`/projects/${project.id}/share/${group.id}`);
    expect(await create(inGroup, 'g-4')).toBe(404);
    expect(namesOf(await client.get(`${path}?search=^g-`))).toEqual(['g-1', 'g-2']);
    expect(remote).toContain(project.path_with_namespace);
  });

  it('is created, listed, changed and deleted', async () => {
    const { owner, project } = await setUp();
    const client = app().as(owner);
    const path = `/projects/${project.id}/protected_branches`;
    const created = await client.post(path, { name: 'release/*', push_access_level: 30, allow_force_push: 'True' });
    expect(created.status).toBe(201);
    expect(created.body).toMatchObject({
      name: 'release/*',
      push_access_levels: [
        { access_level: 30, access_level_description: 'Developers + Maintainers', user_id: null, group_id: null },
      ],
      merge_access_levels: [{ access_level: 40, access_level_description: 'Maintainers' }],
      unprotect_access_levels: [{ access_level: 40 }],
      allow_force_push: true,
      code_owner_approval_required: false,
      inherited: false,
    });
    const again = await client.post(path, { name: 'release/*' });
    expect([again.status, again.body]).toEqual([409, { message: "Protected branch 'release/*' already exists" }]);
    expect(namesOf(await client.get(path))).toEqual(['main', 'release/*']);
    expect(namesOf(await client.get(`${path}?search=rel`))).toEqual(['release/*']);
    const one = `${path}/${encodeURIComponent('release/*')}`;
    expect((await client.get(one)).body).toEqual(created.body);

    const developer = await memberOf(project, 30);
    const [{ id }] = created.body.push_access_levels;
    const changed = await client.patch(one, {
      allow_force_push: false,
      allowed_to_push: [{ id, _destroy: true }, { user_id: developer.id }],
    });
    expect(changed.status).toBe(200);
    expect(changed.body).toMatchObject({
      allow_force_push: false,
      push_access_levels: [
        { access_level: null, user_id: developer.id, access_level_description: expect.stringContaining('Name of') },
      ],
      merge_access_levels: [{ access_level: 40 }],
    });
    expect((await client.delete(one)).status).toBe(204);
    expect((await client.get(one)).status).toBe(404);
    const { rows } = await app().hub.services.pool.query(
      "select kind from events where project_id = $1 and kind like 'protected_branch.%' order by id",
      [project.id],
    );
    expect(rows.map(({ kind }) => kind)).toEqual([
      'protected_branch.created',
      'protected_branch.updated',
      'protected_branch.deleted',
    ]);
  });

  it('is changed by Maintainers, and cannot name users outside the project', async () => {
    const { owner, project } = await setUp();
    const path = `/projects/${project.id}/protected_branches`;
    const developer = await memberOf(project, 30);
    expect((await app().as(developer).get(path)).status).toBe(200);
    expect((await app().as(developer).post(path, { name: 'x' })).status).toBe(403);
    expect((await app().as(developer).delete(`${path}/main`)).status).toBe(403);
    expect(
      (
        await app()
          .as(await memberOf(project, 20))
          .get(path)
      ).status,
    ).toBe(403);
    expect(
      (
        await app()
          .as(await app().make.user())
          .get(path)
      ).status,
    ).toBe(404);
    expect((await app().anonymous.get(path)).status).toBe(401);
    const stranger = await app().make.user();
    const group = await app().make.group({});
    const post = (body: Record<string, unknown>) =>
      app()
        .as(owner)
        .post(path, { name: 'x', ...body });
    expect((await post({ allowed_to_push: [{ user_id: stranger.id }] })).status).toBe(422);
    expect((await post({ allowed_to_push: [{ user_id: 999_999 }] })).status).toBe(422);
    expect((await post({ allowed_to_push: [{ group_id: group.id }] })).status).toBe(422);
    expect((await post({ push_access_level: 7 })).status).toBe(400);
    expect((await post({ allowed_to_push: [{}] })).status).toBe(400);
    expect((await post({ name: '' })).status).toBe(400);
    expect(namesOf(await app().as(owner).get(path))).toEqual(['main']);
  });

  it('lists each role, user and group once for an action', async () => {
    const { owner, project } = await setUp();
    const client = app().as(owner);
    const developer = await memberOf(project, 30);
    const path = `/projects/${project.id}/protected_branches`;
    const taken = (what: string) => [422, `${what} has already been taken`];
    const refused = async (body: Record<string, unknown>) => {
      const answer = await client.post(path, { name: 'x', ...body });
      return [answer.status, answer.body.message];
    };
    const role = { access_level: 40 };
    const user = { user_id: developer.id };
    expect(await refused({ allowed_to_push: [role, role] })).toEqual(taken('Push access levels access level'));
    expect(await refused({ merge_access_level: 40, allowed_to_merge: [role] })).toEqual(
      taken('Merge access levels access level'),
    );
    expect(await refused({ allowed_to_unprotect: [user, user] })).toEqual(taken('Unprotect access levels user'));
    expect((await client.get(`${path}/x`)).status).toBe(404);

    const made = await client.post(path, { name: 'x', push_access_level: 40, allowed_to_push: [user] });
    expect(made.status).toBe(201);
    for (const again of [role, user]) {
      expect((await client.patch(`${path}/x`, { allowed_to_push: [again] })).status).toBe(422);
    }
    expect((await client.get(`${path}/x`)).body).toEqual(made.body);
    // An entry can replace one that is deleted. A plain role equals the same role given before.
    const [{ id }] = made.body.push_access_levels;
    const replaced = await client.patch(`${path}/x`, { allowed_to_push: [{ id, _destroy: true }, role] });
    expect([replaced.status, replaced.body.push_access_levels]).toMatchObject([200, [user, role]]);
    expect((await client.patch(`${path}/x`, { push_access_level: 40 })).body.push_access_levels).toHaveLength(2);
    const tags = `/projects/${project.id}/protected_tags`;
    const tag = await client.post(tags, { name: 'v*', create_access_level: 40, allowed_to_create: [role] });
    expect([tag.status, tag.body.message]).toEqual(taken('Create access levels access level'));
  });

  it('is changed and unprotected only by users whom it names', async () => {
    const { owner, project } = await setUp();
    const path = `/projects/${project.id}/protected_branches`;
    await app().as(owner).post(path, { name: 'x', unprotect_access_level: 60 });
    expect((await app().as(owner).delete(`${path}/x`)).status).toBe(403);
    const before = (await app().as(owner).get(`${path}/x`)).body;
    for (const change of [
      { unprotect_access_level: 40 },
      { push_access_level: 30 },
      { allow_force_push: true },
      { allowed_to_unprotect: [{ id: before.unprotect_access_levels[0].id, _destroy: true }] },
    ])
      expect((await app().as(owner).patch(`${path}/x`, change)).status).toBe(403);
    expect((await app().as(owner).get(`${path}/x`)).body).toEqual(before);
    expect((await app().as(app().root).patch(`${path}/x`, { push_access_level: 30 })).status).toBe(200);
    expect((await app().as(app().root).delete(`${path}/x`)).status).toBe(204);
  });
});

describe('the lists of commits and tags', () => {
  it('is readable by branch, tag and id', async () => {
    const { owner, project, tree, push } = await setUp();
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    const second = await commitFile(tree, 'b', 'b', 'Second');
    await runGit(tree, 'tag', '-a', '-m', 'One', 'v1');
    await push('main', 'v1');
    const client = app().as(owner);
    const path = `/projects/${project.id}/repository`;
    const commits = await client.get(`${path}/commits`);
    expect(commits.body.map(({ id }: { id: string }) => id)).toEqual([second, first]);
    expect(commits.headers.get('x-total')).toBeNull();
    const paged = await client.get(`${path}/commits?per_page=1`);
    expect(paged.headers.get('link')).toContain('rel="next"');
    const ids = async (query: string) =>
      (await client.get(`${path}/commits?${query}`)).body.map(({ id }: { id: string }) => id);
    expect(await ids('path=b')).toEqual([second]);
    expect(await ids(`ref_name=${first}`)).toEqual([first]);
    expect(await ids('author=nobody')).toEqual([]);
    expect(await ids('until=2001-01-01')).toEqual([]);
    expect((await client.get(`${path}/commits?ref_name=none`)).status).toBe(404);
    expect((await client.get(`${path}/commits/main`)).body.id).toBe(second);
    expect((await client.get(`${path}/commits/v1`)).body.id).toBe(second);
    expect((await client.get(`${path}/commits/${'1'.repeat(40)}`)).body).toEqual({ message: '404 Commit Not Found' });
    const tag = await client.get(`${path}/tags/v1`);
    expect(tag.body).toMatchObject({
      name: 'v1',
      message: 'One',
      target: await runGit(tree, 'rev-parse', 'v1'),
      commit: { id: second },
      release: null,
      protected: false,
    });
    expect(namesOf(await client.get(`${path}/tags?search=v`))).toEqual(['v1']);
    expect((await client.get(`${path}/tags/none`)).status).toBe(404);
    for (const part of ['commits', 'tags', `commits/${first}`]) {
      expect((await app().anonymous.get(`${path}/${part}`)).status).toBe(404);
    }
  });

  it('is empty for an empty repository', async () => {
    const project = await app().make.project({});
    const client = app().as(app().root);
    for (const part of ['commits', 'tags', 'branches']) {
      expect((await client.get(`/projects/${project.id}/repository/${part}`)).body).toEqual([]);
    }
  });
});

describe('GraphQL', () => {
  it('names the authors of commits by their confirmed addresses', async () => {
    const { owner, project } = await setUp();
    const file = { branch: 'main', commit_message: 'Mine', content: 'x' };
    const client = app().as(owner);
    await client.post(`/projects/${project.id}/repository/files/mine`, file);
    await client.post(`/projects/${project.id}/repository/files/theirs`, { ...file, author_email: 'no@example.com' });
    const { data } = await client.graphql(
      `query ($path: ID!) { project(fullPath: $path) { repository { commits(first: 2) { nodes { author { username } } } } } }`,
      { path: project.path_with_namespace },
    );
    expect(data.project.repository.commits.nodes).toEqual([{ author: null }, { author: { username: owner.username } }]);
  });

  it('reads the repository', async () => {
    const { owner, project, tree } = await setUp(['a', 'b', 'c']);
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    const answer = await app()
      .as(owner)
      .graphql(
        `query ($path: ID!) { project(fullPath: $path) { repository {
          exists empty rootRef
          branchNames(searchPattern: "*", offset: 1, limit: 2)
          branches(first: 2) { count pageInfo { hasNextPage endCursor } nodes { name merged default webUrl commit { sha title } } }
          branch(name: "main") { protected canPush }
          commit { shortId message }
          commits(first: 1) { count nodes { sha } }
          none: branch(name: "none") { name }
        } protectedBranches { nodes { name pushAccessLevels { accessLevel } } } } }`,
        { path: project.path_with_namespace },
      );
    expect(answer.errors).toBeUndefined();
    expect(answer.data.project).toMatchObject({
      repository: {
        exists: true,
        empty: false,
        rootRef: 'main',
        branchNames: ['b', 'c'],
        branches: {
          count: 4,
          pageInfo: { hasNextPage: true },
          nodes: [
            { name: 'a', merged: false, default: false, commit: { sha: head, title: 'First commit' } },
            { name: 'b', merged: false, default: false },
          ],
        },
        branch: { protected: true, canPush: true },
        commits: { count: 1, nodes: [{ sha: head }] },
        none: null,
      },
      protectedBranches: { nodes: [{ name: 'main', pushAccessLevels: [{ accessLevel: 40 }] }] },
    });
    const next = await app()
      .as(owner)
      .graphql(
        `query ($path: ID!, $after: String) { project(fullPath: $path) { repository { branches(after: $after) { nodes { name } } } } }`,
        { path: project.path_with_namespace, after: answer.data.project.repository.branches.pageInfo.endCursor },
      );
    expect(next.data.project.repository.branches.nodes).toEqual([{ name: 'c' }, { name: 'main' }]);
    const guest = await memberOf(project, 10);
    const hidden = await app()
      .as(guest)
      .graphql(
        `query ($path: ID!) { project(fullPath: $path) { repository { rootRef } protectedBranches { count } } }`,
        {
          path: project.path_with_namespace,
        },
      );
    expect(hidden.data.project).toEqual({ repository: null, protectedBranches: null });
  });

  it('changes branches and protections under the same rules as REST', async () => {
    const { owner, project, tree, path, push } = await setUp(['old']);
    const run = (user: TestUser, text: string) =>
      app()
        .as(user)
        .graphql(text.replace('PATH', JSON.stringify(project.path_with_namespace)));
    const created = await run(
      owner,
      'mutation { createBranch(input: { projectPath: PATH, name: "new", ref: "main" }) { branch { name commit { title } } errors } }',
    );
    expect(created.data.createBranch).toEqual({
      branch: { name: 'new', commit: { title: 'First commit' } },
      errors: [],
    });
    const refused = await run(
      owner,
      'mutation { branchDelete(input: { projectPath: PATH, name: "main" }) { branch { name } errors } }',
    );
    expect(refused.data.branchDelete.errors).toEqual(['The default branch of a project cannot be deleted.']);
    const guarded = await run(
      owner,
      'mutation { protectedBranchCreate(input: { projectPath: PATH, name: "n*", allowedToPush: [{ accessLevel: 30 }] }) { protectedBranch { name pushAccessLevels { accessLevelDescription } } errors } }',
    );
    expect(guarded.data.protectedBranchCreate).toEqual({
      protectedBranch: { name: 'n*', pushAccessLevels: [{ accessLevelDescription: 'Developers + Maintainers' }] },
      errors: [],
    });
    const changed = await run(
      owner,
      'mutation { protectedBranchUpdate(input: { projectPath: PATH, name: "n*", allowForcePush: true }) { protectedBranch { allowForcePush } errors } }',
    );
    expect(changed.data.protectedBranchUpdate.protectedBranch).toEqual({ allowForcePush: true });
    await run(owner, 'mutation { protectedBranchDestroy(input: { projectPath: PATH, name: "n*" }) { errors } }');
    await moveOn({ tree, push });
    await run(owner, 'mutation { mergedBranchesDelete(input: { projectPath: PATH }) { errors } }');
    await app().settle();
    expect(namesOf(await app().as(owner).get(path))).toEqual(['main']);
    const forbidden = await run(
      await memberOf(project, 20),
      'mutation { createBranch(input: { projectPath: PATH, name: "x", ref: "main" }) { errors } }',
    );
    expect(forbidden.errors).toHaveLength(1);
  });
});
