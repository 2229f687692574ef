import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { commitFile, eventsOf, remoteOf, remoteUrl, runGit, tryGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private', ...attributes }, owner);
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, owner);
  return { owner, project, tree, remote };
};
/** Pushes `main` too. */
const setUpWithMain = async (attributes: Record<string, unknown> = {}) => {
  const made = await setUp(attributes);
  await pushTree(app(), made.project, made.owner, made.tree, 'main');
  return made;
};
const memberOf = async (project: { id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};
const refsOf = async (remote: string) => {
  const text = await runGit(folder(), 'ls-remote', remote);
  return text === '' ? [] : text.split('\n').map((line) => line.split('\t')[1]);
};
const eventKinds = async (projectId: number) => (await eventsOf(app(), projectId)).map(({ kind }) => kind);

describe('a note of a commit', () => {
  it('is pushed, fetched and deleted as release tools do, and is not listed as a branch', async () => {
    const { owner, project, tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main');
    const ref = 'refs/notes/released-v1.0.0';
    await runGit(tree, 'notes', `--ref=${ref}`, 'add', '-m', '{"channels":[null]}', 'main');
    const note = await runGit(tree, 'rev-parse', ref);
    expect(await tryGit(tree, 'push', remote, ref)).toMatchObject({ code: 0 });

    const reporter = await memberOf(project, 20);
    const clone = join(folder(), 'clone');
    await runGit(folder(), 'clone', '-q', await remoteOf(app(), project, reporter), clone);
    await runGit(clone, 'fetch', '-q', 'origin', '+refs/notes/*:refs/notes/*');
    expect(await runGit(clone, 'notes', `--ref=${ref}`, 'show', 'origin/main')).toBe('{"channels":[null]}');
    const refused = await tryGit(clone, 'push', 'origin', `${ref}:refs/notes/other`);
    expect(refused.code).not.toBe(0);
    expect(await refsOf(remote)).toEqual(['HEAD', 'refs/heads/main', ref]);

    const emitted = (await eventsOf(app(), project.id)).slice(2);
    expect(emitted.map(({ kind, payload }) => [kind, payload.changes])).toEqual([
      ['repository.updated', [{ ref, before: null, after: note }]],
    ]);
    const { body } = await app().as(owner).get(`/projects/${project.id}/repository/branches`);
    expect(body.map(({ name }: { name: string }) => name)).toEqual(['main']);
    expect(await tryGit(tree, 'push', remote, `:${ref}`)).toMatchObject({ code: 0 });
    expect(await refsOf(remote)).toEqual(['HEAD', 'refs/heads/main']);
  });
});

describe('a push', () => {
  it('transfers a history, which a clone returns, with events', async () => {
    const { owner, project, tree, remote } = await setUp();
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    expect(await tryGit(tree, 'push', remote, 'main')).toMatchObject({ code: 0 });

    const [push, update] = await eventsOf(app(), project.id);
    expect(push).toMatchObject({
      kind: 'push.received',
      actor_id: owner.id,
      min_access_level: 20,
      payload: {
        ref: 'refs/heads/main',
        before: null,
        after: first,
        checkout_sha: first,
        ref_protected: true,
        total_commits_count: 1,
        commits: [{ id: first, title: 'First commit', added: ['README.md'], modified: [], removed: [] }],
      },
    });
    expect(update).toMatchObject({
      kind: 'repository.updated',
      payload: { changes: [{ ref: 'refs/heads/main', before: null, after: first }] },
    });
    const { body } = await app().as(owner).get(`/projects/${project.id}`);
    expect(body).toMatchObject({ empty_repo: false, default_branch: 'main' });
    expect(body.readme_url).toMatch(/README\.md$/);
    await app().settle();
    const { body: counted } = await app().as(owner).get(`/projects/${project.id}?statistics=true`);
    expect(counted.statistics).toMatchObject({ commit_count: 1 });
    expect(counted.statistics.repository_size).toBeGreaterThan(0);

    const second = await commitFile(tree, 'README.md', '# Hello again\n', 'Second');
    expect(await tryGit(tree, 'push', remote, 'main')).toMatchObject({ code: 0 });
    const events = await eventsOf(app(), project.id);
    expect(events[2]?.payload).toMatchObject({
      before: first,
      after: second,
      total_commits_count: 1,
      commits: [{ modified: ['README.md'] }],
    });
    await runGit(folder(), 'clone', '-q', remote, `clone-${project.id}`);
    expect(await readFile(join(folder(), `clone-${project.id}`, 'README.md'), 'utf8')).toBe('# Hello again\n');
    await commitFile(tree, 'more', 'more', 'Third');
    await runGit(tree, 'push', '-q', remote, 'main');
    await runGit(join(folder(), `clone-${project.id}`), 'pull', '-q');
    expect(await readFile(join(folder(), `clone-${project.id}`, 'more'), 'utf8')).toBe('more');
    const open = await app().hub.services.db.selectFrom('pushes').selectAll().execute();
    expect(open).toEqual([]);
  });

  it('includes the newest 20 of many commits in its event, and counts them all', async () => {
    const { project, tree, remote } = await setUp();
    for (let n = 0; n < 24; n++) await runGit(tree, 'commit', '-q', '--allow-empty', '-m', `Commit ${n}`);
    await runGit(tree, 'push', '-q', remote, 'main');
    const [push] = await eventsOf(app(), project.id);
    expect(push?.payload.total_commits_count).toBe(25);
    expect(push?.payload.commits).toHaveLength(20);
    expect(push?.payload.commits[0].title).toBe('Commit 4');
    expect(push?.payload.commits[19]).toMatchObject({ id: push?.payload.after, title: 'Commit 23' });
  });

  it('emits events for tags, for new branches without new commits, and for deletions', async () => {
    const { project, tree, remote } = await setUp();
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'push', '-q', remote, 'main');
    await runGit(tree, 'tag', '-a', '-m', 'The first one', 'v1');
    await runGit(tree, 'tag', 'light');
    await runGit(tree, 'push', '-q', remote, 'main:feature/x', 'v1', 'light');
    const tagObject = await runGit(tree, 'rev-parse', 'v1');
    const events = (await eventsOf(app(), project.id)).slice(2);
    expect(events.map(({ kind, payload }) => [kind, payload.ref])).toEqual([
      ['push.received', 'refs/heads/feature/x'],
      ['tag.pushed', 'refs/tags/v1'],
      ['tag.pushed', 'refs/tags/light'],
      ['repository.updated', undefined],
    ]);
    expect(events[0]?.payload).toMatchObject({
      before: null,
      commits: [],
      total_commits_count: 0,
      ref_protected: false,
    });
    expect(events[1]?.payload).toMatchObject({ after: tagObject, checkout_sha: head, message: 'The first one' });
    expect(events[2]?.payload).toMatchObject({ after: head, message: null });
    expect(events[3]?.payload.changes).toHaveLength(3);

    await runGit(tree, 'push', '-q', remote, ':feature/x', ':v1');
    const after = (await eventsOf(app(), project.id)).slice(6);
    expect(after.map(({ payload }) => [payload.ref, payload.before, payload.after])).toEqual([
      ['refs/heads/feature/x', head, null],
      ['refs/tags/v1', tagObject, null],
      [undefined, undefined, undefined],
    ]);
    expect(await refsOf(remote)).toEqual(['HEAD', 'refs/heads/main', 'refs/tags/light']);
  });

  it('makes the first pushed branch the default, and protects it', async () => {
    const { owner, project, tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main:trunk');
    const { body } = await app().as(owner).get(`/projects/${project.id}`);
    expect(body).toMatchObject({ default_branch: 'trunk', empty_repo: false });
    const { body: branches } = await app().as(owner).get(`/projects/${project.id}/protected_branches`);
    expect(branches.map(({ name }: { name: string }) => name)).toEqual(['trunk']);
    await runGit(folder(), 'clone', '-q', remote, `trunk-${project.id}`);
    expect(await runGit(join(folder(), `trunk-${project.id}`), 'branch', '--show-current')).toBe('trunk');
  });
});

describe('access by git', () => {
  it('depends on the role in a private project', async () => {
    const { project, tree, remote } = await setUpWithMain();
    const stranger = await app().make.user();
    const outcomes: Record<string, [boolean, boolean]> = {};
    const people: [string, TestUser][] = [
      ['stranger', stranger],
      ['guest', await memberOf(project, 10)],
      ['planner', await memberOf(project, 15)],
      ['reporter', await memberOf(project, 20)],
      ['developer', await memberOf(project, 30)],
      ['maintainer', await memberOf(project, 40)],
      ['root', app().root],
    ];
    for (const [name, user] of people) {
      const theirs = await remoteOf(app(), project, user);
      const read = await tryGit(folder(), 'ls-remote', theirs);
      const write = await tryGit(tree, 'push', theirs, `main:by-${name}`);
      outcomes[name] = [read.code === 0, write.code === 0];
    }
    expect(outcomes).toEqual({
      stranger: [false, false],
      guest: [false, false],
      planner: [false, false],
      reporter: [true, false],
      developer: [true, true],
      maintainer: [true, true],
      root: [true, true],
    });
    expect(await refsOf(remote)).toEqual([
      'HEAD',
      'refs/heads/by-developer',
      'refs/heads/by-maintainer',
      'refs/heads/by-root',
      'refs/heads/main',
    ]);
    const theirs = await remoteOf(app(), project, stranger);
    expect((await tryGit(folder(), 'ls-remote', theirs)).stderr).toContain('not found');
  });

  it('allows anyone to read a public project, and only members to push', async () => {
    const { project, tree } = await setUpWithMain({ visibility: 'public' });
    const open = remoteUrl(app().url, project);
    expect((await tryGit(folder(), 'ls-remote', open)).code).toBe(0);
    expect((await tryGit(tree, 'push', open, 'main:x')).stderr).toMatch(
      /could not read Username|Authentication failed/,
    );
    const stranger = await app().make.user();
    const pushed = await tryGit(tree, 'push', await remoteOf(app(), project, stranger), 'main:x');
    expect(pushed.stderr).toContain('you are not allowed to push code to this project');
    // A credential that is sent must be valid.
    const wrong = await fetch(`${open}/info/refs?service=git-upload-pack`, {
      headers: { authorization: `Basic ${Buffer.from('oauth2:wrong').toString('base64')}` },
    });
    expect(wrong.status).toBe(401);
  });

  it('does not let anonymous callers tell private projects from missing ones', async () => {
    const { project } = await setUp();
    const answers = await Promise.all(
      [project.path_with_namespace, 'no/such'].map((path) =>
        fetch(`${app().url}/${path}.git/info/refs?service=git-upload-pack`),
      ),
    );
    for (const answer of answers) {
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toMatch(/^Basic realm=/);
    }
    expect(await answers[0]?.text()).toBe(await answers[1]?.text());
  });

  it('depends on the scopes of the token', async () => {
    const { owner, project, tree } = await setUpWithMain();
    const outcomes: Record<string, [boolean, boolean]> = {};
    for (const scope of ['read_api', 'read_user', 'read_repository', 'write_repository', 'api']) {
      const theirs = await remoteOf(app(), project, owner, [scope]);
      const read = await tryGit(folder(), 'ls-remote', theirs);
      const write = await tryGit(tree, 'push', theirs, `main:${scope}`);
      outcomes[scope] = [read.code === 0, write.code === 0];
    }
    expect(outcomes).toEqual({
      read_api: [false, false],
      read_user: [false, false],
      read_repository: [true, false],
      write_repository: [true, true],
      api: [true, true],
    });
  });

  it('accepts the password of the account if the setting allows it', async () => {
    const project = await app().make.project({ visibility: 'private' });
    const theirs = remoteUrl(app().url, project, 'root', PASSWORD);
    expect((await tryGit(folder(), 'ls-remote', theirs)).code).toBe(0);
    expect((await tryGit(folder(), 'ls-remote', remoteUrl(app().url, project, 'root', 'wrong'))).code).not.toBe(0);
    const settings = '/application/settings';
    await app().as(app().root).put(settings, { password_authentication_enabled_for_git: false });
    expect((await tryGit(folder(), 'ls-remote', theirs)).code).not.toBe(0);
    await app().as(app().root).put(settings, { password_authentication_enabled_for_git: true });
  });

  it('is refused at once for blocked users and revoked tokens', async () => {
    const { owner, remote } = await setUp();
    const { db } = app().hub.services;
    expect((await tryGit(folder(), 'ls-remote', remote)).code).toBe(0);
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', owner.id).execute();
    expect((await tryGit(folder(), 'ls-remote', remote)).stderr).toContain('blocked');
    await db.updateTable('users').set({ state: 'active' }).where('id', '=', owner.id).execute();
    await db.updateTable('personal_access_tokens').set({ revoked: true }).where('user_id', '=', owner.id).execute();
    expect((await tryGit(folder(), 'ls-remote', remote)).code).not.toBe(0);
  });

  it('refuses pushes to an archived project, and everything on a disabled repository', async () => {
    const { owner, project, tree, remote } = await setUpWithMain();
    await app().as(owner).post(`/projects/${project.id}/archive`);
    expect((await tryGit(tree, 'push', remote, 'main:x')).stderr).toContain('archived');
    expect((await tryGit(folder(), 'ls-remote', remote)).code).toBe(0);
    await app().as(owner).post(`/projects/${project.id}/unarchive`);
    await app().as(owner).put(`/projects/${project.id}`, { repository_access_level: 'disabled' });
    expect((await tryGit(folder(), 'ls-remote', remote)).code).not.toBe(0);
    expect((await tryGit(tree, 'push', remote, 'main:x')).code).not.toBe(0);
    expect(await eventKinds(project.id)).toEqual(['push.received', 'repository.updated']);
  });
});

describe('protection', () => {
  it('requires the role to push to a protected branch, and keeps everyone from rewriting it', async () => {
    const { project, tree, remote } = await setUpWithMain();
    const developer = await remoteOf(app(), project, await memberOf(project, 30));
    await commitFile(tree, 'a', 'a', 'Second');
    const refused = await tryGit(tree, 'push', developer, 'main', 'main:other');
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('You are not allowed to push code to protected branches on this project.');
    // The push is refused as a whole.
    expect(await refsOf(remote)).toEqual(['HEAD', 'refs/heads/main']);
    expect((await tryGit(tree, 'push', developer, 'main:other')).code).toBe(0);
    await runGit(tree, 'push', '-q', remote, 'main');

    await runGit(tree, 'commit', '-q', '--amend', '-m', 'Rewritten');
    const forced = await tryGit(tree, 'push', '--force', remote, 'main');
    expect(forced.code).not.toBe(0);
    expect(forced.stderr).toContain('force push is not allowed');
    expect((await tryGit(tree, 'push', '--force', developer, 'main:other')).code).toBe(0);
    const deleted = await tryGit(tree, 'push', remote, ':main');
    expect(deleted.stderr).toContain('The default branch of a project cannot be deleted.');
    expect((await tryGit(tree, 'push', developer, ':other')).code).toBe(0);
  });

  it('can name wildcards, nobody, one user or one group, and can allow force pushes', async () => {
    const { owner, project, tree, remote } = await setUpWithMain();
    const protect = async (name: string, attributes: Record<string, unknown>) => {
      const { status } = await app()
        .as(owner)
        .post(`/projects/${project.id}/protected_branches`, { name, ...attributes });
      expect(status).toBe(201);
    };
    const dev = await memberOf(project, 30);
    const other = await memberOf(project, 30);
    const [ofDev, ofOther] = [await remoteOf(app(), project, dev), await remoteOf(app(), project, other)];
    const push = async (to: string, ref: string, ...flags: string[]) =>
      (await tryGit(tree, 'push', ...flags, to, `main:${ref}`)).code === 0;

    await protect('release/*', { push_access_level: 0 });
    expect([await push(remote, 'release/1'), await push(ofDev, 'release/1')]).toEqual([false, false]);
    await protect('*-stable', { allowed_to_push: [{ user_id: dev.id }] });
    expect([await push(ofDev, '1-stable'), await push(ofOther, '2-stable'), await push(remote, '2-stable')]).toEqual([
      true,
      false,
      false,
    ]);
    const group = await app().make.group({}, owner);
    await app().make.groupMember(group, other, 30);
    await app().as(owner).post(`/projects/${project.id}/share`, { group_id: group.id, group_access: 30 });
    await protect('team/*', { allowed_to_push: [{ group_id: group.id }], allow_force_push: true });
    expect([await push(ofDev, 'team/a'), await push(ofOther, 'team/a')]).toEqual([false, true]);
    await runGit(tree, 'commit', '-q', '--amend', '-m', 'Rewritten');
    expect(await push(ofOther, 'team/a', '--force')).toBe(true);
    expect(await push(ofDev, '1-stable', '--force')).toBe(false);
    // The most permissive rule for a name applies.
    await protect('team/a', { push_access_level: 30 });
    expect(await push(ofDev, 'team/a', '--force')).toBe(true);
    expect((await tryGit(tree, 'push', remote, ':team/a')).stderr).toContain('Protected branch cannot be removed');
  });

  it('applies to protected tags', async () => {
    const { project, tree, remote } = await setUpWithMain();
    const { db } = app().hub.services;
    const { id } = await db
      .insertInto('protected_tags')
      .values({ project_id: project.id, name: 'v*' })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db
      .insertInto('protection_levels')
      .values({ protected_tag_id: id, action: 'create', access_level: 40 })
      .execute();
    const developer = await remoteOf(app(), project, await memberOf(project, 30));
    await runGit(tree, 'tag', 'v1');
    await runGit(tree, 'tag', 'other');
    expect((await tryGit(tree, 'push', developer, 'v1')).stderr).toContain('not allowed to create this tag');
    expect((await tryGit(tree, 'push', developer, 'other')).code).toBe(0);
    expect((await tryGit(tree, 'push', remote, 'v1')).code).toBe(0);
    expect((await tryGit(tree, 'push', remote, ':v1')).stderr).toContain('Protected tags cannot be deleted.');
    await runGit(tree, 'commit', '-q', '--allow-empty', '-m', 'x');
    await runGit(tree, 'tag', '-f', 'v1');
    expect((await tryGit(tree, 'push', '--force', remote, 'v1')).stderr).toContain('Protected tags cannot be updated.');
  });

  it('lets Developers push to an empty repository only if the default settings allow it', async () => {
    const { owner, project, tree } = await setUp();
    const developer = await memberOf(project, 30);
    const theirs = await remoteOf(app(), project, developer);
    expect((await tryGit(tree, 'push', theirs, 'main')).stderr).toContain('protected branches');
    // Any first branch would become the default branch.
    expect((await tryGit(tree, 'push', theirs, 'main:trunk')).stderr).toContain('protected branches');
    await app()
      .hub.services.db.updateTable('namespaces')
      .set({ default_branch_protection_defaults: JSON.stringify({ developer_can_initial_push: true }) })
      .where('owner_id', '=', owner.id)
      .execute();
    expect((await tryGit(tree, 'push', theirs, 'main')).code).toBe(0);
    await runGit(tree, 'commit', '-q', '--allow-empty', '-m', 'x');
    expect((await tryGit(tree, 'push', theirs, 'main')).code).not.toBe(0);
  });
});

describe('an odd request', () => {
  it('is refused for an invalid ref name: too long, object ids, other refs', async () => {
    const { project, tree, remote } = await setUp();
    const long = `${'a'.repeat(150)}/${'b'.repeat(149)}`;
    for (const ref of [long, `refs/heads/${'0123456789'.repeat(4)}`, 'refs/odd/x', 'refs/heads/refs/heads/x']) {
      const target = ref.startsWith('refs/') ? ref : `refs/heads/${ref}`;
      expect((await tryGit(tree, 'push', remote, `main:${target}`)).code, ref.slice(0, 30)).not.toBe(0);
    }
    expect(await refsOf(remote)).toEqual([]);
    expect(await eventKinds(project.id)).toEqual([]);
    const most = `${'a'.repeat(100)}/${'b'.repeat(100)}`;
    expect((await tryGit(tree, 'push', remote, 'main', `main:${most}`)).code).toBe(0);
  });

  it('is refused for the dumb protocol, unknown services and content types', async () => {
    const { project } = await setUp({ visibility: 'public' });
    const base = `${app().url}/${project.path_with_namespace}.git`;
    expect((await fetch(`${base}/info/refs`)).status).toBe(403);
    expect((await fetch(`${base}/info/refs?service=git-upload-archive`)).status).toBe(403);
    expect((await fetch(`${base}/HEAD`)).status).toBe(404);
    expect((await fetch(`${base}/objects/info/packs`)).status).toBe(404);
    const post = (type: string, body: string) =>
      fetch(`${base}/git-upload-pack`, { method: 'POST', headers: { 'content-type': type }, body });
    expect((await post('text/plain', '0000')).status).toBe(415);
    expect((await fetch(`${app().url}/a%2Fb/c.git/info/refs?service=git-upload-pack`)).status).toBe(404);
  });

  it('is refused for a push above the size limit', async () => {
    const { project, tree, remote } = await setUp();
    await writeFile(join(tree, 'big'), randomBytes(2 * 1024 * 1024));
    await runGit(tree, 'add', '.');
    await runGit(tree, 'commit', '-q', '-m', 'Big');
    await app().as(app().root).put('/application/settings', { receive_max_input_size: 1 });
    expect((await tryGit(tree, 'push', remote, 'main')).stderr).toMatch(/maximum allowed size|unpacker error/);
    expect(await eventKinds(project.id)).toEqual([]);
    await app().as(app().root).put('/application/settings', { receive_max_input_size: 0 });
    expect((await tryGit(tree, 'push', remote, 'main')).code).toBe(0);
  });

  it('is refused for an invalid push', async () => {
    const { owner, project } = await setUp();
    const token = await app().tokenOf(owner);
    const send = (body: string) =>
      fetch(`${app().url}/${project.path_with_namespace}.git/git-receive-pack`, {
        method: 'POST',
        headers: {
          'content-type': 'application/x-git-receive-pack-request',
          authorization: `Basic ${Buffer.from(`x:${token}`).toString('base64')}`,
        },
        body,
      });
    expect((await send('nonsense')).status).toBe(400);
    expect((await send('')).status).toBe(400);
    expect(await eventKinds(project.id)).toEqual([]);
  });

  it('leaves nothing behind if it is aborted during a push', async () => {
    const { owner, project } = await setUp();
    const token = await app().tokenOf(owner);
    const url = new URL(`${app().url}/${project.path_with_namespace}.git/git-receive-pack`);
    const command = `${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main\0 report-status`;
    const line = `${(command.length + 4).toString(16).padStart(4, '0')}${command}0000PACK`;
    await new Promise<void>((resolve) => {
      const sent = request(url, {
        method: 'POST',
        headers: { 'content-type': 'application/x-git-receive-pack-request', 'transfer-encoding': 'chunked' },
        auth: `x:${token}`,
      });
      sent.on('error', () => resolve());
      sent.on('close', () => resolve());
      sent.write(line, () => sent.destroy());
    });
    expect((await tryGit(folder(), 'ls-remote', await remoteOf(app(), project, owner))).stdout).toBe('');
    expect(await eventKinds(project.id)).toEqual([]);
  });

  it('reaches a renamed project by its old path', async () => {
    const { owner, project, tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main');
    const { status } = await app()
      .as(owner)
      .put(`/projects/${project.id}`, { path: `${project.path}-moved` });
    expect(status).toBe(200);
    expect((await tryGit(folder(), 'clone', '-q', remote, `moved-${project.id}`)).code).toBe(0);
    await commitFile(tree, 'b', 'b', 'More');
    expect((await tryGit(tree, 'push', remote, 'main')).code).toBe(0);
    expect(await eventKinds(project.id)).toHaveLength(4);
  });

  it('reaches a project by the URL of its page, without `.git`', async () => {
    const { project, tree, remote } = await setUp();
    const page = remote.replace(/\.git$/, '');
    await runGit(tree, 'push', '-q', page, 'main');
    expect(await refsOf(page)).toEqual(['HEAD', 'refs/heads/main']);
    expect(await refsOf(remote)).toEqual(['HEAD', 'refs/heads/main']);
    expect((await tryGit(folder(), 'clone', '-q', page, `page-${project.id}`)).code).toBe(0);

    const ask = async (path: string) => {
      const answer = await fetch(`${app().url}/${path}`, { redirect: 'manual' });
      return [answer.status, answer.headers.get('location')];
    };
    const query = '?service=git-upload-pack';
    const there = `/${project.path_with_namespace}`;
    expect(await ask(`${there.slice(1)}/info/refs${query}`)).toEqual([301, `${there}.git/info/refs${query}`]);
    expect(await ask(`no/such/info/refs${query}`)).toEqual([301, `/no/such.git/info/refs${query}`]);
    expect(await ask(`a%0d%0ab/c%3f/info/refs${query}`)).toEqual([301, `/a%0D%0Ab/c%3F.git/info/refs${query}`]);
    for (const odd of ['/evil.example.com', 'a%2fb', 'x'.repeat(1_025), `${'x'.repeat(1_025)}.git`]) {
      expect((await ask(`${odd}/info/refs${query}`))[0], odd.slice(0, 20)).toBe(404);
    }
    expect((await ask('no/such/info/refs'))[0]).toBe(404);
    expect((await ask('no/such/info/refs?service=git-upload-archive'))[0]).toBe(404);
  });

  it('has one winner and one event if several race to push the same branch', async () => {
    const { project, tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main');
    const base = await runGit(tree, 'rev-parse', 'HEAD');
    const clones = await Promise.all(
      [1, 2, 3].map(async (n) => {
        const name = `race-${project.id}-${n}`;
        await runGit(folder(), 'clone', '-q', remote, name);
        await commitFile(join(folder(), name), `file${n}`, 'x', `By ${n}`);
        return join(folder(), name);
      }),
    );
    const results = await Promise.all(clones.map((clone) => tryGit(clone, 'push', remote, 'main')));
    expect(results.filter(({ code }) => code === 0)).toHaveLength(1);
    const pushes = (await eventsOf(app(), project.id)).filter(({ kind }) => kind === 'push.received').slice(1);
    expect(pushes).toHaveLength(1);
    expect(pushes[0]?.payload.before).toBe(base);
    expect(pushes[0]?.payload.after).toBe(
      (await runGit(folder(), 'ls-remote', remote, 'refs/heads/main')).slice(0, 40),
    );
  });
});
