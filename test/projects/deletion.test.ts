import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { removeDueProjects } from '#domains/projects/deletion.ts';
import { findEvents } from '../groups/find-events.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();
const db = () => app().hub.services.db;
const period = (days: number) => app().as(app().root).put('/application/settings', { deletion_adjourned_period: days });
const kindsOf = async (id: number) => (await findEvents(app(), 'Project', id)).map(({ kind }) => kind);

beforeAll(async () => {
  await period(7);
});
afterAll(async () => {
  await period(0);
});

describe('DELETE /projects/:id with delayed deletion', () => {
  it('marks the project, which stays readable but not writable', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    expect((await client.delete(`/projects/${project.id}`)).status).toBe(202);
    const { body } = await client.get(`/projects/${project.id}`);
    expect(body.marked_for_deletion_on).toMatch(/^\d{4}-\d\d-\d\d$/);
    expect(body).toMatchObject({
      marked_for_deletion_at: body.marked_for_deletion_on,
      archived: false,
      path: project.path,
      can_create_merge_request_in: false,
    });
    expect((await client.get(`/projects/${project.id}/repository/branches`)).body).toHaveLength(1);
    const branch = { branch: 'more', ref: 'main' };
    expect((await client.post(`/projects/${project.id}/repository/branches`, branch)).status).toBe(403);
    expect((await client.post(`/projects/${project.id}/issues`, { title: 'x' })).status).toBe(403);
    const credential = `oauth2:${await app().tokenOf(owner)}`;
    const git = (service: string) =>
      fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=${service}`, {
        headers: { authorization: `Basic ${Buffer.from(credential).toString('base64')}` },
      });
    expect((await git('git-upload-pack')).status).toBe(200);
    const push = await git('git-receive-pack');
    expect([push.status, await push.text()]).toEqual([403, expect.stringContaining('marked for deletion')]);
    const again = await client.delete(`/projects/${project.id}`);
    expect(again).toMatchObject({ status: 400, body: { message: expect.stringContaining('already marked') } });
    // The project keeps its path.
    const taken = await client.post('/projects', { name: 'another', path: project.path });
    expect(taken).toMatchObject({ status: 400, body: { message: { path: ['has already been taken'] } } });
    expect(await kindsOf(project.id)).toContain('project.marked_for_deletion');
  });

  it('requires an Owner, and hides the project from others', async () => {
    const { make } = app();
    const [owner, maintainer, stranger] = [await make.user(), await make.user(), await make.user()];
    const project = await make.project({}, owner);
    await make.projectMember(project, maintainer, 40);
    for (const path of ['', '/restore']) {
      const method = path === '' ? 'DELETE' : 'POST';
      expect((await app().as(maintainer).request(method, `/projects/${project.id}${path}`)).status).toBe(403);
      expect((await app().as(stranger).request(method, `/projects/${project.id}${path}`)).status).toBe(404);
      expect((await app().anonymous.request(method, `/projects/${project.id}${path}`)).status).toBe(401);
    }
    expect((await app().as(owner).get(`/projects/${project.id}`)).body.marked_for_deletion_on).toBeNull();
    expect(await kindsOf(project.id)).toEqual(['project.created']);
  });

  it('can be undone', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    expect((await client.post(`/projects/${project.id}/restore`)).status).toBe(400);
    await client.delete(`/projects/${project.id}`);
    const restored = await client.post(`/projects/${project.id}/restore`);
    expect(restored).toMatchObject({ status: 201, body: { marked_for_deletion_on: null } });
    expect((await client.post(`/projects/${project.id}/issues`, { title: 'x' })).status).toBe(201);
    const kinds = ['project.created', 'project.marked_for_deletion', 'project.restored'];
    expect(await kindsOf(project.id)).toEqual(kinds);
  });

  it('removes a marked project at once if the caller repeats its path', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    const { path_with_namespace } = project;
    const remove = (full_path: string) =>
      client.delete(`/projects/${project.id}?permanently_remove=true&full_path=${encodeURIComponent(full_path)}`);
    expect((await remove(path_with_namespace)).status).toBe(400);
    // Clients with static types send what is not set as empty.
    expect((await client.delete(`/projects/${project.id}?full_path=&permanently_remove=`)).status).toBe(202);
    expect((await remove('another')).status).toBe(400);
    expect((await remove('')).status).toBe(400);
    expect((await client.delete(`/projects/${project.id}`, { permanently_remove: true })).status).toBe(400);
    expect((await client.get(`/projects/${project.id}`)).status).toBe(200);
    expect((await remove(path_with_namespace)).status).toBe(202);
    expect((await client.get(`/projects/${project.id}`)).status).toBe(404);
    expect((await client.post('/projects', { path: project.path })).status).toBe(201);
    expect((await kindsOf(project.id)).at(-1)).toBe('project.deleted');
  });

  it('removes a project automatically when the delay is over, and not before', async () => {
    const owner = await app().make.user();
    const made = [];
    for (let n = 0; n < 4; n++) made.push((await app().make.project({}, owner)).id);
    const [due = 0, early = 0, restored = 0, kept = 0] = made;
    for (const id of [due, early, restored]) await app().as(owner).delete(`/projects/${id}`);
    await app().as(owner).post(`/projects/${restored}/restore`);
    const markedAgo = (id: number, days: number) =>
      sql`update projects set marked_for_deletion_on = current_date - ${days}::int where id = ${id}`.execute(db());
    await markedAgo(due, 7);
    await markedAgo(early, 6);
    await removeDueProjects(app().context());
    await removeDueProjects(app().context());
    const left = await db().selectFrom('projects').select('id').where('id', 'in', made).orderBy('id').execute();
    expect(left.map(({ id }) => id)).toEqual([early, restored, kept]);
    expect((await kindsOf(due)).filter((kind) => kind === 'project.deleted')).toHaveLength(1);
  });

  it('removes other projects when one fails, and retries that one', async () => {
    const owner = await app().make.user();
    const [stuck, due] = [(await app().make.project({}, owner)).id, (await app().make.project({}, owner)).id];
    await sql`update projects set marked_for_deletion_on = current_date - 7 where id in (${stuck}, ${due})`.execute(
      db(),
    );
    await sql`create table keeps_projects (id bigint references projects (id))`.execute(db());
    await sql`insert into keeps_projects values (${stuck})`.execute(db());
    await expect(removeDueProjects(app().context())).rejects.toThrow('1 projects could not be removed');
    const left = () => db().selectFrom('projects').select('id').where('id', 'in', [stuck, due]).execute();
    expect(await left()).toEqual([{ id: stuck }]);
    await sql`drop table keeps_projects`.execute(db());
    await removeDueProjects(app().context());
    expect(await left()).toEqual([]);
  });

  it('keeps a project that is restored while the job waits to remove it', async () => {
    const owner = await app().make.user();
    const { id } = await app().make.project({}, owner);
    await sql`update projects set marked_for_deletion_on = current_date - 7 where id = ${id}`.execute(db());
    let removing: Promise<void> = Promise.resolve();
    await db()
      .transaction()
      .execute(async (trx) => {
        await trx.updateTable('projects').set({ marked_for_deletion_on: null }).where('id', '=', id).execute();
        const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(trx);
        removing = removeDueProjects(app().context());
        await until('the job waits for the row', async () => {
          const waiting =
            await sql`select 1 from pg_stat_activity where ${rows[0]?.pid}::int = any (pg_blocking_pids(pid))`.execute(
              db(),
            );
          return waiting.rows.length > 0;
        });
      });
    await removing;
    expect((await app().as(owner).get(`/projects/${id}`)).body).toMatchObject({ id, marked_for_deletion_on: null });
  });

  it('shows the deletion date of its group', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const child = await app().make.group({ parent_id: group.id }, owner);
    const project = await app().make.project({ namespace_id: child.id }, owner);
    const day = async () => (await client.get(`/projects/${project.id}`)).body.marked_for_deletion_on;
    await client.delete(`/groups/${group.id}`);
    expect(await day()).toBe((await client.get(`/groups/${group.id}`)).body.marked_for_deletion_on);
    // The project itself is not marked, so it stays writable like everything in the group.
    expect((await client.post(`/projects/${project.id}/restore`)).status).toBe(400);
    expect((await client.post(`/projects/${project.id}/issues`, { title: 'x' })).status).toBe(201);
    const away = await app().make.group({}, owner);
    await client.post(`/groups/${child.id}/transfer`, { group_id: away.id });
    expect(await day()).toBeNull();
    await client.delete(`/groups/${away.id}`);
    expect(await day()).not.toBeNull();
    await client.post(`/groups/${away.id}/restore`);
    expect(await day()).toBeNull();
  });

  it('follows the same rules over GraphQL', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    const run = async (mutation: string, more = '') => {
      const { data } = await client.graphql(
        `mutation { ${mutation}(input: { fullPath: "${project.path_with_namespace}" ${more} }) { errors project { name } } }`,
      );
      return data[mutation];
    };
    expect((await run('projectRestore')).errors).toHaveLength(1);
    expect((await run('projectDelete')).project.name).toBe(project.path);
    const query = `{ project(fullPath: "${project.path_with_namespace}") { markedForDeletionOn } }`;
    expect((await client.graphql(query)).data.project.markedForDeletionOn).toMatch(/^\d{4}-\d\d-\d\d$/);
    expect((await run('projectDelete')).errors).toHaveLength(1);
    expect((await run('projectRestore')).project.name).toBe(project.path);
    expect((await run('projectDelete', 'permanentlyRemove: true')).errors).toHaveLength(1);
    await run('projectDelete');
    expect(await run('projectDelete', 'permanentlyRemove: true')).toEqual({ errors: [], project: null });
  });
});

it('deletes at once if the delay is off, and frees the path', async () => {
  const owner = await app().make.user();
  const client = app().as(owner);
  const marked = await app().make.project({}, owner);
  await client.delete(`/projects/${marked.id}`);
  await period(0);
  try {
    // A project that was marked earlier can be deleted too.
    expect((await client.delete(`/projects/${marked.id}`)).status).toBe(202);
    expect((await client.get(`/projects/${marked.id}`)).status).toBe(404);
    const project = await app().make.project({ path: 'back-again' }, owner);
    expect((await client.delete(`/projects/${project.id}`)).status).toBe(202);
    expect((await client.post('/projects', { path: 'back-again' })).status).toBe(201);
  } finally {
    await period(7);
  }
});

it('ends the subscriptions to what was in the project, also those of its owner', async () => {
  await period(0);
  const owner = await app().make.user();
  const client = app().as(owner);
  const group = await app().make.group({}, owner);
  const project = await app().make.project({ namespace_id: group.id }, owner);
  const stream = async (query: string) =>
    fetch(`${app().url}/api/graphql`, {
      method: 'POST',
      headers: { ...(await client.headers()), 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ query }),
    });
  // The headers arrive when the subscription has begun.
  const ofProject = await stream(
    `subscription { ciPipelineStatusesUpdated(projectId: "gid://gitlab/Project/${project.id}") { id } }`,
  );
  const everything = await stream(`subscription { events(scope: { groupPath: "${group.full_path}" }) { kind } }`);
  expect((await client.delete(`/projects/${project.id}`)).status).toBe(202);
  expect(await ofProject.text()).toContain('event: complete');
  let text = '';
  let deletion: ReturnType<typeof client.delete> | undefined;
  for await (const chunk of everything.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    // Once the group is gone too, nobody may read its events any more.
    if (text.includes('project.deleted')) deletion ??= client.delete(`/groups/${group.id}`);
  }
  expect((await deletion)?.status).toBe(202);
  expect(text).toContain('event: complete');
});
