import { PassThrough } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { getSettings } from '#domains/settings/queries.ts';
import { unpack } from '#domains/transfers/importing/unpack.ts';
import { useApp } from '../support/app.ts';
import { packFiles, packProject, projectFiles, readTree } from './archive.ts';
import { downloadExport, importArchive, runImport } from './support.ts';

const app = useApp();
let count = 0;
const path = () => `attack${++count}`;

const leftovers = async () => {
  const keys: string[] = [];
  for await (const { key } of app().hub.services.storage.list('')) keys.push(key);
  return keys;
};

describe('an invalid archive', () => {
  const cases: Record<string, () => Promise<Buffer> | Buffer> = {
    'is empty': () => Buffer.alloc(0),
    'is not gzip': () => Buffer.from('PK\x03\x04 this is something else'),
    'is not tar': () => gzipSync('hello '.repeat(400)),
    'is truncated': async () =>
      (
        await packProject({
          issues: Array.from({ length: 2_000 }, (_, n) => ({ iid: n + 1, title: `${Math.random()}` })),
        })
      ).subarray(0, 5_000),
    'has no version': () => packFiles({ 'tree/project.json': '{}' }),
    'has a newer version': () => packProject({}, { VERSION: '0.3.0' }),
    'has a version that is none': () => packProject({}, { VERSION: '<script>' }),
    'has no project': () => packFiles({ VERSION: '0.2.4' }),
    'has the layout of old': () => packFiles({ VERSION: '0.2.4', 'project.json': '{}' }),
    'has a project that is no object': () => packProject({}, { 'tree/project.json': '[1]' }),
    'has a broken bundle': () => packProject({}, { 'project.bundle': '# v2 git bundle\n\nPACKnothing' }),
    'has a symbolic link': () =>
      packFiles(projectFiles(), [{ name: 'uploads/x', type: 'symlink', linkname: '/etc/passwd' }]),
    'has a hard link': () => packFiles(projectFiles(), [{ name: 'uploads/x', type: 'link', linkname: 'VERSION' }]),
    'has a device': () => packFiles(projectFiles(), [{ name: 'uploads/x', type: 'character-device' }]),
    'leads out of itself': () => packFiles(projectFiles(), [{ name: '../../outside', body: 'x' }]),
    'has an absolute name': () => packFiles(projectFiles(), [{ name: '/etc/cron.d/x', body: 'x' }]),
  };
  it.each(Object.entries(cases))('fails with a plain reason if it %s', async (_name, make) => {
    const owner = await app().make.user();
    const record = await runImport(app(), owner, await make(), { path: path() });
    expect(record.import_status).toBe('failed');
    expect(record.import_error).toMatch(/^[A-Z][^\n]{10,200}\.$/);
    expect(record.import_error).not.toMatch(/millrace|\/tmp|node_modules|could not be completed/);
    await app().settle();
    expect(await leftovers()).toEqual([]);
  });

  it('is refused during the upload if it is too large', async () => {
    const root = app().as(app().root);
    await root.put('/application/settings', { max_import_size: 1 });
    try {
      const answer = await importArchive(app(), app().root, Buffer.alloc(2 * 1024 * 1024), { path: path() });
      expect(answer.status).toBe(413);
      expect(answer.body.message).toContain('(max_import_size)');
      expect(await leftovers()).toEqual([]);
    } finally {
      await root.put('/application/settings', { max_import_size: 0 });
    }
  });

  it('stops at the limit on its unpacked size', async () => {
    const root = app().as(app().root);
    await root.put('/application/settings', { max_decompressed_archive_size: 1 });
    try {
      const bomb = await packProject({}, { 'tree/project/issues.ndjson': Buffer.alloc(50 * 1024 * 1024, 0x20) });
      expect(await runImport(app(), app().root, bomb, { path: path() })).toMatchObject({
        import_status: 'failed',
        import_error: expect.stringMatching(/more than the limit.*\(max_decompressed_archive_size\)\.$/),
      });
    } finally {
      await root.put('/application/settings', { max_decompressed_archive_size: 25_600 });
    }
  });
});

describe('an archive that takes too long to unpack', () => {
  it('is refused with the name of the limit', async () => {
    const context = app().context();
    const stuck = async () => ({ stream: new PassThrough(), size: 1 });
    const storage: typeof context.services.storage = Object.assign(Object.create(context.services.storage), {
      read: stuck,
    });
    const settings = { ...(await getSettings(context)), decompress_archive_file_timeout: 0.05 };
    const unpacking = unpack({ ...context, services: { ...context.services, storage } }, ['x'], settings, new Set());
    await expect(unpacking).rejects.toThrow(
      'takes too long to unpack: more than 50 ms (decompress_archive_file_timeout).',
    );
  });
});

describe('a bad line', () => {
  it('is listed with its number, and the rest is imported', async () => {
    const owner = await app().make.user();
    const good = (iid: number) => ({ iid, title: `Issue ${iid}`, state: 'opened' });
    const archive = await packProject({
      issues: [
        good(1),
        '{"iid": 2, "title": "broken',
        `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
        { iid: 4, title: 5 },
        { iid: 2 ** 64, title: 'Huge' },
        { iid: -1, title: 'Negative' },
        { iid: 7 },
        good(8),
        { iid: 8, title: 'Again' },
        '"a text"',
        '{"iid": 11, "title": "NUL \\u0000 and \\ud800 half", "description": "\\u0000", "__proto__": {"title": "polluted"}}',
        { iid: 12, title: 'Times', created_at: '2026-99-99' },
        {
          iid: 13,
          title: 'Children',
          notes: [{ note: 'kept' }, 5, { note: { a: 1 } }, { note: 'x', created_at: 'never' }],
          label_links: [{ label: { title: 'x', color: 'red; drop' } }, {}],
        },
        { iid: 14, title: 'Far away', weight: 2 ** 31 },
        { iid: 15, title: 'Far', created_at: '9999-12-31T23:59:59Z', due_date: '2026-02-30' },
        '',
        good(17),
      ],
      a_relation_of_the_future: [{ a: 1 }],
    });
    const record = await runImport(app(), owner, archive, { path: path() });
    expect(record.import_status).toBe('finished');
    const all: { relation_name: string; line_number: number; source: string; exception_message: string }[] =
      record.failed_relations;
    const failures = all.filter(({ relation_name }) => relation_name !== 'a_relation_of_the_future');
    expect(all.length - failures.length).toBe(1);
    const of = (source: string) =>
      failures
        .filter((failure) => failure.source === source)
        .map((failure) => failure.line_number)
        .sort((a, b) => a - b);
    expect(of('process_relation_item!')).toEqual([1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 14]);
    expect(of('RelationTreeRestorer#save_relation_object')).toEqual([12, 12, 12, 12, 12]);
    expect(failures.every((failure) => failure.relation_name === 'issues')).toBe(true);
    const issues = (await app().as(owner).get(`/projects/${record.id}/issues?order_by=created_at&per_page=100`)).body;
    expect(issues.map((issue: { iid: number }) => issue.iid).sort((a: number, b: number) => a - b)).toEqual([
      1, 8, 11, 13, 17,
    ]);
    const { rows } = await sql<{
      title: string;
    }>`select title from issues where project_id = ${record.id} and iid = 11`.execute(app().hub.services.db);
    expect(rows[0]?.title).toBe('NUL  and � half');
  });

  it('is listed by its key in the files of settings, whose other values are taken', async () => {
    const project = {
      ...{ description: 'Kept', visibility_level: 15, archived: 'no', build_timeout: 'never', merge_method: null },
      ...{ squash_option: 'sometimes', request_access_enabled: null, merge_requests_author_approval: 'yes', odd: 1 },
    };
    const record = await runImport(
      app(),
      await app().make.user(),
      await packProject(
        { project_feature: [{ issues_access_level: 15, wiki_access_level: 10 }] },
        { 'tree/project.json': JSON.stringify(project) },
      ),
      { path: path() },
    );
    expect(record).toMatchObject({ import_status: 'finished', description: 'Kept' });
    const listed = record.failed_relations.map((each: Record<string, unknown>) => {
      expect(each).toMatchObject({
        exception_class: 'RecordInvalid',
        source: 'process_relation_item!',
        line_number: 0,
      });
      return `${each.relation_name}: ${each.exception_message}`;
    });
    expect(listed.sort()).toEqual([
      'project: archived is invalid: it was left out',
      'project: build_timeout is invalid: it was left out',
      'project: merge_requests_author_approval is invalid: it was left out',
      expect.stringMatching(/^project: squash_option does not have a valid value .*: it was left out$/),
      'project: visibility_level is invalid: it was left out',
      expect.stringMatching(/^project_feature: issues_access_level does not have a valid value .*: it was left out$/),
    ]);
  });

  it('does not fail its batch, wherever the database refuses it', async () => {
    const owner = await app().make.user();
    const lines = Array.from({ length: 1_200 }, (_, n) => ({
      iid: n + 1,
      title: `Issue ${n + 1}`,
      notes: [{ note: 'x' }],
      ...(n === 700 ? { due_date: '2026-02-30' } : {}),
    }));
    const record = await runImport(app(), owner, await packProject({ issues: lines }), { path: path() });
    expect(record.import_status).toBe('finished');
    expect(record.failed_relations).toMatchObject([
      { relation_name: 'issues', line_number: 700, exception_class: 'StatementInvalid' },
    ]);
    const { rows } = await sql<{ n: number }>`select count(*) as n from issues where project_id = ${record.id}`.execute(
      app().hub.services.db,
    );
    expect(rows[0]?.n).toBe(1_199);
  });
});

describe('an archive with forged content', () => {
  it('sets no ids, users, roles, tokens, hooks or location', async () => {
    const owner = await app().make.user();
    const victim = await app().make.user();
    const other = await app().make.project({}, victim);
    const archive = await packProject(
      {
        issues: [
          {
            id: 1,
            iid: 1,
            title: 'Mine',
            project_id: other.id,
            author_id: victim.id,
            closed_by_id: victim.id,
            namespace_id: 1,
            issue_assignees: [{ user_id: victim.id }],
          },
        ],
        project_members: [
          {
            access_level: 50,
            user: { id: victim.id, username: victim.username, public_email: `${victim.username}@example.com` },
          },
          { access_level: 50, invite_email: 'me@example.com' },
        ],
        triggers: [{ token: 'cdbfasdf44a5958c83654733449e585' }],
        hooks: [{ url: 'http://127.0.0.1/', token: 'secret' }],
        protected_branches: [
          { name: 'main', push_access_levels: [{ user_id: victim.id }, { group_id: 1 }, { access_level: 50 }] },
        ],
        pipeline_schedules: [{ description: 'x', ref: 'main', cron: '* * * * *', active: true, owner_id: victim.id }],
        releases: [{ tag: 'v1', links: [{ name: 'x', url: 'javascript:alert(1)' }] }],
        ci_pipelines: [
          {
            iid: 1,
            status: 'running',
            ref: 'main',
            stages: [{ name: 's', builds: [{ name: 'b', status: 'running', token: 'x' }] }],
          },
        ],
      },
      {
        'tree/project.json': JSON.stringify({
          visibility_level: 20,
          creator_id: victim.id,
          namespace_id: 1,
          runners_token: 'leaked',
          import_url: 'http://127.0.0.1',
          path: 'other',
          id: 1,
        }),
      },
    );
    const params = {
      path: path(),
      'override_params[description]': 'Overridden',
      'override_params[visibility]': 'internal',
    };
    const hostile = {
      creator_id: String(victim.id),
      namespace_id: '1',
      runners_token: 'leaked-token',
      import_url: 'http://127.0.0.1',
    };
    const refused = await importArchive(app(), owner, archive, {
      ...params,
      ...Object.fromEntries(Object.entries(hostile).map(([name, value]) => [`override_params[${name}]`, value])),
    });
    expect([refused.status, refused.body]).toEqual([
      400,
      {
        message: Object.fromEntries(Object.keys(hostile).map((name) => [name, ['cannot be overridden by an import']])),
      },
    ]);
    const record = await runImport(app(), owner, archive, params);
    expect(record).toMatchObject({ import_status: 'finished', description: 'Overridden' });
    const { db } = app().hub.services;
    const project = await db.selectFrom('projects').selectAll().where('id', '=', record.id).executeTakeFirstOrThrow();
    expect(project).toMatchObject({
      creator_id: owner.id,
      visibility_level: 10,
      import_url: null,
      description: 'Overridden',
    });
    const full = (await app().as(owner).get(`/projects/${record.id}`)).body;
    expect(full.runners_token ?? '').not.toContain('leaked');
    const issue = await db
      .selectFrom('issues')
      .selectAll()
      .where('project_id', '=', record.id)
      .executeTakeFirstOrThrow();
    expect(issue).toMatchObject({ iid: 1, author_id: owner.id });
    expect(await db.selectFrom('issues').select('id').where('project_id', '=', other.id).execute()).toEqual([]);
    expect(await db.selectFrom('issue_assignees').select('user_id').where('issue_id', '=', issue.id).execute()).toEqual(
      [],
    );
    const members = await db
      .selectFrom('members')
      .select(['user_id', 'access_level'])
      .where('project_id', '=', record.id)
      .execute();
    expect(members).toEqual([{ user_id: owner.id, access_level: 40 }]);
    const { rows: levels } =
      await sql`select action, access_level, user_id, group_id from protection_levels l join protected_branches b on b.id = l.protected_branch_id where b.project_id = ${record.id} order by action`.execute(
        db,
      );
    expect(levels).toEqual([
      { action: 'merge', access_level: 40, user_id: null, group_id: null },
      { action: 'push', access_level: 40, user_id: null, group_id: null },
    ]);
    expect(await db.selectFrom('webhooks').select('id').execute()).toEqual([]);
    expect(
      await db
        .selectFrom('pipeline_schedules')
        .select(['active', 'owner_id'])
        .where('project_id', '=', record.id)
        .execute(),
    ).toEqual([{ active: false, owner_id: owner.id }]);
    expect(await db.selectFrom('release_links').select('url').execute()).toEqual([]);
    expect(await db.selectFrom('jobs').select('status').where('project_id', '=', record.id).execute()).toEqual([
      { status: 'canceled' },
    ]);
    // A later export contains none of it either.
    const tree = JSON.stringify(await readTree((await downloadExport(app(), owner, record.id)).bytes));
    for (const secret of ['leaked', 'cdbfasdf', 'javascript:']) expect(tree).not.toContain(secret);
  });

  it('creates no Owners for an administrator, and maps users only by confirmed addresses', async () => {
    const known = await app().make.user({ email: 'known@example.com' });
    await app().make.user({ email: 'unconfirmed@example.com', confirmed_at: null });
    await app().make.user({ email: 'blocked@example.com', state: 'blocked' });
    const member = (id: number, email: string, access_level = 50) => ({
      access_level,
      user: { id, public_email: email, username: 'root' },
    });
    const archive = await packProject({
      project_members: [
        member(7, 'Known@example.com'),
        member(8, 'unconfirmed@example.com'),
        member(9, 'blocked@example.com'),
        { access_level: 30, invite_email: 'new@example.com' },
        member(10, 'known@example.com', 99),
      ],
      issues: [
        { iid: 1, title: 'By the known', author_id: 7 },
        { iid: 2, title: 'By nobody', author_id: 8 },
      ],
    });
    const { id, failed_relations } = await runImport(app(), app().root, archive, { path: path() });
    expect(failed_relations).toMatchObject([{ relation_name: 'project_members', line_number: 4 }]);
    const { db } = app().hub.services;
    const members = await db
      .selectFrom('members')
      .select(['user_id', 'access_level'])
      .where('project_id', '=', id)
      .orderBy('id')
      .execute();
    expect(members).toEqual([
      { user_id: app().root.id, access_level: 40 },
      { user_id: known.id, access_level: 40 },
    ]);
    expect((await app().as(app().root).get(`/projects/${id}/invitations`)).body).toMatchObject([
      { invite_email: 'new@example.com', access_level: 30 },
    ]);
    const authors = await db
      .selectFrom('issues')
      .select('author_id')
      .where('project_id', '=', id)
      .orderBy('iid')
      .execute();
    expect(authors).toEqual([{ author_id: known.id }, { author_id: app().root.id }]);
  });

  it('gets no more visibility than its group', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'private' }, owner);
    const { id } = await runImport(app(), owner, await packProject(), { path: path(), namespace: String(group.id) });
    expect((await app().as(owner).get(`/projects/${id}`)).body.visibility).toBe('private');
  });
});
