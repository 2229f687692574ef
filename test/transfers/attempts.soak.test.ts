import { once } from 'node:events';
import { createServer } from 'node:http';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { runExport } from '#domains/transfers/exporting/run.ts';
import { runImport } from '#domains/transfers/importing/run.ts';
import { endAbandoned, removeExpired } from '#domains/transfers/jobs.ts';
import { useApp } from '../support/app.ts';
import { packProject } from './archive.ts';
import { importArchive } from './support.ts';

// No workers run here, because the tests run the jobs themselves.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });
const run = { attempt: 1, lastAttempt: false };

const importOf = (projectId: number) =>
  app()
    .hub.services.db.selectFrom('project_imports')
    .selectAll()
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow();
const count = async (table: string, projectId: number) =>
  (
    await sql<{ n: number }>`select count(*) as n from ${sql.table(table)} where project_id = ${projectId}`.execute(
      app().hub.services.db,
    )
  ).rows[0]?.n;
const issues = (n: number) =>
  Array.from({ length: n }, (_, index) => ({
    iid: index + 1,
    title: `Issue ${index + 1}`,
    notes: [{ note: 'A note' }],
  }));

describe('an importer', () => {
  const lines = {
    issues: [{ iid: 1, title: 'One', author_id: 5 }],
    project_members: [{ access_level: 30, user_id: 5, user: { id: 5, username: 'x', public_email: '' } }],
  };

  it('imports nothing if they are blocked before the import starts', async () => {
    const owner = await app().make.user();
    const { body } = await importArchive(app(), owner, await packProject(lines), { path: 'blocked' });
    const { db } = app().hub.services;
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', owner.id).execute();
    await runImport(app().context(), (await importOf(body.id)).id, run);
    expect(await importOf(body.id)).toMatchObject({
      status: 'failed',
      import_error: 'The account of the user who started the import is no longer active.',
    });
    expect(await count('issues', body.id)).toBe(0);
  });

  it('imports everything in their own name if they are no longer an administrator', async () => {
    const admin = await app().make.user();
    const other = await app().make.user();
    const { db } = app().hub.services;
    await db.updateTable('users').set({ is_admin: true }).where('id', '=', admin.id).execute();
    const { email } = await db.selectFrom('users').select('email').where('id', '=', other.id).executeTakeFirstOrThrow();
    const [member] = lines.project_members;
    const archive = await packProject({
      ...lines,
      project_members: [{ ...member, user: { id: 5, username: 'x', public_email: email } }],
    });
    const authors = async (path: string, demote: boolean) => {
      const { body } = await importArchive(app(), admin, archive, { path });
      if (demote) await db.updateTable('users').set({ is_admin: false }).where('id', '=', admin.id).execute();
      await runImport(app().context(), (await importOf(body.id)).id, run);
      const rows = await db.selectFrom('issues').select('author_id').where('project_id', '=', body.id).execute();
      return rows.map(({ author_id }) => author_id);
    };
    expect(await authors('as-admin', false)).toEqual([other.id]);
    expect(await authors('demoted', true)).toEqual([admin.id]);
  });
});

describe('a worker that was wrongly declared dead', () => {
  it('cannot write to an import that another worker has taken over', async () => {
    const owner = await app().make.user();
    const { body } = await importArchive(app(), owner, await packProject({ issues: issues(5_000) }), {
      path: 'fenced',
    });
    const { id } = await importOf(body.id);
    const first = runImport(app().context(), id, run);
    while ((await count('issues', body.id)) === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await Promise.all([first, runImport(app().context(), id, run)]);
    const counts = { issue: 5_000, note: 5_000 };
    expect(await importOf(body.id)).toMatchObject({
      status: 'finished',
      attempt: 2,
      percentage: 100,
      stats: { fetched: counts, imported: counts },
    });
    expect(await count('issues', body.id)).toBe(5_000);
    expect(await count('notes', body.id)).toBe(5_000);
    expect(await count('import_failures', body.id)).toBe(0);
  });

  it('leaves no file of an export that another worker has taken over', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await app().as(owner).post(`/projects/${project.id}/export`);
    const { services } = app().hub;
    const { id } = await services.db
      .selectFrom('project_exports')
      .select('id')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    await Promise.all([1, 2, 3].map(() => runExport(app().context(), id, run)));
    const row = await services.db
      .selectFrom('project_exports')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ status: 'finished', attempt: 3 });
    const keys: string[] = [];
    for await (const { key } of services.storage.list(`exports/${project.id}/`)) keys.push(key);
    expect(keys).toEqual([row.storage_key]);
  });
});

describe('an export whose worker dies during the upload', () => {
  const exporting = async (url: string) => {
    const { services } = app().hub;
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await app().as(owner).post(`/projects/${project.id}/export`, { upload: { url } });
    const rowOf = () =>
      services.db
        .selectFrom('project_exports')
        .selectAll()
        .where('project_id', '=', project.id)
        .executeTakeFirstOrThrow();
    const keys = async () => {
      const found: string[] = [];
      for await (const { key } of services.storage.list(`exports/${project.id}/`)) found.push(key);
      return found;
    };
    return { owner, project, rowOf, keys, id: (await rowOf()).id };
  };

  it('is only uploaded again, and leaves no file if it is canceled', async () => {
    const root = app().as(app().root);
    await root.put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    let whenAsked: (() => void) | null = null;
    const server = createServer((request, response) => {
      // The worker dies while it waits for the answer.
      if (whenAsked) whenAsked();
      else request.resume().on('end', () => response.writeHead(200).end());
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/archive`;
    const died = async (id: number) => {
      const asked = new Promise<void>((resolve) => {
        whenAsked = resolve;
      });
      const stop = new AbortController();
      const attempt = runExport({ ...app().context(), signal: stop.signal }, id, run);
      await asked;
      stop.abort(new Error('the worker stops'));
      await expect(attempt).rejects.toThrow();
      whenAsked = null;
    };
    try {
      const { owner, project, rowOf, keys, id } = await exporting(url);
      await died(id);
      const between = await rowOf();
      expect(between).toMatchObject({ status: 'started', storage_key: expect.any(String), finished_at: null });
      expect(await keys()).toEqual([between.storage_key]);
      const path = `/projects/${project.id}/export`;
      expect((await app().as(owner).get(path)).body).toMatchObject({ export_status: 'started' });
      expect((await app().as(owner).get(`${path}/download`)).status).toBe(404);
      await runExport(app().context(), id, run);
      expect(await rowOf()).toMatchObject({
        status: 'finished',
        attempt: 2,
        storage_key: between.storage_key,
        relations: between.relations,
        error: null,
      });
      expect((await app().as(owner).get(`${path}/download`)).status).toBe(200);

      const other = await exporting(url);
      await died(other.id);
      const { storage_key } = await other.rowOf();
      expect((await app().as(other.owner).post(`/projects/${other.project.id}/export/cancel`)).status).toBe(201);
      expect(await other.rowOf()).toMatchObject({ status: 'failed', storage_key: null, size: null });
      const { rows } = await sql<{ payload: unknown }>`
        select payload from graphile_worker._private_jobs where payload::text like ${`%${storage_key}%`}`.execute(
        app().hub.services.db,
      );
      expect(rows).toHaveLength(1);
    } finally {
      server.closeAllConnections();
      server.close();
      await root.put('/application/settings', { allow_local_requests_from_web_hooks_and_services: false });
    }
  });
});

describe('abandoned work', () => {
  it('is ended with a reason', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const { body } = await importArchive(app(), owner, await packProject(), { path: 'abandoned' });
    const waiting = await importArchive(app(), owner, await packProject(), { path: 'waiting' });
    await app().as(owner).post(`/projects/${project.id}/export`);
    const { services } = app().hub;
    const { id } = await importOf(body.id);
    await sql`delete from graphile_worker._private_jobs where key = ${`transfers.import:${id}`} or key like 'transfers.export:%'`.execute(
      services.db,
    );
    await endAbandoned.run(app().context(), {}, run);
    expect((await importOf(body.id)).status).toBe('scheduled');
    await sql`update project_imports set created_at = now() - interval '1 hour'`.execute(services.db);
    await sql`update project_exports set created_at = now() - interval '1 hour'`.execute(services.db);
    await endAbandoned.run(app().context(), {}, run);
    const record = (await app().as(owner).get(`/projects/${body.id}/import`)).body;
    expect(record).toMatchObject({
      import_status: 'failed',
      import_error: 'The job failed after several attempts.',
    });
    expect((await app().as(owner).get(`/projects/${project.id}/export`)).body.export_status).toBe('none');
    expect((await importOf(waiting.body.id)).status).toBe('scheduled');
    const { rows } = await sql`select 1 from graphile_worker.jobs where task_identifier = 'files.remove'`.execute(
      services.db,
    );
    expect(rows.length).toBeGreaterThan(0);
  });

  it('is ended after its last attempt if something keeps failing', async () => {
    const owner = await app().make.user();
    const { body } = await importArchive(app(), owner, await packProject(), { path: 'last' });
    const { id } = await importOf(body.id);
    const ctx = app().context();
    const broken = {
      ...ctx,
      services: {
        ...ctx.services,
        storage: { ...ctx.services.storage, read: () => Promise.reject(new Error('the disk is away')) },
      },
    };
    await expect(runImport(broken, id, run)).rejects.toThrow('the disk is away');
    expect((await importOf(body.id)).status).toBe('started');
    await runImport(broken, id, { attempt: 6, lastAttempt: true });
    expect(await importOf(body.id)).toMatchObject({
      status: 'failed',
      import_error: 'The import could not be completed.',
    });
    // The archive is not at fault, so the import can be retried for a while.
    expect((await app().as(owner).post(`/projects/${body.id}/import/retry`)).status).toBe(201);
    await runImport(ctx, id, run);
    expect(await importOf(body.id)).toMatchObject({ status: 'finished', import_error: null, storage_key: null });
  });
});

describe('an exported file', () => {
  it('expires', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await app().as(owner).post(`/projects/${project.id}/export`);
    const { services } = app().hub;
    const { id } = await services.db
      .selectFrom('project_exports')
      .select('id')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    await runExport(app().context(), id, run);
    expect((await app().as(owner).get(`/projects/${project.id}/export`)).body.export_status).toBe('finished');
    await services.db
      .updateTable('project_exports')
      .set({ expires_at: sql`now() - interval '1 second'` })
      .where('id', '=', id)
      .execute();
    expect((await app().as(owner).get(`/projects/${project.id}/export`)).body.export_status).toBe('none');
    expect((await app().as(owner).get(`/projects/${project.id}/export/download`)).status).toBe(404);
    await removeExpired.run(app().context(), {}, run);
    const row = await services.db
      .selectFrom('project_exports')
      .select('storage_key')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row.storage_key).toBeNull();
  });

  it('is refused above the size limit', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const { services } = app().hub;
    await sql`insert into issues (project_id, iid, title, description)
      select ${sql.lit(project.id)}, n, 'x', (select string_agg(md5(random()::text), '') from generate_series(1, 60) where n > 0) from generate_series(1, 1500) n`.execute(
      services.db,
    );
    await app().as(app().root).put('/application/settings', { max_export_size: 1 });
    await app().as(owner).post(`/projects/${project.id}/export`);
    const { id } = await services.db
      .selectFrom('project_exports')
      .select('id')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    await runExport(app().context(), id, run);
    const row = await services.db
      .selectFrom('project_exports')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({
      status: 'failed',
      error: 'The export is larger than the limit of 1 MiB (max_export_size).',
    });
  });
});
