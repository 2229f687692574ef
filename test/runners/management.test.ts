import { beforeAll, describe, expect, it } from 'vitest';
import { digestToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { runningJob } from '../support/running-job.ts';

const app = useApp();
const db = () => app().hub.services.db;
const as = (user: TestUser) => app().as(user);
const admin = () => as(app().root);

let owner: TestUser;
let maintainer: TestUser;
let developer: TestUser;
let stranger: TestUser;
let group: TestGroup;
let project: TestProject;
let other: TestProject;

beforeAll(async () => {
  const { make } = app();
  [owner, maintainer] = [await make.user(), await make.user()];
  [developer, stranger] = [await make.user(), await make.user()];
  group = await make.group({ visibility: 'private' }, owner);
  const attributes = { namespace_id: group.id, visibility: 'private' };
  project = await make.project(attributes, owner);
  other = await make.project(attributes, owner);
  await make.projectMember(project, maintainer, 40);
  await make.projectMember(project, developer, 30);
});

const create = async (input: Record<string, unknown>, user = owner): Promise<{ id: number; token: string }> => {
  const { status, body } = await as(user).post('/user/runners', input);
  expect(status).toBe(201);
  return body;
};
const ofProject = (input: Record<string, unknown> = {}) =>
  create({ runner_type: 'project_type', project_id: project.id, ...input });
const ofGroup = (input: Record<string, unknown> = {}) =>
  create({ runner_type: 'group_type', group_id: group.id, ...input });
const ofInstance = (input: Record<string, unknown> = {}) =>
  create({ runner_type: 'instance_type', ...input }, app().root);

const ids = ({ body }: { body: { id: number }[] }) => body.map(({ id }) => id);
const gidOf = (id: number) => `gid://gitlab/Ci::Runner/${id}`;
const events = async (id: number) =>
  (
    await db()
      .selectFrom('events')
      .select(['kind', 'payload', 'project_id', 'min_access_level'])
      .where('subject_type', '=', 'Runner')
      .where('subject_id', '=', id)
      .orderBy('id')
      .execute()
  ).map(({ kind, payload, project_id, min_access_level }) => ({ kind, payload, project_id, min_access_level }));

const insertManager = async (runner_id: number, system_id: string, contacted_at: string | null) =>
  db()
    .insertInto('runner_managers')
    .values({
      ...{ runner_id, system_id, contacted_at, version: '19.4.0', revision: 'abc', platform: 'linux' },
      architecture: 'amd64',
      ip_address: '127.0.0.9',
    })
    .returning('id')
    .executeTakeFirstOrThrow();

describe('a runner', () => {
  it('is shown with its newest manager, projects and group', async () => {
    const { id } = await ofProject({
      description: 'fast',
      tag_list: ['a', 'b'],
      maintenance_note: 'note',
      locked: true,
    });
    await insertManager(id, 's_old', '2020-01-01T00:00:00Z');
    const now = new Date().toISOString();
    await insertManager(id, 's_new', now);
    await db().updateTable('runners').set({ contacted_at: now }).where('id', '=', id).execute();
    const { status, body } = await as(maintainer).get(`/runners/${id}`);
    expect([status, body]).toEqual([
      200,
      {
        id,
        description: 'fast',
        ip_address: '127.0.0.9',
        active: true,
        paused: false,
        is_shared: false,
        runner_type: 'project_type',
        name: null,
        online: true,
        status: 'online',
        created_at: expect.any(String),
        created_by: expect.objectContaining({ username: owner.username }),
        tag_list: ['a', 'b'],
        run_untagged: true,
        locked: true,
        maximum_timeout: null,
        access_level: 'not_protected',
        version: '19.4.0',
        revision: 'abc',
        platform: 'linux',
        architecture: 'amd64',
        contacted_at: expect.any(String),
        maintenance_note: 'note',
        projects: [expect.objectContaining({ id: project.id, path_with_namespace: project.path_with_namespace })],
        groups: [],
      },
    ]);
    const shared = await ofGroup();
    expect((await as(owner).get(`/runners/${shared.id}`)).body.groups).toEqual([
      { id: group.id, name: expect.any(String), web_url: `${app().url}/groups/${group.full_path}` },
    ]);
  });

  it('is shown to administrators, owners of its group and maintainers of its projects only', async () => {
    const [mine, shared, instance] = [await ofProject(), await ofGroup(), await ofInstance()];
    const seenBy = async (user: TestUser) =>
      Promise.all([mine, shared, instance].map(async ({ id }) => (await as(user).get(`/runners/${id}`)).status));
    expect(await seenBy(app().root)).toEqual([200, 200, 200]);
    expect(await seenBy(owner)).toEqual([200, 200, 404]);
    expect(await seenBy(maintainer)).toEqual([200, 404, 404]);
    expect(await seenBy(developer)).toEqual([404, 404, 404]);
    expect(await seenBy(stranger)).toEqual([404, 404, 404]);
    expect((await app().anonymous.get(`/runners/${mine.id}`)).status).toBe(401);
  });

  it('has a contact state', async () => {
    const { id } = await ofProject();
    const at = async (contacted: string | null, created = 'now') => {
      await db()
        .updateTable('runners')
        .set({
          contacted_at: contacted && new Date(Date.now() - Number(contacted) * 3_600_000).toISOString(),
          ...(created === 'now' ? {} : { created_at: created }),
        })
        .where('id', '=', id)
        .execute();
      const { body } = await as(owner).get(`/runners/${id}`);
      return [body.status, body.online];
    };
    expect(await at(null)).toEqual(['never_contacted', null]);
    expect(await at('1')).toEqual(['online', true]);
    expect(await at('3')).toEqual(['offline', false]);
    expect(await at('169')).toEqual(['stale', false]);
    expect(await at(null, '2020-01-01T00:00:00Z')).toEqual(['stale', null]);
  });

  it('lists its managers', async () => {
    const { id } = await ofProject();
    const first = await insertManager(id, 's_1', null);
    const second = await insertManager(id, 's_2', new Date().toISOString());
    const { body } = await as(maintainer).get(`/runners/${id}/managers`);
    expect(body.map(({ id: each }: { id: number }) => each)).toEqual([second.id, first.id]);
    expect(body[0]).toEqual({
      id: second.id,
      system_id: 's_2',
      version: '19.4.0',
      revision: 'abc',
      platform: 'linux',
      architecture: 'amd64',
      created_at: expect.any(String),
      contacted_at: expect.any(String),
      ip_address: '127.0.0.9',
      status: 'online',
      job_execution_status: 'idle',
    });
    expect((await as(developer).get(`/runners/${id}/managers`)).status).toBe(404);
  });
});

describe('the jobs of a runner', () => {
  it('are listed where the caller can read pipelines', async () => {
    const { id } = await ofProject();
    await as(owner).post(`/projects/${other.id}/runners`, { runner_id: id });
    const manager = await insertManager(id, 's_jobs', null);
    const ran = { runner_id: id, runner_manager_id: manager.id };
    const first = await runningJob(app(), project, owner, ran);
    const second = await runningJob(app(), other, owner, { runner_id: id, status: 'success' });
    const at = `/runners/${id}/jobs`;
    const list = async (query = '', user = owner) => ids(await as(user).get(`${at}?${query}`));
    expect(await list()).toEqual([second.id, first.id]);
    expect(await list('order_by=id&sort=asc')).toEqual([first.id, second.id]);
    expect(await list('status=running')).toEqual([first.id]);
    expect(await list('system_id=s_jobs')).toEqual([first.id]);
    expect(await list('system_id=s_other')).toEqual([]);
    expect(await list('', maintainer)).toEqual([first.id]);
    expect(await list('', app().root)).toEqual([second.id, first.id]);
    expect((await as(developer).get(at)).status).toBe(404);
    const { body } = await as(maintainer).get(at);
    expect(body[0].project).toMatchObject({ id: project.id, path_with_namespace: project.path_with_namespace });
    // The job's readers see which runner it has, but not the address.
    const job = (await as(developer).get(`/projects/${project.id}/jobs/${first.id}`)).body;
    expect([job.runner.id, job.runner.runner_type, job.runner.ip_address]).toEqual([id, 'project_type', undefined]);
    expect(job.runner_manager).toEqual({ id: manager.id, system_id: 's_jobs' });
    const { body: managers } = await as(maintainer).get(`/runners/${id}/managers`);
    expect(managers[0].job_execution_status).toBe('active');
  });
});

describe('lists of runners', () => {
  it('have those that the caller manages, filtered', async () => {
    const user = await app().make.user();
    const mine = await app().make.project({}, user);
    const place = { runner_type: 'project_type', project_id: mine.id };
    const first = await create({ ...place, tag_list: ['x', 'y'], paused: true }, user);
    const second = await create(place, user);
    const list = async (query = '') => ids(await as(user).get(`/runners?${query}`));
    expect(await list()).toEqual([second.id, first.id]);
    expect(await list('type=group_type')).toEqual([]);
    expect(await list('type=project_type&per_page=1&page=2')).toEqual([first.id]);
    expect(await list('tag_list=x,y')).toEqual([first.id]);
    expect(await list('tag_list=x,z')).toEqual([]);
    expect([await list('paused=true'), await list('status=paused')]).toEqual([[first.id], [first.id]]);
    expect([await list('paused=false'), await list('status=active')]).toEqual([[second.id], [second.id]]);
    expect(await list('status=not_connected')).toEqual([second.id, first.id]);
    expect([await list('status=online'), await list('status=stale')]).toEqual([[], []]);
    expect((await as(user).get('/runners?status=odd')).status).toBe(400);
    expect((await app().anonymous.get('/runners')).status).toBe(401);
    // An administrator sees their own here, and all of them in the other list.
    expect(ids(await admin().get('/runners?per_page=100'))).not.toContain(first.id);
    const all = '/runners/all?per_page=100&type=project_type&status=active&paused=true&tag_list=x';
    expect(ids(await admin().get(all))).toEqual([first.id]);
    expect((await as(user).get('/runners/all')).status).toBe(403);
  });

  it('of a project have its own, and those of groups and the instance unless these are off', async () => {
    const [mine, shared, instance] = [await ofProject(), await ofGroup(), await ofInstance({ tag_list: ['big'] })];
    const list = async () => {
      const found = ids(await as(maintainer).get(`/projects/${project.id}/runners?per_page=100`));
      return [mine, shared, instance].map(({ id }) => found.includes(id));
    };
    expect(await list()).toEqual([true, true, true]);
    const set = (settings: Record<string, boolean>) => as(owner).put(`/projects/${project.id}`, settings);
    await set({ group_runners_enabled: false });
    expect(await list()).toEqual([true, false, true]);
    await set({ shared_runners_enabled: false });
    expect(await list()).toEqual([true, false, false]);
    await set({ group_runners_enabled: true, shared_runners_enabled: true });
    const at = `/projects/${project.id}/runners`;
    expect(
      ids(await as(maintainer).get(`${at}?type=instance_type&paused=false&status=never_contacted&tag_list=big`)),
    ).toEqual([instance.id]);
    expect((await as(developer).get(at)).status).toBe(403);
    expect((await as(stranger).get(at)).status).toBe(404);
  });

  it('of a group have its own, inherited ones, and those of the instance', async () => {
    const subgroup = await app().make.group({ parent_id: group.id, visibility: 'private' }, owner);
    const own = await create({ runner_type: 'group_type', group_id: subgroup.id, tag_list: ['own'] });
    const [above, instance] = [await ofGroup(), await ofInstance()];
    const list = async (path: string) => {
      const found = ids(await as(owner).get(`/groups/${path}/runners?per_page=100`));
      return [own, above, instance].map(({ id }) => found.includes(id));
    };
    expect(await list(String(subgroup.id))).toEqual([true, true, true]);
    expect(await list(String(group.id))).toEqual([false, true, true]);
    await db()
      .updateTable('namespaces')
      .set({ shared_runners_setting: 'disabled_and_unoverridable' })
      .where('id', '=', subgroup.id)
      .execute();
    expect(await list(String(subgroup.id))).toEqual([true, true, false]);
    const narrow = `/groups/${subgroup.id}/runners?type=group_type&status=never_contacted&paused=false&tag_list=own`;
    expect(ids(await as(owner).get(narrow))).toEqual([own.id]);
    expect((await as(stranger).get(`/groups/${group.id}/runners`)).status).toBe(404);
  });
});

describe('changing a runner', () => {
  it('takes every attribute, and emits those that changed', async () => {
    const { id } = await ofProject();
    const changes = {
      description: 'new',
      paused: true,
      locked: true,
      run_untagged: false,
      tag_list: [' x ', 'x', 'y'],
      access_level: 'ref_protected',
      maximum_timeout: 1_200,
      maintenance_note: 'note',
    };
    const { status, body } = await as(maintainer).put(`/runners/${id}`, changes);
    expect([status, body]).toEqual([200, expect.objectContaining({ ...changes, tag_list: ['x', 'y'], active: false })]);
    expect((await as(maintainer).put(`/runners/${id}`, { active: true })).body.paused).toBe(false);
    // Nothing changes, so nobody is told.
    await as(maintainer).put(`/runners/${id}`, { active: true });
    const [, first, second, ...more] = await events(id);
    expect([first?.kind, first?.project_id, first?.min_access_level]).toEqual(['runner.updated', project.id, 40]);
    expect(first?.payload).toMatchObject({ description: 'new', changes: expect.arrayContaining(['tags', 'paused']) });
    expect(second?.payload).toMatchObject({ changes: ['paused'] });
    expect(more).toEqual([]);
  });

  it('refuses wrong input and changes nothing', async () => {
    const { id } = await ofProject({ description: 'old' });
    for (const input of [
      {},
      { active: true, paused: false },
      { tag_list: [], run_untagged: false },
      { maximum_timeout: 0 },
      { maintenance_note: 'x'.repeat(1_025) },
      { access_level: 'odd' },
    ])
      expect([input, (await as(owner).put(`/runners/${id}`, input)).status]).toEqual([input, 400]);
    expect((await as(owner).get(`/runners/${id}`)).body).toMatchObject({ description: 'old', run_untagged: true });
    // Runners of groups are never locked.
    const shared = await ofGroup();
    expect((await as(owner).put(`/runners/${shared.id}`, { locked: true })).body.locked).toBe(false);
  });

  it('is for those who manage its owner', async () => {
    const { id } = await ofProject();
    const outsider = await app().make.user();
    await app().make.projectMember(other, outsider, 40);
    expect((await as(owner).post(`/projects/${other.id}/runners`, { runner_id: id })).status).toBe(201);
    const tried = async (user: TestUser) => [
      (await as(user).get(`/runners/${id}`)).status,
      (await as(user).put(`/runners/${id}`, { paused: true })).status,
      (await as(user).post(`/runners/${id}/reset_authentication_token`)).status,
      (await as(user).delete(`/runners/${id}`)).status,
    ];
    // A maintainer of another project that it serves sees it, but does not control it.
    expect(await tried(outsider)).toEqual([200, 403, 403, 403]);
    expect(await tried(developer)).toEqual([404, 404, 404, 404]);
    expect((await as(owner).get(`/runners/${id}`)).body.paused).toBe(false);
  });

  it('replaces its token, which ends at once', async () => {
    const { id, token } = await ofProject();
    await db()
      .updateTable('projects')
      .set({ runner_token_expiration_interval: 86_400 })
      .where('id', '=', project.id)
      .execute();
    const { status, body } = await as(maintainer).post(`/runners/${id}/reset_authentication_token`);
    await db()
      .updateTable('projects')
      .set({ runner_token_expiration_interval: null })
      .where('id', '=', project.id)
      .execute();
    expect([status, body]).toEqual([
      201,
      { token: expect.stringMatching(/^glrt-/), token_expires_at: expect.any(String) },
    ]);
    const { digest } = await db().selectFrom('runners').select('digest').where('id', '=', id).executeTakeFirstOrThrow();
    expect([digest.equals(digestToken(body.token)), digest.equals(digestToken(token))]).toEqual([true, false]);
    const emitted = await events(id);
    expect(emitted.at(-1)?.kind).toBe('runner.token_reset');
    expect(JSON.stringify(emitted)).not.toContain(body.token);
  });
});

describe('assigning a runner', () => {
  it('lets it serve another project, until it is taken away', async () => {
    const { id } = await ofProject();
    const at = `/projects/${other.id}/runners`;
    expect((await as(owner).post(at, { runner_id: id })).body).toMatchObject({ id, runner_type: 'project_type' });
    expect((await as(owner).post(at, { runner_id: id })).status).toBe(400);
    expect((await as(owner).post(`/projects/${project.id}/runners`, { runner_id: id })).status).toBe(400);
    expect(ids(await as(owner).get(`${at}?per_page=100`))).toContain(id);
    const { body } = await as(owner).get(`/runners/${id}`);
    expect(body.projects.map((each: { id: number }) => each.id)).toEqual([project.id, other.id]);
    // Those who cannot see the other project do not learn of it.
    expect((await as(maintainer).get(`/runners/${id}`)).body.projects).toHaveLength(1);
    expect((await as(owner).delete(`/runners/${id}`)).body.message).toBe(
      '403 Forbidden - Runner associated with more than one project',
    );
    expect((await as(owner).delete(`/projects/${project.id}/runners/${id}`)).status).toBe(403);
    expect((await as(owner).delete(`${at}/${id}`)).status).toBe(204);
    expect((await as(owner).delete(`${at}/${id}`)).status).toBe(404);
    const kinds = (await events(id)).map(({ kind, payload }) => [kind, JSON.stringify(payload).includes('projects')]);
    expect(kinds).toEqual([
      ['runner.created', false],
      ['runner.updated', true],
      ['runner.updated', true],
    ]);
    expect((await as(owner).delete(`/runners/${id}`)).status).toBe(204);
    expect((await events(id)).at(-1)?.kind).toBe('runner.deleted');
    expect((await as(owner).get(`/runners/${id}`)).status).toBe(404);
  });

  it('is refused for locked runners, for those of groups and the instance, and to others', async () => {
    const at = `/projects/${other.id}/runners`;
    const post = async (runner: { id: number }, user = owner) =>
      (await as(user).post(at, { runner_id: runner.id })).body.message;
    expect(await post(await ofProject({ locked: true }))).toBe('403 Forbidden - Runner is locked');
    expect(await post(await ofGroup())).toBe('403 Forbidden - Runner is a group runner');
    expect(await post(await ofInstance(), app().root)).toBe('403 Forbidden - Runner is an instance runner');
    expect(await post(await ofInstance())).toBe('404 Runner Not Found');
    const { id } = await ofProject();
    expect((await as(maintainer).post(at, { runner_id: id })).status).toBe(404);
    expect((await as(developer).post(`/projects/${project.id}/runners`, { runner_id: id })).status).toBe(403);
    expect((await as(developer).delete(`/projects/${project.id}/runners/${id}`)).status).toBe(403);
  });

  it('does not keep administrators from deleting it', async () => {
    const { id } = await ofProject();
    await as(owner).post(`/projects/${other.id}/runners`, { runner_id: id });
    expect((await admin().delete(`/runners/${id}`)).status).toBe(204);
  });
});

describe('GraphQL', () => {
  it('sorts runners by contact, those without contact last', async () => {
    const tag = { tag_list: ['sorted'] };
    const [never, early, late] = [await ofProject(tag), await ofProject(tag), await ofProject(tag)];
    for (const [{ id }, contacted_at] of [
      [early, '2024-01-01T00:00:00Z'],
      [late, '2024-02-01T00:00:00Z'],
    ] as const) {
      await db().updateTable('runners').set({ contacted_at }).where('id', '=', id).execute();
    }
    const ids = async (args: string) => {
      const { data } = await as(maintainer).graphql(
        `{ project(fullPath: "${project.path_with_namespace}") { runners(tagList: ["sorted"], ${args}) {
          nodes { id } pageInfo { endCursor } } } }`,
      );
      const { nodes, pageInfo } = data.project.runners;
      return { ids: nodes.map((node: { id: string }) => node.id), cursor: pageInfo.endCursor };
    };
    const [a, b, c] = [gidOf(never.id), gidOf(early.id), gidOf(late.id)];
    expect((await ids('sort: CREATED_ASC')).ids).toEqual([a, b, c]);
    expect((await ids('sort: CREATED_DESC')).ids).toEqual([c, b, a]);
    expect((await ids('sort: CONTACTED_ASC')).ids).toEqual([a, b, c]);
    const first = await ids('sort: CONTACTED_DESC, first: 2');
    expect(first.ids).toEqual([c, b]);
    expect((await ids(`sort: CONTACTED_DESC, after: "${first.cursor}"`)).ids).toEqual([a]);
    const rest = await ids('sort: CONTACTED_ASC, first: 1');
    expect((await ids(`sort: CONTACTED_ASC, after: "${rest.cursor}"`)).ids).toEqual([b, c]);
  });

  it('shows administrators the addresses of the pages of a runner', async () => {
    const { id } = await ofProject();
    const query = `{ runner(id: "${gidOf(id)}") { adminUrl editAdminUrl ephemeralRegisterUrl } }`;
    expect((await admin().graphql(query)).data.runner).toEqual({
      adminUrl: `${app().url}/admin/runners/${id}`,
      editAdminUrl: `${app().url}/admin/runners/${id}/edit`,
      ephemeralRegisterUrl: null,
    });
    const hidden = { adminUrl: null, editAdminUrl: null, ephemeralRegisterUrl: null };
    expect((await as(maintainer).graphql(query)).data.runner).toEqual(hidden);
  });

  it('names the page with instructions to start a new runner', async () => {
    const create = async (who: ReturnType<typeof as>, input: object) => {
      const { data } = await who.graphql(
        'mutation ($input: RunnerCreateInput!) { runnerCreate(input: $input) { runner { id ephemeralRegisterUrl } } }',
        { input },
      );
      const { runner } = data.runnerCreate;
      return runner.ephemeralRegisterUrl.replace(/runners\/(\d+)/, (text: string, number: string) =>
        gidOf(Number(number)) === runner.id ? 'runners/ID' : text,
      );
    };
    const groupId = `gid://gitlab/Group/${group.id}`;
    const projectId = `gid://gitlab/Project/${project.id}`;
    expect(await create(admin(), { runnerType: 'INSTANCE_TYPE' })).toBe(`${app().url}/admin/runners/ID/register`);
    expect(await create(as(owner), { runnerType: 'GROUP_TYPE', groupId })).toBe(
      `${app().url}/groups/${group.full_path}/-/runners/ID/register`,
    );
    expect(await create(as(owner), { runnerType: 'PROJECT_TYPE', projectId })).toBe(
      `${app().url}/${project.path_with_namespace}/-/runners/ID/register`,
    );
  });

  it('shows runners of projects and groups with counts, managers and projects', async () => {
    const { id } = await ofProject({ description: 'countable', tag_list: ['only'] });
    await insertManager(id, 's_g', null);
    const filter =
      '(type: PROJECT_TYPE, status: NEVER_CONTACTED, paused: false, tagList: ["only"], search: "count", first: 5)';
    const query = `{ project(fullPath: "${project.path_with_namespace}") { runners${filter} { count nodes {
      id jobCount projectCount projects(first: 5) { nodes { fullPath } }
      managers(first: 5) { nodes { id systemId version revision platformName architectureName ipAddress createdAt contactedAt
        status jobExecutionStatus } } } } } }`;
    expect((await as(maintainer).graphql(query)).data.project.runners).toEqual({
      count: 1,
      nodes: [
        {
          id: gidOf(id),
          jobCount: 0,
          projectCount: 1,
          projects: { nodes: [{ fullPath: project.path_with_namespace }] },
          managers: {
            nodes: [
              {
                id: expect.stringMatching(/^gid:\/\/gitlab\/Ci::RunnerManager\//),
                systemId: 's_g',
                version: '19.4.0',
                revision: 'abc',
                platformName: 'linux',
                architectureName: 'amd64',
                ipAddress: '127.0.0.9',
                createdAt: expect.any(String),
                contactedAt: null,
                status: 'NEVER_CONTACTED',
                jobExecutionStatus: 'IDLE',
              },
            ],
          },
        },
      ],
    });
    expect((await as(developer).graphql(query)).data.project.runners).toBeNull();
    const shared = await ofGroup({ description: 'of the group', tag_list: ['grouped'] });
    const ofGroups = `{ group(fullPath: "${group.full_path}") { runners(type: GROUP_TYPE, status: NEVER_CONTACTED
      paused: false, tagList: ["grouped"], search: "of the", sort: CREATED_ASC) { nodes { id } } } }`;
    expect((await as(owner).graphql(ofGroups)).data.group.runners.nodes).toEqual([{ id: gidOf(shared.id) }]);
    await app().make.groupMember(group, stranger, 40);
    expect((await as(stranger).graphql(ofGroups)).data.group.runners).toBeNull();
  });

  it('shows jobs, the group, the start of the token and the rights of the caller', async () => {
    const fields = `{ shortSha groups { nodes { fullPath } } jobs(statuses: [RUNNING]) { nodes { name } }
      userPermissions { readRunner updateRunner deleteRunner assignRunner } }`;
    const read = async (user: TestUser, id: number) =>
      (await as(user).graphql(`{ runner(id: "${gidOf(id)}") ${fields} }`)).data.runner;
    const own = await ofProject();
    await as(owner).post(`/projects/${other.id}/runners`, { runner_id: own.id });
    const secret = await app().make.project({ visibility: 'private' });
    await runningJob(app(), secret, app().root, { runner_id: own.id, name: 'hidden' });
    await runningJob(app(), project, owner, { runner_id: own.id, name: 'seen' });
    await runningJob(app(), project, owner, { runner_id: own.id, status: 'success' });
    const permissions = (may: boolean, deletes = may) => ({
      userPermissions: { readRunner: true, updateRunner: may, deleteRunner: deletes, assignRunner: may },
    });
    const seen = { shortSha: own.token.slice(5, 14), groups: { nodes: [] }, jobs: { nodes: [{ name: 'seen' }] } };
    // Two projects use it, so only administrators delete it.
    expect(await read(owner, own.id)).toEqual({ ...seen, ...permissions(true, false) });
    expect((await read(app().root, own.id)).userPermissions.deleteRunner).toBe(true);
    const neighbour = await app().make.user();
    await app().make.projectMember(other, neighbour, 40);
    expect(await read(neighbour, own.id)).toEqual({ ...seen, jobs: { nodes: [] }, ...permissions(false) });
    const { body } = await as(owner).post(`/runners/${own.id}/reset_authentication_token`);
    expect((await read(owner, own.id)).shortSha).toBe(body.token.slice(5, 14));

    const shared = await ofGroup({ tag_list: ['with-group'] });
    const ofGroupRunner = await read(owner, shared.id);
    expect(ofGroupRunner).toMatchObject({ groups: { nodes: [{ fullPath: group.full_path }] } });
    expect(ofGroupRunner.userPermissions).toMatchObject({ deleteRunner: true, assignRunner: false });
    // A maintainer of a project sees the runners of its groups, but does not manage them.
    const list = `{ project(fullPath: "${project.path_with_namespace}") { runners(tagList: ["with-group"], first: 5) { nodes ${fields} } } }`;
    expect((await as(maintainer).graphql(list)).data.project.runners.nodes).toMatchObject([
      { jobs: null, userPermissions: { readRunner: false, updateRunner: false, deleteRunner: false } },
    ]);
  });

  it('changes and deletes runners', async () => {
    const [one, two, three] = [await ofProject(), await ofProject(), await ofProject()];
    const update = `mutation { runnerUpdate(input: { id: "${gidOf(one.id)}", description: "new", maintenanceNote: "note"
      paused: true, locked: true, runUntagged: false, tagList: ["t"], accessLevel: REF_PROTECTED, maximumTimeout: 900 }) {
      errors runner { description maintenanceNote paused locked runUntagged tagList accessLevel maximumTimeout } } }`;
    expect((await as(maintainer).graphql(update)).data.runnerUpdate).toEqual({
      errors: [],
      runner: {
        description: 'new',
        maintenanceNote: 'note',
        paused: true,
        locked: true,
        runUntagged: false,
        tagList: ['t'],
        accessLevel: 'REF_PROTECTED',
        maximumTimeout: 900,
      },
    });
    const remove = (id: number) => `mutation { runnerDelete(input: { id: "${gidOf(id)}" }) { errors } }`;
    expect((await as(developer).graphql(remove(one.id))).errors).toHaveLength(1);
    expect((await as(maintainer).graphql(remove(one.id))).data.runnerDelete).toEqual({ errors: [] });
    const instance = await ofInstance();
    const bulk = (...all: readonly { id: number }[]) =>
      `mutation { bulkRunnerDelete(input: { ids: [${all
        .map(({ id }) => `"${gidOf(id)}"`)
        .join()}] }) { errors deletedCount deletedIds } }`;
    // All or none.
    expect((await as(maintainer).graphql(bulk(two, instance))).errors).toHaveLength(1);
    expect((await as(maintainer).get(`/runners/${two.id}`)).status).toBe(200);
    expect((await as(maintainer).graphql(bulk(two, three))).data.bulkRunnerDelete).toEqual({
      errors: [],
      deletedCount: 2,
      deletedIds: [gidOf(two.id), gidOf(three.id)],
    });
    const many = Array.from({ length: 51 }, (_, i) => ({ id: i + 1 }));
    expect(JSON.stringify(await admin().graphql(bulk(...many)))).toContain('maximum is 50');
  });
});
