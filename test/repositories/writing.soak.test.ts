import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { computedMs } from '../support/computed-ms.ts';
import { eventsOf, remoteOf, runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();

/** Creates an empty project, and returns it with the paths of its repository. */
const setUp = async (attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private', ...attributes }, owner);
  return { owner, project, path: `/projects/${project.id}/repository` };
};
type Setting = Awaited<ReturnType<typeof setUp>>;

const memberOf = async (project: { id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};

const emailOf = ({ username }: TestUser) => `${username}@example.com`;

const commit = (
  { owner, path }: Setting,
  actions: readonly Record<string, unknown>[],
  rest: Record<string, unknown> = {},
) =>
  app()
    .as(owner)
    .post(`${path}/commits`, { branch: 'main', commit_message: 'Change', actions, ...rest });

const cloned = async ({ owner, project }: Setting, branch = 'main'): Promise<string> => {
  const tree = join(folder(), `clone-${crypto.randomUUID()}`);
  await runGit(folder(), 'clone', '-q', '-b', branch, await remoteOf(app(), project, owner), tree);
  await runGit(tree, 'fsck', '--strict');
  return tree;
};
const show = (tree: string, what: string) => runGit(tree, 'show', what);

const headOf = async ({ owner, path }: Setting, branch = 'main'): Promise<string> =>
  (
    await app()
      .as(owner)
      .get(`${path}/branches/${encodeURIComponent(branch)}`)
  ).body.commit?.id;

const ILL_PATHS = [
  '../x',
  '//x',
  '/../x',
  '/',
  '/.git/config',
  '.git/config',
  'a//b',
  '.GIT/hooks/x',
  'a/../b',
  'x\\y',
  'a\nb',
  '.git ::$DATA',
];

describe('POST commits', () => {
  it('refuses paths outside the tree or into .git, in the first commit too', async () => {
    const at = await setUp();
    for (const file_path of ILL_PATHS) {
      const { status, body } = await commit(at, [{ action: 'create', file_path, content: '' }]);
      expect([file_path, status, body.message]).toEqual([file_path, 400, 'The file path is not valid']);
    }
    expect(await headOf(at)).toBeUndefined();
  });

  it('takes paths from the root of the repository, in a form as update bots send it', async () => {
    const at = await setUp();
    expect((await commit(at, [{ action: 'create', file_path: 'Gemfile', content: 'old' }])).status).toBe(201);
    const last_commit_id = await headOf(at);
    const form = new URLSearchParams({ branch: 'bump', start_branch: 'main', commit_message: 'Bump' });
    for (const [action, file_path, content] of [
      ['update', '/Gemfile', 'new'],
      ['create', '/docs/a.md', 'a'],
    ] as const) {
      const pairs = { action, encoding: 'text', file_path, content };
      for (const [name, value] of Object.entries(pairs)) form.append(`actions[][${name}]`, value);
    }
    expect((await app().as(at.owner).post(`${at.path}/commits`, form)).status).toBe(201);
    const rest = { branch: 'next', start_branch: 'bump' };
    const move = { action: 'move', file_path: '/b.md', previous_path: '/docs/a.md' };
    const stale = { action: 'delete', file_path: '/Gemfile', last_commit_id };
    expect((await commit(at, [move, stale], rest)).body.message).toMatch('The file has changed');
    expect((await commit(at, [move], rest)).status).toBe(201);
    const tree = await cloned(at, 'next');
    expect(await runGit(tree, 'ls-tree', '-r', '--name-only', 'HEAD')).toBe('Gemfile\nb.md');
    expect(await show(tree, 'HEAD:Gemfile')).toBe('new');
  });

  it('refuses paths with so many folders that checking them would stall the hub', async () => {
    const at = await setUp();
    const deep = Array.from({ length: 200 }, (_, number) => ({
      action: 'create',
      file_path: `${number}${'/a'.repeat(2_000)}`,
      content: '',
    }));
    const began = computedMs();
    const { status, body } = await commit(at, deep);
    expect([status, body.message]).toEqual([400, 'The file paths contain too many folders']);
    expect(computedMs() - began).toBeLessThan(5_000);
  });

  it('refuses a .gitmodules that a push could not contain', async () => {
    const at = await setUp();
    const modules = (content: string) => commit(at, [{ action: 'create', file_path: '.gitmodules', content }]);
    for (const content of [
      '[submodule "../../x"]\n\tpath = x\n\turl = https://example.com/x\n',
      '[submodule "x"]\n\tpath = -x\n\turl = https://example.com/x\n',
      '[submodule "x"]\n\tpath = x\n\turl = -uexample\n',
    ]) {
      const { status, body } = await modules(content);
      expect([status, body.message]).toEqual([400, 'The file .gitmodules is not valid']);
    }
    expect(await headOf(at)).toBeUndefined();
    expect((await modules('[submodule "x"]\n\tpath = x\n\turl = https://example.com/x\n')).status).toBe(201);
    const moved = await commit(at, [{ action: 'create', file_path: 'a/.gitmodules', content: '[submodule "../x"]\n' }]);
    expect(moved.status).toBe(201);
    await runGit(await cloned(at), 'fsck', '--strict');
  });

  it('refuses a .gitattributes that a push could not contain, and keeps none of its objects', async () => {
    const at = await setUp();
    const attributes = (content: string) => commit(at, [{ action: 'create', file_path: 'a/.GitAttributes', content }]);
    const refused = await attributes(`${'x'.repeat(2_100)} text\n`);
    expect([refused.status, refused.body.message]).toEqual([400, 'The file .gitattributes is not valid']);
    const { config, db } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', at.project.id)
      .executeTakeFirstOrThrow();
    expect(await runGit(join(config.dataDir, 'repositories', disk_path), 'count-objects')).toContain('0 objects');
    expect((await attributes('*.png binary\n')).status).toBe(201);
    await runGit(await cloned(at), 'fsck', '--strict');
  });

  it('replaces an author name that git would strip to nothing', async () => {
    const at = await setUp();
    const made = await commit(at, [{ action: 'create', file_path: 'x', content: '' }], { author_name: '.' });
    expect([made.status, made.body.author_name]).toEqual([201, emailOf(at.owner)]);
  });

  it('starts an empty repository, and does many actions at once', async () => {
    const at = await setUp();
    const { owner, project } = at;
    const first = await commit(
      at,
      [
        { action: 'create', file_path: 'README.md', content: '# Hello\n' },
        { action: 'create', file_path: 'a/b/c.txt', content: 'one\n' },
        {
          action: 'create',
          file_path: 'bin.dat',
          content: Buffer.from([0, 255, 1]).toString('base64'),
          encoding: 'base64',
        },
        { action: 'create', file_path: 'run.sh', content: '#!/bin/sh\n' },
        { action: 'create', file_path: 'gone', content: 'x' },
      ],
      { commit_message: 'First\n\nSigned-off-by: Me <me@example.org>\n' },
    );
    expect(first.status).toBe(201);
    expect(first.body).toMatchObject({
      title: 'First',
      parent_ids: [],
      author_name: `Name of ${owner.username}`,
      author_email: emailOf(owner),
      committer_email: emailOf(owner),
      trailers: { 'Signed-off-by': 'Me <me@example.org>' },
      stats: { additions: 4, deletions: 0, total: 4 },
      status: null,
      last_pipeline: null,
      project_id: project.id,
      web_url: `${app().url}/${project.path_with_namespace}/-/commit/${first.body.id}`,
    });
    const second = await commit(
      at,
      [
        { action: 'update', file_path: 'README.md', content: '# Hello again\n' },
        { action: 'move', file_path: 'd/c.txt', previous_path: 'a/b/c.txt' },
        { action: 'chmod', file_path: 'run.sh', execute_filemode: true },
        { action: 'delete', file_path: 'gone' },
        { action: 'create', file_path: 'gone/now a folder', content: 'ü' },
        { action: 'create', file_path: 'twice', content: '1' },
        { action: 'update', file_path: 'twice', content: '2' },
        { action: 'create', file_path: 'never', content: '1' },
        { action: 'delete', file_path: 'never' },
      ],
      { author_name: 'Somebody <Else>', author_email: 'else@example.org', stats: false },
    );
    expect(second.status).toBe(201);
    expect(second.body.stats).toBeUndefined();
    expect(second.body).toMatchObject({
      parent_ids: [first.body.id],
      author_name: 'Somebody Else',
      author_email: 'else@example.org',
      committer_name: `Name of ${owner.username}`,
    });
    const tree = await cloned(at);
    expect(await runGit(tree, 'rev-parse', 'HEAD')).toBe(second.body.id);
    expect((await runGit(tree, 'ls-files', '-s')).split('\n').map((line) => line.replace(/ \w{40} 0\t/, ' '))).toEqual([
      '100644 README.md',
      '100644 bin.dat',
      '100644 d/c.txt',
      '100644 gone/now a folder',
      '100755 run.sh',
      '100644 twice',
    ]);
    expect(await show(tree, 'HEAD:twice')).toBe('2');

    const events = await eventsOf(app(), project.id);
    expect(events.map(({ kind }) => kind)).toEqual([
      'push.received',
      'repository.updated',
      'push.received',
      'repository.updated',
    ]);
    expect(events[2]).toMatchObject({
      actor_id: owner.id,
      payload: { ref: 'refs/heads/main', before: first.body.id, after: second.body.id, total_commits_count: 1 },
    });
    expect(events[2]?.payload.commits[0]).toMatchObject({
      modified: ['README.md', 'run.sh'],
      removed: ['a/b/c.txt', 'gone'],
    });
    const { body: now } = await app().as(owner).get(`/projects/${project.id}`);
    expect(now).toMatchObject({ empty_repo: false, default_branch: 'main' });
  });

  it('accepts forms, as scripts send them', async () => {
    const at = await setUp();
    const form = new FormData();
    form.append('branch', 'main');
    form.append('commit_message', 'By form');
    form.append('actions[][action]', 'create');
    form.append('actions[][file_path]', 'one');
    form.append('actions[][content]', 'eins');
    form.append('actions[][action]', 'create');
    form.append('actions[][file_path]', 'two');
    form.append('actions[][content]', 'zwei');
    expect((await app().as(at.owner).post(`${at.path}/commits`, form)).status).toBe(201);
    const pairs = new URLSearchParams({ branch: 'main', commit_message: 'Encoded' });
    for (const [name, value] of [
      ['action', 'update'],
      ['file_path', 'two'],
      ['content', 'dos'],
    ] as const) {
      pairs.append(`actions[][${name}]`, value);
    }
    expect((await app().as(at.owner).post(`${at.path}/commits`, pairs)).status).toBe(201);
    const tree = await cloned(at);
    expect([await show(tree, 'HEAD:one'), await show(tree, 'HEAD:two')]).toEqual(['eins', 'dos']);
  });

  it('reports impossible actions, and changes nothing', async () => {
    const at = await setUp();
    const { body: first } = await commit(at, [
      { action: 'create', file_path: 'file', content: '1' },
      { action: 'create', file_path: 'folder/x', content: '1' },
    ]);
    const ok = { action: 'create', file_path: 'other', content: 'x' };
    const refused = async (action: Record<string, unknown>, said: string, rest: Record<string, unknown> = {}) => {
      const answer = await commit(at, [ok, action], rest);
      expect([answer.status, answer.body]).toEqual([
        400,
        expect.objectContaining({ [rest.error ? 'error' : 'message']: said }),
      ]);
    };
    const exists = 'A file with this name already exists';
    const missing = "A file with this name doesn't exist";
    await refused({ action: 'create', file_path: 'file', content: '' }, exists);
    await refused({ action: 'create', file_path: 'other', content: '' }, exists);
    await refused({ action: 'create', file_path: 'folder', content: '' }, 'A directory with this name already exists');
    await refused({ action: 'update', file_path: 'none', content: '' }, missing);
    await refused({ action: 'delete', file_path: 'none' }, missing);
    await refused({ action: 'move', file_path: 'new', previous_path: 'none' }, missing);
    await refused({ action: 'move', file_path: 'file', previous_path: 'folder/x' }, exists);
    await refused({ action: 'chmod', file_path: 'none', execute_filemode: true }, missing);
    await refused(
      { action: 'create', file_path: 'file/x', content: '' },
      'A path is used both as a file and as a folder',
    );
    for (const path of ILL_PATHS) {
      await refused({ action: 'create', file_path: path, content: '' }, 'The file path is not valid');
    }
    await refused(
      { action: 'update', file_path: 'file', content: '', last_commit_id: 'f'.repeat(40) },
      'The file has changed since you started editing it: file',
    );
    const onBranch = 'You can only create or edit files when you are on a branch';
    await refused(ok, onBranch, { branch: 'none' });
    await refused(ok, onBranch, { branch: 'new', start_branch: 'none' });
    await refused(ok, `Cannot find start_sha '${'f'.repeat(40)}'`, { branch: 'new', start_sha: 'f'.repeat(40) });
    await refused(ok, "A branch called 'main' already exists. Switch to that branch in order to make changes", {
      start_sha: first.id,
    });
    await refused(ok, 'Branch name is invalid', { branch: '-x' });
    const malformed = async (body: Record<string, unknown>, said: string) => {
      const answer = await app()
        .as(at.owner)
        .post(`${at.path}/commits`, { branch: 'main', commit_message: 'x', actions: [ok], ...body });
      expect([answer.status, answer.body]).toEqual([400, { error: said }]);
    };
    await malformed({ actions: [] }, 'actions is missing');
    await malformed({ actions: [{ action: 'create', file_path: 'y' }] }, 'actions[0][content] is missing');
    await malformed({ actions: [{ action: 'move', file_path: 'y' }] }, 'actions[0][previous_path] is missing');
    await malformed({ actions: [{ action: 'chmod', file_path: 'file' }] }, 'actions[0][execute_filemode] is missing');
    await malformed(
      { actions: [{ ...ok, content: 'no base64!', encoding: 'base64' }] },
      'actions[0][content] is not valid base64',
    );
    await malformed({ commit_message: ' \n' }, 'commit_message is empty');
    await malformed({ author_email: 'a@b>c' }, 'author_email is invalid');
    expect((await commit(at, [{ ...ok, action: 'burn' }])).body.error).toContain('actions[0][action]');
    expect(await headOf(at)).toBe(first.id);
    expect((await eventsOf(app(), at.project.id)).length).toBe(2);
  });

  it('creates branches from branches, commits and other projects, and resets them by force', async () => {
    const at = await setUp();
    const { body: first } = await commit(at, [{ action: 'create', file_path: 'file', content: '1' }]);
    const { body: second } = await commit(at, [{ action: 'update', file_path: 'file', content: '2' }]);
    const add = (name: string) => [{ action: 'create', file_path: name, content: name }];
    const feature = await commit(at, add('a'), { branch: 'feature/a', start_branch: 'main' });
    expect(feature.body.parent_ids).toEqual([second.id]);
    const old = await commit(at, add('b'), { branch: 'old', start_sha: first.id.slice(0, 10) });
    expect(old.body.parent_ids).toEqual([first.id]);
    expect((await commit(at, add('c'), { branch: 'old', start_branch: 'main' })).status).toBe(400);
    const anew = await commit(at, add('c'), { branch: 'old', start_branch: 'main', force: true });
    expect(anew.body.parent_ids).toEqual([second.id]);
    expect((await commit(at, add('c'), { branch: 'feature', start_branch: 'main' })).body.message).toContain('clashes');
    // The default branch is protected and does not allow force pushes.
    const forced = await commit(at, add('c'), { start_sha: first.id, force: true });
    expect(forced.status).toBe(400);
    expect(await headOf(at)).toBe(second.id);

    const other = await app().make.project({ visibility: 'private' }, at.owner);
    const there = await app()
      .as(at.owner)
      .post(`/projects/${other.id}/repository/commits`, {
        branch: 'imported',
        commit_message: 'Over here',
        start_project: at.project.path_with_namespace,
        start_branch: 'feature/a',
        actions: add('z'),
      });
    expect(there.status).toBe(201);
    const tree = await cloned({ owner: at.owner, project: other, path: '' }, 'imported');
    expect(await runGit(tree, 'log', '--format=%H')).toBe(
      [there.body.id, feature.body.id, second.id, first.id].join('\n'),
    );
    const stranger = await memberOf(other, 40);
    const stolen = await app()
      .as(stranger)
      .post(`/projects/${other.id}/repository/commits`, {
        branch: 'stolen',
        commit_message: 'x',
        start_project: at.project.id,
        start_branch: 'main',
        actions: add('y'),
      });
    expect([stolen.status, stolen.body]).toEqual([404, { message: '404 Project Not Found' }]);
  });

  it('requires the right to push to the branch', async () => {
    const at = await setUp();
    const { body: first } = await commit(at, [{ action: 'create', file_path: 'file', content: '1' }]);
    const body = (branch: string) => ({
      branch,
      start_branch: 'main',
      commit_message: 'x',
      actions: [{ action: 'create', file_path: branch, content: 'x' }],
    });
    const url = `${at.path}/commits`;
    expect((await app().anonymous.post(url, body('main'))).status).toBe(401);
    expect(
      (
        await app()
          .as(await app().make.user())
          .post(url, body('main'))
      ).status,
    ).toBe(404);
    const reporter = await memberOf(at.project, 20);
    expect((await app().as(reporter).post(url, body('topic'))).status).toBe(403);
    const developer = await memberOf(at.project, 30);
    const refused = await app().as(developer).post(url, body('main'));
    expect([refused.status, refused.body.message]).toEqual([
      403,
      '403 Forbidden - You are not allowed to push code to protected branches on this project.',
    ]);
    expect((await app().as(developer).post(url, body('topic'))).status).toBe(201);
    const readOnly = await app().tokenOf(at.owner, ['read_api', 'read_repository']);
    const scoped = await app().anonymous.post(url, body('other'), { 'private-token': readOnly });
    expect(scoped.status).toBe(403);
    await app().as(at.owner).post(`/projects/${at.project.id}/archive`);
    expect((await app().as(at.owner).post(url, body('late'))).status).toBe(403);
    expect(await headOf(at)).toBe(first.id);
  });

  it('follows the push rule, like a push', async () => {
    const at = await setUp();
    await commit(at, [{ action: 'create', file_path: 'file', content: '1' }]);
    await app().as(at.owner).post(`/projects/${at.project.id}/push_rule`, {
      commit_message_regex: '^[A-Z]+-\\d+',
      max_file_size: 1,
      prevent_secrets: true,
    });
    const add = (file_path: string, content: string, commit_message: string) =>
      commit(at, [{ action: 'create', file_path, content }], { commit_message });
    const refusals = [
      await add('a', 'x', 'no key'),
      await add('a', 'x'.repeat(1_100_000), 'AB-1 big'),
      await add('id_rsa', 'x', 'AB-1 secret'),
    ];
    expect(refusals.map(({ status }) => status)).toEqual([400, 400, 400]);
    expect(refusals.map(({ body }) => /push rule (\w+)/.exec(body.message)?.[1])).toEqual([
      'commit_message_regex',
      'max_file_size',
      'prevent_secrets',
    ]);
    // It is refused again, because none of its objects stayed in the repository.
    expect((await add('a', 'x'.repeat(1_100_000), 'AB-1 big')).status).toBe(400);
    expect((await add('a', 'x', 'AB-1 good')).status).toBe(201);
  });

  it('accepts concurrent commits to one branch', async () => {
    const at = await setUp();
    await commit(at, [{ action: 'create', file_path: 'shared', content: '0' }]);
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const answers = await Promise.all(
      names.map((name) =>
        commit(at, [{ action: 'create', file_path: name, content: name }], { commit_message: `Add ${name}` }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(names.map(() => 201));
    const same = await Promise.all(
      ['1', '2', '3'].map((content) => commit(at, [{ action: 'create', file_path: 'one', content }])),
    );
    expect(same.map(({ status }) => status).sort()).toEqual([201, 400, 400]);
    const tree = await cloned(at);
    expect((await runGit(tree, 'ls-files')).split('\n')).toEqual([...names, 'one', 'shared']);
    expect(await runGit(tree, 'rev-list', '--count', '--no-merges', 'HEAD')).toBe('8');
  });

  it('accepts twenty megabytes, and refuses larger commits', async () => {
    const at = await setUp();
    const content = Buffer.alloc(20_000_000, 'x').toString('base64');
    const big = await commit(at, [{ action: 'create', file_path: 'big', content, encoding: 'base64' }]);
    expect(big.status).toBe(201);
    const tooMuch = 'x'.repeat(33 * 1024 * 1024);
    const bigger = await app()
      .as(at.owner)
      .post(
        `${at.path}/commits`,
        {
          branch: 'main',
          commit_message: 'Change',
          actions: [{ action: 'create', file_path: 'bigger', content: tooMuch }],
        },
        // The hub disconnects who sends so much. The next test must not get this connection.
        { connection: 'close' },
      );
    expect(bigger.status).toBe(413);
  });

  it('creates an empty commit on request', async () => {
    const at = await setUp();
    await commit(at, [{ action: 'create', file_path: 'file', content: '1' }]);
    const empty = await commit(at, [], { allow_empty: true });
    expect([empty.status, empty.body.stats]).toEqual([201, { additions: 0, deletions: 0, total: 0 }]);
  });
});

describe('a file', () => {
  it('is created, changed and deleted', async () => {
    const at = await setUp();
    const client = app().as(at.owner);
    const url = `${at.path}/files/${encodeURIComponent('src/app.v1/main file.ts')}`;
    const bea = { author_name: 'Bea', author_email: 'bea@example.org' };
    const created = await client.post(url, { branch: 'main', commit_message: 'Create', content: 'one\n', ...bea });
    expect([created.status, created.body]).toEqual([201, { file_path: 'src/app.v1/main file.ts', branch: 'main' }]);
    expect((await client.get(`${at.path}/commits/main`)).body).toMatchObject(bea);
    const first = await headOf(at);
    const stale = { branch: 'main', commit_message: 'x', last_commit_id: 'f'.repeat(40) };
    expect((await client.put(url, { ...stale, content: '' })).body).toEqual({
      message: 'You are attempting to update a file that has changed since you started editing it.',
    });
    expect((await client.delete(url, stale)).body).toEqual({
      message: 'You are attempting to delete a file that has been previously updated.',
    });
    const updated = await client.put(url, {
      branch: 'main',
      commit_message: 'Update',
      content: Buffer.from('zwei\n').toString('base64'),
      encoding: 'base64',
      last_commit_id: first,
      execute_filemode: true,
      author_name: 'Ann',
      author_email: 'ann@example.org',
    });
    expect([updated.status, updated.body]).toEqual([200, { file_path: 'src/app.v1/main file.ts', branch: 'main' }]);
    const tree = await cloned(at);
    expect(await show(tree, 'HEAD:src/app.v1/main file.ts')).toBe('zwei');
    expect(await runGit(tree, 'log', '-1', '--format=%an %ae %ce %s')).toBe(
      `Ann ann@example.org ${emailOf(at.owner)} Update`,
    );
    const query = new URLSearchParams({ branch: 'topic', start_branch: 'main', commit_message: 'Delete' });
    const deleted = await client.delete(`${url}?${query}`);
    expect([deleted.status, deleted.body]).toEqual([204, '']);
    const topic = await cloned(at, 'topic');
    expect(await runGit(topic, 'ls-files')).toBe('');
  });

  it('gets a 400 if it already exists or is missing, and a 404 for callers who cannot see the project', async () => {
    const at = await setUp();
    const client = app().as(at.owner);
    const body = { branch: 'main', commit_message: 'x', content: 'x' };
    await client.post(`${at.path}/files/a`, body);
    expect((await client.post(`${at.path}/files/a`, body)).body).toEqual({
      message: 'A file with this name already exists',
    });
    expect((await client.put(`${at.path}/files/b`, body)).body).toEqual({
      message: "A file with this name doesn't exist",
    });
    expect((await client.delete(`${at.path}/files/b`, body)).body).toEqual({
      message: "A file with this name doesn't exist",
    });
    expect((await client.post(`${at.path}/files/b`, { ...body, branch: 'none' })).status).toBe(400);
    expect((await client.post(`${at.path}/files/b`, { branch: 'main', content: '' })).body).toEqual({
      error: 'commit_message is missing',
    });
    expect((await client.post(`${at.path}/files/..%2Fb`, body)).status).toBe(400);
    const stranger = app().as(await app().make.user());
    for (const answer of [
      await stranger.post(`${at.path}/files/b`, body),
      await stranger.put(`${at.path}/files/a`, body),
      await stranger.delete(`${at.path}/files/a`, body),
    ]) {
      expect(answer.status).toBe(404);
    }
    const reporter = app().as(await memberOf(at.project, 20));
    expect((await reporter.put(`${at.path}/files/a`, body)).status).toBe(403);
    expect((await app().anonymous.put(`${at.path}/files/a`, body)).status).toBe(401);
  });
});
