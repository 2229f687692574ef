import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { downloadExport, fillProject, importArchive } from './support.ts';

const app = useApp();

describe('the journey of a project', () => {
  it('is exported, downloaded and imported elsewhere', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true, description: 'Of the journey' }, owner);
    await fillProject(app(), project.id, owner);
    const archive = await downloadExport(app(), owner, project.id);
    expect(archive.name).toMatch(/^\d{4}-\d\d-\d\d_\d\d-\d\d-\d{3}_.*_export\.tar\.gz$/);
    const started = await importArchive(app(), owner, archive.bytes, { path: 'arrived' });
    expect(started.status, JSON.stringify(started.body)).toBe(201);
    expect(started.body).toMatchObject({ path: 'arrived', import_status: 'scheduled', import_type: 'gitlab_project' });
    await app().settle();
    const { body } = await app().as(owner).get(`/projects/${started.body.id}/import`);
    expect(body).toMatchObject({ import_status: 'finished', import_error: null, failed_relations: [] });
  });
});
