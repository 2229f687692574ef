import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { readTree } from './archive.ts';
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
    await fillProject(app(), project.id, author);
    const branch = await app()
      .as(root)
      .post(`/projects/${project.id}/repository/branches`, { branch: 'topic-1', ref: 'main' });
    expect(branch.status).toBe(201);

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
    const { id } = await runImport(app(), owner, bytes, { path: 'quiet' });
    const { rows } = await sql<{ kind: string; payload: { percentage: number } }>`
      select kind, payload from events where project_id = ${id} order by id`.execute(app().hub.services.db);
    expect(new Set(rows.map((row) => row.kind))).toEqual(
      new Set(['project.created', 'import.scheduled', 'import.progressed', 'import.finished']),
    );
    const percentages = rows.filter((row) => row.kind.startsWith('import')).map((row) => row.payload.percentage);
    expect(percentages).toEqual([...percentages].sort((a, b) => a - b));
    expect(percentages.at(-1)).toBe(100);
    const told = rows.at(-1)?.payload;
    expect(told).toMatchObject({ relations: { issues: { done: 7, total: 7 }, labels: { done: 2, total: 2 } } });
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
