import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { createForPush, findPushed } from '#domains/ci/creation/pushes.ts';
import { createMilestone } from '#domains/milestones/commands.ts';
import { getProject } from '#domains/projects/queries.ts';
import { holdPush, settlePush } from '#domains/repositories/pushes.ts';
import { retryImport } from '#domains/transfers/control.ts';
import { runExport } from '#domains/transfers/exporting/run.ts';
import { runImport } from '#domains/transfers/importing/run.ts';
import { removeExpired } from '#domains/transfers/jobs.ts';
import { runRelationImport } from '#domains/transfers/relation-imports/run.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { untilBlocked } from '../support/locks.ts';
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
const scheduled = async (user: TestUser, path: string) => {
  const issues = Array.from({ length: 3_000 }, (_, n) => ({ iid: n + 1, title: `Issue ${n}` }));
  const { body } = await importArchive(app(), user, await packProject({ issues }), { path });
  return { ...body, ...(await importOf(body.id)), projectId: body.id };
};
const control = (user: TestUser, name: string, projectPath: string) =>
  app()
    .as(user)
    .graphql(
      `mutation ($input: ${name[0]?.toUpperCase()}${name.slice(1)}Input!) { ${name}(input: $input) { project { id } errors } }`,
      {
        input: { projectPath },
      },
    );

describe('an import', () => {
  it('is canceled while it runs, retried from where it stopped, and removed when it expires', async () => {
    const owner = await app().make.user();
    const { projectId, id, path_with_namespace: path } = await scheduled(owner, 'stopped');
    const base = `/projects/${projectId}`;
    const { db } = app().hub.services;
    const issues = async () =>
      (await sql<{ n: number }>`select count(*) as n from issues where project_id = ${projectId}`.execute(db)).rows[0]
        ?.n;
    expect((await app().as(owner).post(`${base}/import/retry`)).status).toBe(409);
    // The third batch of lines is never written, because the import is canceled before it.
    const ctx = app().context();
    let batches = 0;
    const canceling = {
      ...ctx,
      transaction: async <T>(work: Parameters<typeof ctx.transaction<T>>[0]): Promise<T> => {
        const result = await ctx.transaction(work);
        if ((await issues()) === 1_000 && ++batches === 1)
          expect((await app().as(owner).post(`${base}/import/cancel`)).status).toBe(201);
        return result;
      },
    };
    await runImport(canceling, id, run);
    expect(await issues()).toBe(1_000);
    expect((await app().as(owner).get(`${base}/import`)).body).toMatchObject({
      import_status: 'failed',
      import_error: 'The import was canceled.',
    });
    expect((await app().as(owner).post(`${base}/import/cancel`)).status).toBe(409);
    // Earlier versions did not store the numbers of the archive.
    const { checkpoint } = await importOf(projectId);
    await sql`update project_imports set checkpoint = checkpoint - 'numbers' where id = ${id}`.execute(db);
    const unknown = 'an earlier version of the hub began this import';
    expect(await app().as(owner).post(`${base}/import/retry`)).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining(unknown) },
    });
    const { data } = await control(owner, 'projectImportRetry', path);
    expect(data.projectImportRetry.errors).toEqual([expect.stringContaining('then delete this one')]);
    expect((await importOf(projectId)).status).toBe('failed');
    await db
      .updateTable('project_imports')
      .set({ checkpoint: JSON.stringify(checkpoint) })
      .where('id', '=', id)
      .execute();
    expect((await control(owner, 'projectImportRetry', path)).data.projectImportRetry.errors).toEqual([]);
    // Its pace counts from the retry.
    expect(await importOf(projectId)).toMatchObject({ status: 'scheduled', started_at: null });
    await runImport(ctx, id, run);
    expect(await importOf(projectId)).toMatchObject({ status: 'finished', stats: { imported: { issue: 3_000 } } });
    expect(await issues()).toBe(3_000);

    const other = await scheduled(owner, 'expiring');
    expect(
      (await control(owner, 'projectImportCancel', other.path_with_namespace)).data.projectImportCancel.errors,
    ).toEqual([]);
    await sql`update project_imports set finished_at = now() - interval '25 hours' where id = ${other.id}`.execute(db);
    await removeExpired.run(ctx, {}, run);
    expect((await importOf(other.projectId)).storage_key).toBeNull();
    const gone = await app().as(owner).post(`/projects/${other.projectId}/import/retry`);
    expect([gone.status, gone.body.message]).toEqual([
      409,
      expect.stringContaining('the archive of the import is gone'),
    ]);
  });

  it('respects changes of its project while it ran', async () => {
    const owner = await app().make.user();
    const closed = await app().make.group({ visibility: 'private' }, owner);
    const open = await app().make.group({ visibility: 'public' }, owner);
    const archive = await packProject({ issues: [{ iid: 1, title: 'One' }] });
    /** Imports the archive, and makes the request between two steps of the import. */
    const imported = async (
      fields: Readonly<Record<string, string>>,
      meanwhile: (projectId: number) => Promise<{ readonly status: number }>,
      bytes = archive,
    ) => {
      const { body } = await importArchive(app(), owner, bytes, fields);
      const ctx = app().context();
      let steps = 0;
      const interrupted = {
        ...ctx,
        transaction: async <T>(work: Parameters<typeof ctx.transaction<T>>[0]): Promise<T> => {
          const result = await ctx.transaction(work);
          if (++steps === 1) expect((await meanwhile(body.id)).status).toBeLessThan(300);
          return result;
        },
      };
      await runImport(interrupted, (await importOf(body.id)).id, run);
      expect(await importOf(body.id)).toMatchObject({ status: 'finished' });
      return (await app().as(owner).get(`/projects/${body.id}`)).body;
    };
    const as = app().as(owner);
    const moved = await imported({ path: 'moved' }, (id) =>
      as.put(`/projects/${id}/transfer`, { namespace: closed.id }),
    );
    expect(moved).toMatchObject({ visibility: 'private', namespace: { id: closed.id } });
    const enclosed = await imported({ path: 'enclosed', namespace: `${open.id}` }, () =>
      as.put(`/groups/${open.id}`, { visibility: 'private' }),
    );
    expect(enclosed).toMatchObject({ visibility: 'private' });
    const old = await app().make.project({}, owner);
    const successor = await imported({ path: old.path, overwrite: 'true' }, () =>
      as.put(`/projects/${old.id}`, { name: 'elsewhere', path: 'elsewhere' }),
    );
    expect(successor).toMatchObject({ path: old.path, visibility: 'public' });
    expect((await as.get(`/projects/${old.id}`)).body).toMatchObject({ path: 'elsewhere' });
    // Only the labels of the groups that contain the project now are matched.
    await as.post(`/groups/${closed.id}/labels`, { name: 'bug', color: '#ff0000' });
    const label = { title: 'bug', type: 'GroupLabel', color: '#00ff00' };
    const labeled = await packProject({ issues: [{ iid: 1, title: 'One', label_links: [{ label }] }] });
    const left = await imported(
      { path: 'left', namespace: `${closed.id}` },
      (id) => as.put(`/projects/${id}/transfer`, { namespace: open.id }),
      labeled,
    );
    expect((await as.get(`/projects/${left.id}/labels`)).body).toMatchObject([{ name: 'bug', is_project_label: true }]);
    expect((await as.get(`/projects/${left.id}/issues?with_labels_details=true`)).body).toMatchObject([
      { labels: [{ name: 'bug', color: '#00ff00' }] },
    ]);
    const laidAway = await imported({ path: 'laid-away' }, (id) => as.post(`/projects/${id}/archive`));
    expect(laidAway).toMatchObject({ visibility: 'public', archived: true });
  });

  it('refuses exports and new items of its project until it ends, and keeps its numbers if it is canceled', async () => {
    const owner = await app().make.user();
    const { projectId, id, path_with_namespace: projectPath } = await scheduled(owner, 'coming');
    const as = app().as(owner);
    const base = `/projects/${projectId}`;
    const refused = { status: 409, body: { message: '409 Conflict - the project is being imported' } };
    expect(await as.post(`${base}/export`)).toMatchObject(refused);
    const exported = await control(owner, 'projectExport', projectPath);
    expect(exported.data.projectExport.errors).toEqual(['the project is being imported']);
    expect(await as.post(`${base}/issues`, { title: 'Mine' })).toMatchObject(refused);
    expect(await as.post(`${base}/issues`, { title: 'Mine', iid: 7 })).toMatchObject(refused);
    expect(await as.post(`${base}/milestones`, { title: 'Mine' })).toMatchObject(refused);
    const ctx = app().context();
    let steps = 0;
    const canceling = {
      ...ctx,
      transaction: async <T>(work: Parameters<typeof ctx.transaction<T>>[0]): Promise<T> => {
        const result = await ctx.transaction(work);
        const { relations } = await importOf(projectId);
        if (JSON.stringify(relations).includes('500') && ++steps === 1)
          expect((await as.post(`${base}/import/cancel`)).status).toBe(201);
        return result;
      },
    };
    await runImport(canceling, id, run);
    expect((await as.get(base)).body).toMatchObject({ import_status: 'failed', open_issues_count: 500 });
    // A retry brings the others.
    expect((await as.post(`${base}/issues`, { title: 'Mine' })).body).toMatchObject({ iid: 3_001 });
    expect((await as.post(`${base}/export`)).status).toBe(202);
    const exporting = { status: 409, body: { message: '409 Conflict - an export of the project is running' } };
    expect(await as.post(`${base}/import/retry`)).toMatchObject(exporting);
    const { data } = await control(owner, 'projectImportRetry', projectPath);
    expect(data.projectImportRetry.errors).toEqual(['an export of the project is running']);
    expect((await importOf(projectId)).status).toBe('failed');
    await as.post(`${base}/export/cancel`);

    // A push that began before the retry gets its pipeline after it.
    const file = { branch: 'main', content: 'check: {script: [x]}', commit_message: 'Check' };
    expect((await as.post(`${base}/repository/files/.gitlab-ci.yml`, file)).status).toBe(201);
    const [pushed] = await findPushed(
      ctx,
      sql`events.kind = 'repository.updated' and events.project_id = ${projectId}`,
    );
    if (!pushed) throw new Error('the push has no event');
    expect((await as.post(`${base}/import/retry`)).status).toBe(201);
    const push = await as.post(`${base}/repository/files/more.txt`, file);
    expect(push).toMatchObject({ status: 409, body: { message: expect.stringContaining('still being imported') } });
    await expect(createForPush.run(ctx, pushed.input, run)).rejects.toThrow('the project is being imported');
    await runImport(ctx, id, run);
    await createForPush.run(ctx, pushed.input, run);
    expect((await as.get(`${base}/pipelines`)).body).toMatchObject([{ source: 'push' }]);
    expect(await importOf(projectId)).toMatchObject({ status: 'finished', failures: 0 });
    expect((await as.get(base)).body).toMatchObject({ open_issues_count: 3_001 });
    expect((await as.get(`${base}/issues/3001`)).body).toMatchObject({ title: 'Mine' });
  });

  it('is not retried over what the project has got before its archive was read', async () => {
    const owner = await app().make.user();
    const as = app().as(owner);
    const canceled = async (path: string) => {
      const { projectId, path_with_namespace } = await scheduled(owner, path);
      expect((await as.post(`/projects/${projectId}/import/cancel`)).status).toBe(201);
      return { id: projectId, base: `/projects/${projectId}`, path: path_with_namespace };
    };
    const refused = { status: 409, body: { message: expect.stringContaining('commits or items of its own') } };
    const filled = await canceled('filled');
    await as.post(`${filled.base}/issues`, { title: 'Mine' });
    expect(await as.post(`${filled.base}/import/retry`)).toMatchObject(refused);
    const { data } = await control(owner, 'projectImportRetry', filled.path);
    expect(data.projectImportRetry.errors).toEqual([expect.stringContaining('commits or items of its own')]);

    const pushed = await canceled('pushed');
    const ctx = app().context(owner);
    const project = await getProject(ctx, { id: pushed.id });
    const push = await holdPush(ctx, project, [{ ref: 'refs/heads/main', oldOid: null, newOid: 'a'.repeat(40) }]);
    expect(await as.post(`${pushed.base}/import/retry`)).toMatchObject({
      status: 409,
      body: { message: '409 Conflict - somebody is pushing to the project; try again' },
    });
    await settlePush(ctx.services, push.id);
    const file = { branch: 'main', content: 'mine', commit_message: 'Mine' };
    expect((await as.post(`${pushed.base}/repository/files/mine.txt`, file)).status).toBe(201);
    expect(await as.post(`${pushed.base}/import/retry`)).toMatchObject(refused);
    expect((await as.get(`${pushed.base}/repository/files/mine.txt/raw?ref=main`)).body).toBe('mine');
  });

  it('waits for a number that an item is taking when it is retried, and the other way round', async () => {
    const owner = await app().make.user();
    const as = app().as(owner);
    const { projectId } = await scheduled(owner, 'racing');
    const base = `/projects/${projectId}`;
    await as.post(`${base}/import/cancel`);
    const ctx = app().context(owner);
    /** A context whose transactions commit only after `meanwhile`. */
    const holding = (meanwhile: () => Promise<unknown>) => ({
      ...ctx,
      transaction: <T>(work: Parameters<typeof ctx.transaction<T>>[0]): Promise<T> =>
        ctx.transaction(async (tx) => {
          const result = await work(tx);
          await meanwhile();
          return result;
        }),
    });
    const project = await getProject(ctx, { id: projectId });

    // A retry has read the counters, but has not committed.
    let creating: ReturnType<typeof as.post> | undefined;
    await retryImport(
      holding(() => {
        creating = as.post(`${base}/milestones`, { title: 'Mine' });
        return untilBlocked(app());
      }),
      project,
    );
    expect(await creating).toMatchObject({
      status: 409,
      body: { message: '409 Conflict - the project is being imported' },
    });
    await as.post(`${base}/import/cancel`);

    // A milestone has its number, but is not committed.
    let retrying: ReturnType<typeof as.post> | undefined;
    await createMilestone(
      holding(() => {
        retrying = as.post(`${base}/import/retry`);
        return untilBlocked(app());
      }),
      { kind: 'project', project },
      { title: 'Mine' },
    );
    expect(await retrying).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('commits or items of its own') },
    });
  });

  it('and a relation import of the same project exclude each other, also at the same moment', async () => {
    const owner = await app().make.user();
    const { projectId, id, path_with_namespace: path } = await scheduled(owner, 'either');
    const archive = await packProject({ issues: [{ iid: 1, title: 'One' }] });
    const importRelation = () => {
      const form = new FormData();
      form.set('file', new Blob([new Uint8Array(archive)], { type: 'application/gzip' }), 'export.tar.gz');
      form.set('path', path);
      form.set('relation', 'issues');
      return app().as(owner).post('/projects/import-relation', form);
    };
    const base = `/projects/${projectId}`;
    expect((await importRelation()).body.message).toBe('409 Conflict - the project is being imported');
    await app().as(owner).post(`${base}/import/cancel`);
    expect((await importRelation()).status).toBe(201);
    const refused = await app().as(owner).post(`${base}/import/retry`);
    expect([refused.status, refused.body.message]).toEqual([
      409,
      '409 Conflict - a relation import of the project is running',
    ]);
    expect((await importOf(projectId)).status).toBe('failed');
    for (let round = 0; round < 5; round++) {
      await app().as(owner).post(`${base}/relation-imports/cancel`);
      await app().as(owner).post(`${base}/import/cancel`);
      const both = await Promise.all([importRelation(), app().as(owner).post(`${base}/import/retry`)]);
      expect(both.map(({ status }) => status).sort()).toEqual([201, 409]);
    }
    await app().as(owner).post(`${base}/import/cancel`);
    await app().as(owner).post(`${base}/relation-imports/cancel`);
    const retries = await Promise.all([1, 2, 3].map(() => app().as(owner).post(`${base}/import/retry`)));
    expect(retries.map(({ body }) => body.message).sort()).toEqual([
      '201 Scheduled',
      '409 Conflict - the import has not failed',
      '409 Conflict - the import has not failed',
    ]);
    await runImport(app().context(), id, run);
  });

  it('is not canceled by others', async () => {
    const owner = await app().make.user();
    const { projectId, id } = await scheduled(owner, 'mine');
    const developer = await app().make.user();
    await app().make.projectMember({ id: projectId }, developer, 30);
    const stranger = await app().make.user();
    for (const what of ['import/cancel', 'import/retry', 'export/cancel', 'relation-imports/cancel']) {
      const url = `/projects/${projectId}/${what}`;
      expect((await app().as(developer).post(url)).status, what).toBe(403);
      expect((await app().as(stranger).post(url)).status, what).toBe(404);
    }
    await runImport(app().context(), id, run);
    expect((await importOf(projectId)).status).toBe('finished');
  });
});

describe('an export', () => {
  it('can be canceled, and its end is mailed', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const url = `/projects/${project.id}/export`;
    const { db } = app().hub.services;
    const latest = () =>
      db
        .selectFrom('project_exports')
        .selectAll()
        .where('project_id', '=', project.id)
        .orderBy('id', 'desc')
        .executeTakeFirstOrThrow();
    const mails = async () => {
      const { rows } = await sql<{ n: number }>`
        select count(*) as n from graphile_worker.jobs where task_identifier = 'mail.send'`.execute(db);
      return rows[0]?.n ?? 0;
    };
    const before = await mails();
    expect((await app().as(owner).post(`${url}/cancel`)).status).toBe(409);
    await app().as(owner).post(url);
    expect((await app().as(owner).post(`${url}/cancel`)).status).toBe(201);
    await runExport(app().context(), (await latest()).id, run);
    expect((await app().as(owner).get(url)).body).toMatchObject({
      export_status: 'none',
      export_error: 'The export was canceled.',
    });
    await app().as(owner).post(url);
    const { data } = await control(owner, 'projectExportCancel', project.path_with_namespace);
    expect(data.projectExportCancel.errors).toEqual([]);
    await app().as(owner).post(url);
    await runExport(app().context(), (await latest()).id, run);
    expect((await app().as(owner).get(url)).body).toMatchObject({ export_status: 'finished', export_error: null });
    expect(await mails()).toBe(before + 3);
    // Nobody is mailed about a project that wants no mails.
    await app().as(owner).put(`/projects/${project.id}`, { emails_enabled: false });
    await app().as(owner).post(url);
    await app().as(owner).post(`${url}/cancel`);
    expect(await mails()).toBe(before + 3);
  });
});

describe('a user who loses the right before the job runs', () => {
  const lost = async (loser: TestUser, how: 'blocked' | 'removed', projectId: number) => {
    const { status } =
      how === 'blocked'
        ? await app().as(app().root).post(`/users/${loser.id}/block`)
        : await app().as(app().root).delete(`/projects/${projectId}/members/${loser.id}`);
    expect(status).toBeLessThan(300);
  };

  it.each(['blocked', 'removed'] as const)('exports nothing and imports no relation: %s', async (how) => {
    const project = await app().make.project({});
    const maintainer = await app().make.user();
    await app().make.projectMember(project, maintainer, 40);
    const { db } = app().hub.services;
    await app().as(maintainer).post(`/projects/${project.id}/export`);
    const form = new FormData();
    const archive = await packProject({ issues: [{ iid: 1, title: 'One' }] });
    form.set('file', new Blob([new Uint8Array(archive)], { type: 'application/gzip' }), 'export.tar.gz');
    form.set('path', project.path_with_namespace);
    form.set('relation', 'issues');
    expect((await app().as(maintainer).post('/projects/import-relation', form)).status).toBe(201);
    await lost(maintainer, how, project.id);

    const latest = (table: 'project_exports' | 'relation_imports') =>
      db.selectFrom(table).selectAll().where('project_id', '=', project.id).executeTakeFirstOrThrow();
    await runExport(app().context(), (await latest('project_exports')).id, run);
    expect(await latest('project_exports')).toMatchObject({
      status: 'failed',
      error: 'The user who requested the export may no longer export the project.',
      storage_key: null,
    });
    await runRelationImport(app().context(), (await latest('relation_imports')).id, run);
    expect(await latest('relation_imports')).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/may no longer import into the project|is no longer active/),
    });
    expect((await app().as(app().root).get(`/projects/${project.id}/issues`)).body).toEqual([]);
  });
});

describe('the list of transfers', () => {
  const QUERY = `query ($kind: TransferKind, $state: TransferState) { transfers(kind: $kind, state: $state) { nodes {
    id kind state detail progress itemsPerSecond remainingSeconds bytes totalBytes error createdAt startedAt finishedAt
    project { fullPath } user { username } relations { name done total } } } }`;
  const listOf = async (user: TestUser, variables: Record<string, unknown> = {}) =>
    (await app().as(user).graphql(QUERY, variables)).data.transfers.nodes;

  it("has the caller's own, of every kind, with their pace", async () => {
    const owner = await app().make.user();
    const { projectId, id, path_with_namespace } = await scheduled(owner, 'listed');
    const exported = await app().make.project({}, owner);
    await app().as(owner).post(`/projects/${exported.id}/export`);
    const { db } = app().hub.services;
    await sql`update project_imports set status = 'started', started_at = now() - interval '10 seconds', percentage = 25,
      relations = '{"issues": {"done": 100, "total": 400}}' where id = ${id}`.execute(db);
    await sql`insert into relation_imports (project_id, user_id, relation, status, error, finished_at)
      values (${projectId}, ${owner.id}, 'issues', 'failed', 'Broken.', now())`.execute(db);
    const all = await listOf(owner);
    expect(all.map(({ kind, state }: { kind: string; state: string }) => `${kind} ${state}`)).toEqual([
      'RELATION_IMPORT FAILED',
      'EXPORT WAITING',
      'IMPORT RUNNING',
    ]);
    expect(all[0]).toMatchObject({ detail: 'issues', error: 'Broken.' });
    expect(all[2]).toMatchObject({
      id: `import:${id}`,
      detail: 'gitlab_project',
      progress: 25,
      project: { fullPath: path_with_namespace },
      user: { username: owner.username },
      relations: [{ name: 'issues', done: 100, total: 400 }],
    });
    expect(all[2].itemsPerSecond).toBeGreaterThan(0);
    expect(all[2].remainingSeconds).toBeGreaterThan(0);
    expect(await listOf(owner, { kind: 'EXPORT' })).toHaveLength(1);
    expect(await listOf(owner, { state: 'FAILED' })).toHaveLength(1);
    expect((await listOf(app().root)).length).toBeGreaterThanOrEqual(3);
    expect(await listOf(await app().make.user())).toEqual([]);
    expect((await app().anonymous.graphql(QUERY)).data.transfers).toBeNull();

    const found = async (user: TestUser, key: string) =>
      (await app().as(user).graphql(`query ($id: ID!) { transfer(id: $id) { id error } }`, { id: key })).data.transfer;
    const maintainer = await app().make.user();
    await app().make.projectMember({ id: projectId }, maintainer, 40);
    for (const user of [owner, app().root, maintainer])
      expect(await found(user, `import:${id}`)).toMatchObject({ id: `import:${id}` });
    expect(await found(await app().make.user(), `import:${id}`)).toBeNull();
    expect(await found(owner, 'import:x')).toBeNull();
    const page = await app()
      .as(owner)
      .graphql(`query { transfers(first: 1) { nodes { id } pageInfo { endCursor hasNextPage } } }`);
    const { endCursor } = page.data.transfers.pageInfo;
    const next = await app()
      .as(owner)
      .graphql(`query ($after: String) { transfers(first: 2, after: $after) { nodes { kind } } }`, {
        after: endCursor,
      });
    expect(next.data.transfers.nodes).toEqual([{ kind: 'EXPORT' }, { kind: 'IMPORT' }]);

    await app().as(owner).post(`/projects/${projectId}/import/cancel`);
    expect((await app().as(owner).post(`/projects/${projectId}/import/retry`)).status).toBe(201);
    await sql`update project_imports set status = 'started', started_at = now() - interval '10 seconds', percentage = 40,
      relations = '{"issues": {"done": 160, "total": 400}}' where id = ${id}`.execute(db);
    // At least ten seconds for 60 items and 15 percent.
    const retried = (await listOf(owner, { kind: 'IMPORT' }))[0];
    expect(retried.itemsPerSecond).toBeLessThanOrEqual(6);
    expect(retried.itemsPerSecond).toBeGreaterThan(0);
    expect(retried.remainingSeconds).toBeGreaterThanOrEqual(40);
  });
});

describe('a relation import', () => {
  it('can be canceled', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const url = `/projects/${project.id}/relation-imports`;
    const values = { project_id: project.id, user_id: owner.id, relation: 'issues' };
    const { db } = app().hub.services;
    expect((await app().as(owner).post(`${url}/cancel`)).status).toBe(409);
    for (const cancel of [
      () => app().as(owner).post(`${url}/cancel`),
      () => control(owner, 'relationImportCancel', project.path_with_namespace),
    ]) {
      await db.insertInto('relation_imports').values(values).execute();
      await cancel();
    }
    expect((await app().as(owner).get(url)).body).toMatchObject([{ status: 'failed' }, { status: 'failed' }]);
    // These have no archive.
    expect((await app().as(owner).post(`${url}/retry`)).body.message).toContain('the archive of the import is gone');
  });

  it('is retried from where it stopped, until its archive expires', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const url = `/projects/${project.id}/relation-imports`;
    const { db } = app().hub.services;
    const ctx = app().context();
    const retry = () => app().as(owner).post(`${url}/retry`);
    expect((await retry()).body.message).toContain('has not failed');
    const issues = Array.from({ length: 1_200 }, (_, n) => ({ iid: n + 1, title: `Issue ${n}` }));
    const send = async () => {
      const form = new FormData();
      form.set('file', new Blob([new Uint8Array(await packProject({ issues }))]), 'export.tar.gz');
      form.set('path', project.path_with_namespace);
      form.set('relation', 'issues');
      return app().as(owner).post('/projects/import-relation', form);
    };
    const { id } = (await send()).body;
    const rowOf = () => db.selectFrom('relation_imports').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
    // It is canceled after its first batch of lines.
    const canceling = {
      ...ctx,
      transaction: async <T>(work: Parameters<typeof ctx.transaction<T>>[0]): Promise<T> => {
        const result = await ctx.transaction(work);
        const { status, done_lines } = await rowOf();
        if (status === 'started' && done_lines > 0) await app().as(owner).post(`${url}/cancel`);
        return result;
      },
    };
    await runRelationImport(canceling, id, run);
    const stopped = await rowOf();
    expect(stopped).toMatchObject({ status: 'failed', error: 'The import was canceled.', done_lines: 500 });
    const key = stopped.storage_key ?? '';
    expect(await app().hub.services.storage.stat(key)).not.toBeNull();
    const stranger = await app().make.user();
    expect((await app().as(stranger).post(`${url}/retry`)).status).toBe(404);
    await app().make.projectMember(project, stranger, 30);
    expect((await app().as(stranger).post(`${url}/retry`)).status).toBe(403);
    expect(
      (await control(owner, 'relationImportRetry', project.path_with_namespace)).data.relationImportRetry.errors,
    ).toEqual([]);
    expect((await send()).status).toBe(409);
    expect((await retry()).status).toBe(409);
    expect(await rowOf()).toMatchObject({ status: 'created', error: null, started_at: null, lines_before: 500 });
    await runRelationImport(ctx, id, run);
    expect(await rowOf()).toMatchObject({ status: 'finished', done_lines: 1_200, skipped_lines: 0, storage_key: null });
    const { rows } = await sql<{
      n: number;
    }>`select count(*) as n from issues where project_id = ${project.id}`.execute(db);
    expect(rows).toEqual([{ n: 1_200 }]);

    const second = (await send()).body;
    await app().as(owner).post(`${url}/cancel`);
    await sql`update relation_imports set finished_at = now() - interval '25 hours' where id = ${second.id}`.execute(
      db,
    );
    await removeExpired.run(ctx, {}, run);
    expect((await retry()).body.message).toContain('the archive of the import is gone');
  });
});
