import { sql } from 'kysely';
import { afterEach, describe, expect, it } from 'vitest';
import { deleteInactiveProjects } from '#domains/projects/jobs.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { mailsTo } from '../support/mails.ts';

const app = useApp();
const db = () => app().hub.services.db;
const set = async (settings: Record<string, unknown>) =>
  expect((await app().as(app().root).put('/application/settings', settings)).status).toBe(200);
const night = async () => {
  await deleteInactiveProjects.run(app().context(), {}, { attempt: 1, lastAttempt: false });
  await app().settle();
};
const inactiveFor = async (id: number, months: number) => {
  // Events of its creation must not count as activity afterwards.
  await app().settle();
  await sql`update projects set last_activity_at = now() - make_interval(months => ${months}, days => 1)
    where id = ${id}`.execute(db());
};
/** As if the warning had been sent, and the last activity been, so many months earlier. */
const later = async (id: number, months: number) => {
  await sql`update inactivity_warnings set warned_at = warned_at - make_interval(months => ${months}),
    delete_at = delete_at - make_interval(months => ${months}), last_activity_at = last_activity_at - make_interval(months => ${months}) where project_id = ${id}`.execute(
    db(),
  );
  await sql`update projects set last_activity_at = last_activity_at - make_interval(months => ${months})
    where id = ${id}`.execute(db());
};
const warnings = async ({ username }: TestUser) =>
  (await mailsTo(app(), `${username}@example.com`)).filter(({ subject }) => subject.includes('inactivity'));
const marked = async (id: number) =>
  (await app().as(app().root).get(`/projects/${id}`)).body.marked_for_deletion_on ?? null;

afterEach(() =>
  set({
    delete_inactive_projects: false,
    inactive_projects_delete_after_months: 2,
    inactive_projects_send_warning_email_after_months: 1,
    inactive_projects_min_size_mb: 0,
    deletion_adjourned_period: 0,
  }),
);

describe('delete_inactive_projects', () => {
  it('warns the Owners first, and deletes a project that stays inactive as any other', async () => {
    await set({ deletion_adjourned_period: 7, inactive_projects_delete_after_months: 4 });
    const { make } = app();
    const [owner, maintainer] = [await make.user(), await make.user()];
    const group = await make.group({}, owner);
    const project = await make.project({ namespace_id: group.id }, owner);
    const busy = await make.project({ namespace_id: group.id }, owner);
    await make.projectMember(project, maintainer, 40);
    // It has been inactive for much longer than until the deletion, but nobody was warned.
    await inactiveFor(project.id, 12);
    await night();
    expect(await warnings(owner)).toEqual([]);
    await set({ delete_inactive_projects: true });
    await night();
    await night();
    const [mail, ...more] = await warnings(owner);
    expect([mail?.subject, mail?.text, more]).toEqual([
      `The project ${project.path_with_namespace} will be deleted for inactivity`,
      expect.stringMatching(/deleted on \d{4}-\d\d-\d\d or soon after/),
      [],
    ]);
    expect(await warnings(maintainer)).toEqual([]);
    await later(project.id, 2);
    await night();
    expect(await marked(project.id)).toBeNull();
    await later(project.id, 1);
    await night();
    expect(await marked(project.id)).toMatch(/^\d{4}-/);
    expect(await marked(busy.id)).toBeNull();
    await set({ deletion_adjourned_period: 0 });
    const other = await make.project({}, owner);
    await inactiveFor(other.id, 1);
    await night();
    await later(other.id, 3);
    await night();
    expect((await app().as(app().root).get(`/projects/${other.id}`)).status).toBe(404);
  });

  it('never deletes a project that became active after the warning', async () => {
    await set({ delete_inactive_projects: true });
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await inactiveFor(project.id, 1);
    await night();
    await later(project.id, 1);
    // Activity counts even while it is not followed yet.
    await db()
      .transaction()
      .execute(async (tx) => {
        await sql`select from event_cursors where name = 'projects.activity' for update`.execute(tx);
        expect((await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'x' })).status).toBe(201);
        await deleteInactiveProjects.run(app().context(), {}, { attempt: 1, lastAttempt: false });
      });
    await app().settle();
    expect((await app().as(owner).get(`/projects/${project.id}`)).status).toBe(200);
    await night();
    expect(await marked(project.id)).toBeNull();
    // The next warning starts the time anew.
    await inactiveFor(project.id, 5);
    await night();
    await night();
    expect([await marked(project.id), (await warnings(owner)).length]).toEqual([null, 2]);
    // So does turning the setting off and on.
    await later(project.id, 1);
    await set({ delete_inactive_projects: false });
    await night();
    await set({ delete_inactive_projects: true });
    await night();
    expect([await marked(project.id), (await warnings(owner)).length]).toEqual([null, 3]);
  });

  it('keeps the day of the warning, and needs an Owner who gets it', async () => {
    const owner = await app().make.user();
    const [project, silent] = [await app().make.project({}, owner), await app().make.project({}, owner)];
    await inactiveFor(project.id, 1);
    await set({ delete_inactive_projects: true, inactive_projects_delete_after_months: 4 });
    await night();
    expect(await warnings(owner)).toHaveLength(1);
    await set({ inactive_projects_delete_after_months: 2 });
    await later(project.id, 2);
    await night();
    expect((await app().as(owner).get(`/projects/${project.id}`)).status).toBe(200);
    await later(project.id, 1);
    await night();
    expect((await app().as(owner).get(`/projects/${project.id}`)).status).toBe(404);
    await inactiveFor(silent.id, 3);
    await set({ silent_mode_enabled: true });
    await night();
    await set({ silent_mode_enabled: false });
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', owner.id).execute();
    await night();
    const { rows } = await sql`select from inactivity_warnings where project_id = ${silent.id}`.execute(db());
    expect(rows).toEqual([]);
  });

  it('spares small projects', async () => {
    await set({ delete_inactive_projects: true, inactive_projects_min_size_mb: 2 });
    const owner = await app().make.user();
    const [small, large] = [await app().make.project({}, owner), await app().make.project({}, owner)];
    for (const { id } of [small, large]) await inactiveFor(id, 1);
    await db()
      .updateTable('project_statistics')
      .set({ repository_size: 1024 * 1024, uploads_size: 1024 * 1024 })
      .where('project_id', '=', large.id)
      .execute();
    // More bytes than fit into 32 bits.
    await set({ inactive_projects_min_size_mb: 4_096 });
    await night();
    expect(await warnings(owner)).toEqual([]);
    await set({ inactive_projects_min_size_mb: 2 });
    await night();
    expect((await warnings(owner)).map(({ subject }) => subject)).toEqual([
      `The project ${large.path_with_namespace} will be deleted for inactivity`,
    ]);
  });
});
