import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { png } from '../support/pictures.ts';
import { packProject, readTree, unpackFiles } from './archive.ts';
import { downloadExport, fillProject, importArchive, runImport } from './support.ts';

const app = useApp();

const refsOf = async (projectId: number) => {
  const { services } = app().hub;
  const { disk_path } = await services.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', projectId)
    .executeTakeFirstOrThrow();
  return services.git.listRefs(disk_path, { prefix: 'refs/' });
};

describe('the journey of a project', () => {
  it('can be exported, imported and exported again with the same content', async () => {
    const author = await app().make.user({ public_email: 'author@example.com', email: 'author@example.com' });
    const root = app().root;
    const project = await app().make.project(
      { initialize_with_readme: true, description: 'Of the journey', visibility: 'internal' },
      root,
    );
    await app().make.projectMember(project, author, 30);
    // The merge request of this branch is inserted with an approval, which a later push would remove.
    const branch = await app()
      .as(root)
      .post(`/projects/${project.id}/repository/branches`, { branch: 'topic-1', ref: 'main' });
    expect(branch.status).toBe(201);
    await app().settle();
    await fillProject(app(), project.id, author);
    const group = await app().make.group({ visibility: 'public' }, root);
    await app().make.groupMember(group, author, 30);
    const rule = await app()
      .as(root)
      .post(`/projects/${project.id}/approval_rules`, { name: 'Group', approvals_required: 1, group_ids: [group.id] });
    expect(rule.status, JSON.stringify(rule.body)).toBe(201);

    const below = app().as(root);
    const trigger = (await below.post(`/projects/${project.id}/triggers`, { description: 'Nightly' })).body;
    await below.put(`/projects/${project.id}/error_tracking/settings`, { active: true, integrated: false });
    await below.post(`/projects/${project.id}/push_rule`, { branch_name_regex: '^topic-', max_file_size: 3 });
    const form = new FormData();
    form.set('file', new Blob(['content']), 'note.txt');
    const upload = (await below.post(`/projects/${project.id}/uploads`, form)).body;
    const picture = new FormData();
    picture.set('avatar', new Blob([new Uint8Array(png())]), 'picture.png');
    expect((await below.put(`/projects/${project.id}`, picture)).status).toBe(200);

    const first = await downloadExport(app(), root, project.id);
    expect(first.name).toMatch(/^\d{4}-\d\d-\d\d_\d\d-\d\d-\d{3}_root_.*_export\.tar\.gz$/);
    const started = await importArchive(app(), root, first.bytes, { path: 'arrived' });
    expect(started.status, JSON.stringify(started.body)).toBe(201);
    expect(started.body).toMatchObject({ path: 'arrived', import_status: 'scheduled', import_type: 'gitlab_project' });
    await app().settle();
    const { body } = await app().as(root).get(`/projects/${started.body.id}/import`);
    expect(body).toMatchObject({ import_status: 'finished', import_error: null, failed_relations: [] });

    const second = await downloadExport(app(), root, started.body.id);
    const [before, after] = [await readTree(first.bytes), await readTree(second.bytes)];
    expect(before).toMatchObject({
      approval_rules: [{ name: 'Group', groups: [{ full_path: group.full_path }] }],
      custom_attributes: [{ key: 'department', value: 'Mills' }],
      issues: [{ subscriptions: [{ user_id: author.id, subscribed: true }] }, {}, {}, {}, {}, {}, {}],
      ci_pipelines: [
        { stages: [{ builds: [{ tag_list: ['linux', 'a "b"'], needs: [{}, {}], erased_by_id: author.id }] }] },
        {},
      ],
      labels: [
        { archived: false, lock_on_merge: true, subscriptions: [{ user_id: author.id, subscribed: true }] },
        { archived: true, lock_on_merge: false, subscriptions: [{ user_id: author.id, subscribed: false }] },
      ],
      merge_requests: [
        {
          last_edited_by_id: author.id,
          merge_request_assignees: [{ user_id: author.id }],
          label_links: [{}, {}],
          award_emoji: [{ name: 'tada' }],
          timelogs: [{ time_spent: 60 }],
          merge_request_reviewers: [{ state: 'approved', created_at: expect.stringMatching(/^2026-02-01T/) }],
        },
        {},
      ],
    });
    for (const [relation, lines] of Object.entries(before)) {
      if (relation === 'project_members') continue;
      expect(after[relation], relation).toEqual(lines);
    }
    expect(Object.keys(after).sort()).toEqual(Object.keys(before).sort());
    // The importer is a member now, and the author was found by address.
    expect(after.project_members).toMatchObject([
      { user: { username: 'root' } },
      { access_level: 30, user: { username: author.username } },
    ]);

    // The trigger has a token of its own, and the upload its address.
    const [copied] = (await below.get(`/projects/${started.body.id}/triggers`)).body;
    expect(copied).toMatchObject({ description: 'Nightly', owner: { username: 'root' } });
    expect(copied.token).not.toBe(trigger.token);
    expect((await below.get(`/projects/${started.body.id}/push_rule`)).body).toMatchObject({
      branch_name_regex: '^topic-',
      max_file_size: 3,
    });
    const [, secret] = /uploads\/([0-9a-f]+)\/note\.txt/.exec(upload.url) ?? [];
    const file = await below.fetch('GET', `/projects/${started.body.id}/uploads/${secret}/note.txt`);
    expect([file.status, await file.text()]).toEqual([200, 'content']);

    const avatarOf = async (id: number) => {
      const { avatar_url } = (await below.get(`/projects/${id}`)).body;
      const shown = await fetch(avatar_url, { headers: { 'private-token': await app().tokenOf(root) } });
      return Buffer.from(await shown.arrayBuffer());
    };
    expect(await avatarOf(started.body.id)).toEqual(png());

    expect(await refsOf(started.body.id)).toEqual(await refsOf(project.id));
    const imported = (await app().as(root).get(`/projects/${started.body.id}`)).body;
    const original = (await app().as(root).get(`/projects/${project.id}`)).body;
    for (const name of [
      'description',
      'visibility',
      'default_branch',
      'open_issues_count',
      'topics',
      'merge_method',
      'build_timeout',
      'empty_repo',
      'readme_url',
    ])
      if (name !== 'readme_url') expect(imported[name], name).toEqual(original[name]);
    const { rows } =
      await sql`select kind, last_iid from project_counters where project_id = ${started.body.id} order by kind`.execute(
        app().hub.services.db,
      );
    expect(rows).toEqual([
      { kind: 'issue', last_iid: 7 },
      { kind: 'merge_request', last_iid: 2 },
      { kind: 'milestone', last_iid: 3 },
      { kind: 'pipeline', last_iid: 2 },
    ]);
  });

  it('emits events for the import, but none for each record', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await fillProject(app(), project.id, owner);
    const { bytes } = await downloadExport(app(), owner, project.id);
    // Only administrators know custom attributes.
    expect(await readTree(bytes)).not.toHaveProperty('custom_attributes');
    const { id } = await runImport(app(), owner, bytes, { path: 'quiet' });
    const { rows } = await sql<{ kind: string; payload: { percentage: number } }>`
      select kind, payload from events where project_id = ${id} order by id`.execute(app().hub.services.db);
    expect(new Set(rows.map((row) => row.kind))).toEqual(
      new Set(['project.created', 'import.scheduled', 'import.progressed', 'import.finished']),
    );
    const percentages = rows.filter((row) => row.kind.startsWith('import')).map((row) => row.payload.percentage);
    expect(percentages).toEqual([...percentages].sort((a, b) => a - b));
    expect(percentages.at(-1)).toBe(100);
    const emitted = rows.at(-1)?.payload;
    expect(emitted).toMatchObject({ relations: { issues: { done: 7, total: 7 }, labels: { done: 2, total: 2 } } });
  });

  it('leaves no file of the upload and no earlier export', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const { bytes } = await downloadExport(app(), owner, project.id);
    await downloadExport(app(), owner, project.id);
    await runImport(app(), owner, bytes, { path: 'clean' });
    await app().settle();
    const keys: string[] = [];
    for await (const { key } of app().hub.services.storage.list('')) keys.push(key);
    expect(keys.filter((key) => key.startsWith('tmp/'))).toEqual([]);
    expect(keys.filter((key) => key.startsWith(`exports/${project.id}/`))).toHaveLength(1);
  });
});

describe('an archive of another hub', () => {
  it('has its unknown keys reported once each, and only the first fifty of a relation', async () => {
    const owner = await app().make.user();
    const keys = Array.from({ length: 100_000 }, (_, n) => [`key${n}`, [1]] as const);
    const labels = Array.from({ length: 1_001 }, (_, n) => ({ title: `Label ${n}`, [n < 1_000 ? 'a' : 'b']: [1] }));
    const archive = await packProject({
      issues: [
        { iid: 1, title: 'Hostile', ...Object.fromEntries(keys) },
        { iid: 2, title: 'Further', later: [1] },
        { iid: 3, title: 'With a NUL', 'odd\0key': [1] },
      ],
      labels: [...labels, { title: 'Last', a: [1] }],
      milestones: [{ iid: 1, title: 'One', 'odd\0key': [1], 'back\\u0000slash': [1] }],
    });
    const record = await runImport(app(), owner, archive, { path: 'unknown-keys' });
    expect(record.import_status).toBe('finished');
    const failures: { relation_name: string; exception_message: string; line_number: number }[] =
      record.failed_relations;
    const messagesOf = (name: string) =>
      failures.flatMap((each) => (each.relation_name === name ? [each.exception_message] : [])).sort();
    expect(messagesOf('labels')).toEqual([
      'This hub does not know a of labels: they were left out',
      'This hub does not know b of labels: they were left out',
    ]);
    expect(messagesOf('milestones')).toEqual([
      'This hub does not know back\\u0000slash of milestones: they were left out',
      'This hub does not know oddkey of milestones: they were left out',
    ]);
    expect(messagesOf('issues')).toEqual(
      [
        ...keys.slice(0, 50).map(([key]) => `This hub does not know ${key} of issues: they were left out`),
        'This hub does not know more keys of issues than the 50 reported: they were left out',
      ].sort(),
    );
    expect((await app().as(owner).get(`/projects/${record.id}/issues`)).body).toHaveLength(3);
  });

  it('has its wiki, designs and LFS objects carried on, and reports what is left out', async () => {
    const owner = await app().make.user();
    const secret = await app().make.group({}, app().root);
    const lfs = `lfs-objects/${'a'.repeat(64)}`;
    const archive = await packProject(
      {
        boards: [{ name: 'Board' }, { name: 'Other' }],
        project_badges: [],
        requirements: [{ title: 'One' }, { title: 'Two' }],
        vulnerabilities: [],
        custom_attributes: [{ key: 'department', value: 'Mills' }],
        approval_rules: [{ name: 'Theirs', rule_type: 'regular', groups: [{ full_path: secret.full_path }] }],
        issues: [
          { iid: 1, title: 'Designed', designs: [{ filename: 'a.png' }], zoom_meetings: [] },
          { iid: 2, title: 'Designed', designs: [{ filename: 'b.png' }] },
        ],
        push_rule: [{ commit_message_regex: '(' }],
        error_tracking_setting: [{ enabled: true, api_url: 'https://errors.example.com', project_name: 'Sails' }],
      },
      {
        'project.wiki.bundle': 'a wiki',
        [lfs]: 'an object',
        'lfs-objects.json': '{}',
        'pages/index.html': 'left out',
        'notes.txt': 'left out',
        'avatar/picture.png': 'no picture',
        'uploads/not-a-secret/x.txt': 'left out',
      },
    );
    const record = await runImport(app(), owner, archive, { path: 'carried' });
    expect(record.import_status).toBe('finished');
    const failures: { relation_name: string; exception_message: string }[] = record.failed_relations;
    expect(Object.fromEntries(failures.map((each) => [each.relation_name, each.exception_message]))).toEqual({
      avatar: 'The avatar is not a PNG, JPEG, GIF or WebP picture: it was left out',
      'notes.txt': 'This hub does not know notes.txt: 1 item was left out',
      custom_attributes: 'Only administrators import custom attributes',
      error_tracking_setting:
        'This hub does not know api_url, project_name of error_tracking_setting: they were left out',
      issues: 'This hub does not know designs of issues: they were left out',
      pages: 'This hub does not know pages: 1 item was left out',
      push_rule: expect.any(String),
      requirements: 'This hub does not know requirements: 2 items were left out',
      uploads: 'This hub does not know uploads: 1 item was left out',
    });
    expect(failures).toHaveLength(9);
    const { rows: emitted } = await app().hub.services.pool.query(
      `select payload -> 'failed_relations' as failed from events
       where kind = 'import.finished' and subject_id = (select id from project_imports where project_id = $1)`,
      [record.id],
    );
    expect(emitted).toEqual([{ failed: 9 }]);
    const [rule] = (await app().as(owner).get(`/projects/${record.id}/approval_rules`)).body;
    expect(rule).toMatchObject({ name: 'Theirs', groups: [] });
    expect((await app().as(owner).get(`/projects/${record.id}/error_tracking/settings`)).body).toMatchObject({
      active: true,
      integrated: false,
    });
    const { bytes } = await downloadExport(app(), owner, record.id);
    const files = await unpackFiles(bytes);
    expect(String(files.get('project.wiki.bundle'))).toBe('a wiki');
    expect(String(files.get(lfs))).toBe('an object');
    expect(String(files.get('tree/project/boards.ndjson'))).toBe('{"name":"Board"}\n{"name":"Other"}\n');
    expect(files.has('tree/project/project_badges.ndjson')).toBe(false);
    await app().as(owner).delete(`/projects/${record.id}`);
    await app().as(owner).delete(`/projects/${record.id}?permanently_remove=true&full_path=${owner.username}/carried`);
    await app().settle();
    const keys: string[] = [];
    for await (const { key } of app().hub.services.storage.list('kept/')) keys.push(key);
    expect(keys).toEqual([]);
  });
});

describe('an archive of an older version', () => {
  it('has its pipelines numbered after those that have a number', async () => {
    const owner = await app().make.user();
    const pipeline = { ref: 'main', status: 'success', stages: [] };
    const archive = await packProject({ ci_pipelines: [pipeline, { ...pipeline, iid: 7 }, pipeline] });
    const imported = await runImport(app(), owner, archive, { path: 'unnumbered' });
    expect(imported.import_status).toBe('finished');
    const { body } = await app().as(owner).get(`/projects/${imported.id}/pipelines`);
    expect(body.map(({ iid }: { iid: number }) => iid).sort()).toEqual([7, 8, 9]);
  });
});
