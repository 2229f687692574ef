import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

// Lists cache the JSON of a record by row version and caller. No caller may get the record of another.

const app = useApp();

describe('the record of a project in a list', () => {
  it('matches the single record for each caller, whichever caller came first', async () => {
    const { make } = app();
    const [owner, guest, stranger, external] = [
      await make.user(),
      await make.user(),
      await make.user(),
      await make.user({ external: true }),
    ];
    const group = await make.group({ visibility: 'public' }, owner);
    const project = await make.project(
      { namespace_id: group.id, visibility: 'public', issues_access_level: 'private', topics: 'seen-by-each' },
      owner,
    );
    await make.projectMember(project, guest, 10);
    const clients = [owner, guest, stranger, external].map((user) => app().as(user));
    const all = [...clients, app().as(app().root), app().anonymous];
    const listed = async (client: Client, more = '') =>
      (await client.get(`/projects?topic=seen-by-each${more}`)).body.find(
        (each: { readonly id: number }) => each.id === project.id,
      );
    const alone = async (client: Client) => (await client.get(`/projects/${project.id}`)).body;
    const check = async () => {
      // Each record is read twice, so nothing earlier may still update `last_activity_at` in between.
      await app().settle();
      for (const client of [...all, ...all.toReversed()]) {
        const [one, other] = [await listed(client), await alone(client)];
        expect(other).toMatchObject(one);
      }
    };
    await check();
    const records = await Promise.all(all.map((client) => listed(client)));
    expect(records.map((each) => each.permissions?.project_access?.access_level)).toEqual([
      undefined,
      10,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(records.map((each) => each.permissions?.group_access?.access_level)[0]).toBe(50);
    expect(records.map((each) => 'issues' in (each._links ?? {}))).toEqual([true, true, false, false, true, false]);
    expect(records.map((each) => each.repository_storage)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      'default',
      undefined,
    ]);
    expect(await listed(app().as(owner), '&simple=true')).toEqual(await listed(app().anonymous));

    // Change data that is outside the row of the project.
    const { db } = app().hub.services;
    await app()
      .as(owner)
      .put(`/groups/${group.id}`, { name: `${group.path} anew` });
    expect((await listed(app().as(guest))).namespace.name).toBe(`${group.path} anew`);
    expect((await listed(app().anonymous)).name_with_namespace).toContain(`${group.path} anew`);
    await app().as(owner).put(`/projects/${project.id}`, { description: 'changed' });
    expect((await listed(app().as(guest))).description).toBe('changed');
    await sql`update members set access_level = 40 where user_id = ${guest.id} and project_id = ${project.id}`.execute(
      db,
    );
    expect((await listed(app().as(guest))).permissions.project_access.access_level).toBe(40);
    await sql`insert into project_imports (project_id, import_type, status, import_error)
      values (${project.id}, 'file', 'failed', 'nobody there')
      on conflict (project_id) do update set status = 'failed', import_error = 'nobody there'`.execute(db);
    expect(await listed(app().as(owner))).toMatchObject({ import_status: 'failed', import_error: 'nobody there' });
    expect((await listed(app().as(stranger))).import_error).toBeNull();
    const shared = await make.group({ visibility: 'public' }, owner);
    await sql`insert into project_shares (project_id, shared_with_id, access_level) values (${project.id}, ${shared.id}, 30)`.execute(
      db,
    );
    expect((await listed(app().as(stranger))).shared_with_groups).toMatchObject([{ group_id: shared.id }]);
    expect(Object.keys((await listed(app().as(owner))).shared_with_groups[0])).toEqual([
      'group_id',
      'group_name',
      'group_full_path',
      'group_access_level',
      'expires_at',
    ]);
    await sql`update project_shares set access_level = 20 where project_id = ${project.id}`.execute(db);
    await sql`update namespaces set visibility_level = 0 where id = ${shared.id}`.execute(db);
    expect((await listed(app().as(owner))).shared_with_groups).toMatchObject([{ group_access_level: 20 }]);
    expect((await listed(app().as(stranger))).shared_with_groups).toEqual([]);
    await check();
  });

  it('shows each auditor the rights that they have without being one', async () => {
    const { make } = app();
    const project = await make.project({ visibility: 'internal', topics: 'audited' });
    const auditors = [await make.user({ is_auditor: true }), await make.user({ is_auditor: true, external: true })];
    for (const turn of [auditors, auditors.toReversed()])
      for (const auditor of turn) {
        const [listed] = (await app().as(auditor).get('/projects?topic=audited')).body;
        expect(listed).toMatchObject({ id: project.id, can_create_merge_request_in: auditor === auditors[0] });
      }
  });

  it('is counted again after each commit', async () => {
    const { make } = app();
    const user = await make.user();
    const client = app().as(user);
    const total = async () => (await client.get('/projects?topic=counted-anew&per_page=1')).headers.get('x-total');
    for (let i = 1; i <= 4; i++) {
      const { id } = await make.project({ topics: 'counted-anew', visibility: 'private' }, user);
      expect([await total(), await total()]).toEqual([String(i), String(i)]);
      if (i === 4) {
        await app().hub.services.db.deleteFrom('projects').where('id', '=', id).execute();
        expect(await total()).toBe('3');
      }
    }
  });
});
