import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadCatalogue } from '#domains/repositories/languages/catalogue.ts';
import { interpreterOf, Tally } from '#domains/repositories/languages/tally.ts';
import { detectMissingLanguages } from '#domains/repositories/languages.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import type { TestProject } from '../support/factories.ts';
import { runGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

/** Returns the bytes by language, for files given as path and size. */
const tallied = async (files: Readonly<Record<string, number>>, mode = '100644') => {
  const tally = new Tally(await loadCatalogue());
  for (const [path, size] of Object.entries(files)) tally.add({ path, size, mode, oid: '0'.repeat(40) });
  return Object.fromEntries(tally.result());
};

describe('the language of a file', () => {
  it('is detected by name and by the longest known extension', async () => {
    expect(await tallied({ 'a.ts': 100, 'src/b.tsx': 50, Makefile: 7, 'x.PY': 3, 'view.html.erb': 5 })).toEqual({
      TypeScript: 150,
      Makefile: 7,
      HTML: 5,
      Python: 3,
    });
  });

  it('is ignored for data, prose, documentation, and vendored or generated files', async () => {
    const files = [
      'a.json',
      'b.yml',
      'README.md',
      'notes.md',
      'logo.png',
      'vendor/x.go',
      'web/node_modules/a/b.js',
      'docs/c.py',
    ];
    const written = ['app.min.js', 'api.pb.go', 'package-lock.json', 'js/jquery-3.7.1.js', 'empty', '.gitignore'];
    expect(await tallied(Object.fromEntries([...files, ...written].map((name) => [name, 10])))).toEqual({});
    expect(await tallied({ 'link.py': 10 }, '120000')).toEqual({});
    expect(await tallied({ 'src/docs/c.py': 10 })).toEqual({ Python: 10 });
  });

  it('is chosen by the other files if an extension is ambiguous, else is the usual one', async () => {
    expect(await tallied({ 'a.h': 10 })).toEqual({ C: 10 });
    expect(await tallied({ 'a.h': 10, 'a.cpp': 30, 'b.c': 20 })).toEqual({ 'C++': 40, C: 20 });
    expect(await tallied({ 'a.m': 10 })).toEqual({ 'Objective-C': 10 });
    expect(await tallied({ 'a.m': 10, 'b.matlab': 3 })).toEqual({ MATLAB: 13 });
    expect(await tallied({ 'a.pl': 10 })).toEqual({ Perl: 10 });
    expect(await tallied({ 'a.pl': 10, 'b.prolog': 1 })).toEqual({ Prolog: 11 });
    expect(await tallied({ 'a.v': 10, 'lib.rs': 10, 'x.cs': 10, 'y.php': 10 })).toEqual({
      'C#': 10,
      PHP: 10,
      Rust: 10,
      Verilog: 10,
    });
  });

  it('is detected by the interpreter of a script', async () => {
    expect(interpreterOf('#!/bin/sh\necho')).toBe('sh');
    expect(interpreterOf('#! /usr/bin/env -S FOO=1 python3.12 -u\n')).toBe('python3.12');
    expect(interpreterOf('#!/usr/bin/env\n')).toBeNull();
    expect(interpreterOf('no script')).toBeNull();
    const tally = new Tally(await loadCatalogue());
    const file = { path: 'bin/run', size: 9, mode: '100755', oid: '1'.repeat(40) };
    tally.add(file);
    expect(tally.scripts).toEqual([file]);
    tally.addScript(file, '#!/usr/bin/env python3.12\n');
    expect(Object.fromEntries(tally.result())).toEqual({ Python: 9 });
  });
});

const pushFiles = async (
  tree: string,
  files: Readonly<Record<string, string>>,
  project: TestProject,
  user: TestUser,
  branch = 'main',
) => {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(tree, name)), { recursive: true });
    await writeFile(join(tree, name), content);
  }
  await runGit(tree, 'add', '--all');
  await runGit(tree, 'commit', '-q', '-m', 'Files');
  await pushTree(app(), project, user, tree, `HEAD:${branch}`);
  await app().settle();
};

describe('.gitattributes', () => {
  it('decides which files count, and as which language, with the innermost file last', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const files = {
      '.gitattributes': [
        '*.inc linguist-language=Go',
        'theirs/** linguist-vendored',
        'vendor/ours.rb -linguist-vendored',
        'docs/kept.py linguist-documentation=false',
        'made/*.js linguist-generated=true',
        'prose.md linguist-detectable',
        'data.json linguist-detectable=true',
        'scripts/* -linguist-detectable',
        'odd.rb linguist-language=NoSuchLanguage',
        'tool linguist-language=visual-basic-.net',
        '*.css linguist-documentation',
      ].join('\n'),
      'web/.gitattributes': '*.css -linguist-documentation\n',
      'a.inc': 'x'.repeat(10),
      'theirs/deep/b.rs': 'x'.repeat(20),
      'vendor/ours.rb': 'x'.repeat(30),
      'vendor/other.rb': 'x'.repeat(7),
      'docs/kept.py': 'x'.repeat(40),
      'docs/other.py': 'x'.repeat(7),
      'made/c.js': 'x'.repeat(50),
      'prose.md': 'x'.repeat(60),
      'data.json': 'x'.repeat(70),
      'other.json': 'x'.repeat(7),
      'scripts/d.sh': 'x'.repeat(80),
      'odd.rb': 'x'.repeat(5),
      tool: 'x'.repeat(90),
      'a.css': 'x'.repeat(7),
      'web/b.css': 'x'.repeat(3),
    };
    await pushFiles(await workTree(folder()), files, project, owner);
    const rows = await app()
      .hub.services.db.selectFrom('project_languages')
      .select(['name', 'bytes'])
      .where('project_id', '=', project.id)
      .execute();
    expect(Object.fromEntries(rows.map(({ name, bytes }) => [name, Number(bytes)]))).toEqual({
      'Visual Basic .NET': 90,
      JSON: 70,
      // `workTree` starts with a README, which is not detectable.
      Markdown: 60,
      Python: 40,
      Ruby: 35,
      Go: 10,
      CSS: 3,
    });
  });
});

describe('a project without language statistics', () => {
  it('gets them without a push, in batches, even if another one cannot be read', async () => {
    const owner = await app().make.user();
    const { services } = app().hub;
    const { db } = services;
    const made = [];
    for (let index = 0; index < 3; index++) {
      const project = await app().make.project({}, owner);
      await pushFiles(await workTree(folder()), { 'a.rb': 'x' }, project, owner);
      made.push(project);
    }
    const [first, broken, last] = made.map(({ id }) => id);
    if (first === undefined || broken === undefined || last === undefined) throw new Error('three were made');
    for (const table of ['project_languages', 'repository_upkeep'] as const)
      await db.deleteFrom(table).where('project_id', 'in', [first, broken, last]).execute();
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', broken)
      .executeTakeFirstOrThrow();
    await services.git.remove(disk_path);
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(detectMissingLanguages, { after: first - 1 }));
    await app().settle();
    const languages = async (id: number) => (await app().as(owner).get(`/projects/${id}/languages`)).body;
    expect([await languages(first), await languages(last)]).toEqual([{ Ruby: 100 }, { Ruby: 100 }]);
  });
});

describe('GET /projects/:id/languages', () => {
  it('shows the shares in the default branch, and updates after a push or a new default branch', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    const languages = async () => (await client.get(`/projects/${project.id}/languages`)).body;
    expect(await languages()).toEqual({});
    const tree = await workTree(folder());
    await pushFiles(tree, { 'a.rb': 'x'.repeat(60), 'b.go': 'y'.repeat(30), run: '#!/bin/bash\n' }, project, owner);
    expect(await languages()).toEqual({ Ruby: 58.82, Go: 29.41, Shell: 11.76 });
    await pushFiles(tree, { 'c.go': 'y'.repeat(100) }, project, owner, 'feature');
    expect(await languages()).toEqual({ Ruby: 58.82, Go: 29.41, Shell: 11.76 });
    const listed = await client.get(`/projects/${project.id}/languages`);
    expect(Object.keys(listed.body)).toEqual(['Ruby', 'Go', 'Shell']);
    expect((await client.put(`/projects/${project.id}`, { default_branch: 'feature' })).status).toBe(200);
    await app().settle();
    expect(Object.keys(await languages())).toEqual(['Go', 'Ruby', 'Shell']);
    const { commit_count } = (await client.get(`/projects/${project.id}?statistics=true`)).body.statistics;
    expect(commit_count).toBe(3);
    const { data } = await client.graphql(
      `{ project(fullPath: "${project.path_with_namespace}") { languages { name share color } } }`,
    );
    expect(data.project.languages[0]).toEqual({ name: 'Go', share: expect.closeTo(64.36, 2), color: '#00ADD8' });
  });

  it('requires the right to read the code', async () => {
    const { make } = app();
    const [owner, guest, stranger] = [await make.user(), await make.user(), await make.user()];
    const project = await make.project({ initialize_with_readme: true }, owner);
    await make.projectMember(project, guest, 10);
    const status = async (user: TestUser | null) =>
      (await (user ? app().as(user) : app().anonymous).get(`/projects/${project.id}/languages`)).status;
    expect([await status(owner), await status(guest), await status(stranger), await status(null)]).toEqual([
      200, 403, 404, 404,
    ]);
    const query = `{ project(fullPath: "${project.path_with_namespace}") { languages { name } } }`;
    expect((await app().as(guest).graphql(query)).data.project.languages).toBeNull();
    const open = await make.project({ visibility: 'public', repository_access_level: 'private' }, owner);
    expect((await app().anonymous.get(`/projects/${open.id}/languages`)).status).toBe(404);
  });
});

describe('the initial commit of a project', () => {
  it('emits the same events as a push, in the transaction that creates the project', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['kind', 'actor_id', 'payload'])
      .where('project_id', '=', project.id)
      .orderBy('id')
      .execute();
    expect(events.map(({ kind }) => kind)).toEqual(['project.created', 'push.received', 'repository.updated']);
    const [, push] = events;
    expect(push?.actor_id).toBe(owner.id);
    expect(push?.payload).toMatchObject({
      ref: 'refs/heads/main',
      before: null,
      total_commits_count: 1,
      commits: [{ title: 'Initial commit', added: ['README.md'] }],
    });
  });

  it('emits its events before those of later commits', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const file = { branch: 'main', content: 'x', commit_message: 'Second' };
    expect((await app().as(owner).post(`/projects/${project.id}/repository/files/x`, file)).status).toBe(201);
    await app().settle();
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['payload'])
      .where('project_id', '=', project.id)
      .where('kind', '=', 'push.received')
      .orderBy('id')
      .execute();
    const payloads = events.map(({ payload }) => JSON.stringify(payload));
    expect(payloads).toHaveLength(2);
    expect(payloads[0]).toContain('Initial commit');
    expect(payloads[1]).toContain('Second');
  });
});
