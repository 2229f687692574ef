import { beforeAll, describe, expect, it } from 'vitest';
import { insertMergeRequest } from '../merge-requests/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { privateWorld, type World } from './world.ts';

const app = useApp({ sweep: true });
let world: World;
let stranger: TestUser;

beforeAll(async () => {
  world = await privateWorld(app());
  stranger = await app().make.user();
});

describe('an id in a body or query', () => {
  it("gets the same answer for another user's record as for a missing one", async () => {
    const client = app().as(stranger);
    const mine = await app().make.project({}, stranger);
    const group = await app().make.group({}, stranger);
    const { id } = world.group;
    const nothing = 987_654_321;
    const asks = (of: number) => [
      client.post('/projects', { name: 'x', path: 'x', namespace_id: of }),
      client.post('/groups', { name: 'x', path: 'x', parent_id: of }),
      client.post(`/projects/${mine.id}/share`, { group_id: of, group_access: 30 }),
      client.post(`/groups/${group.id}/share`, { group_id: of, group_access: 30 }),
      client.post(`/groups/${group.id}/transfer`, { group_id: of }),
      client.delete(`/projects/${mine.id}/share/${of}`),
      client.get(`/groups?skip_groups[]=${of}&search=zzz`),
      client.get(`/namespaces/${of}`),
    ];
    const [there, absent] = await Promise.all([Promise.all(asks(id)), Promise.all(asks(nothing))]);
    const said = (answers: typeof there) => answers.map(({ status, body }) => ({ status, body }));
    expect(said(there)).toEqual(said(absent));
    expect(
      there
        .slice(0, 6)
        .map(({ status }) => status)
        .every((status) => status === 404),
    ).toBe(true);
  });

  it('gets the same answer for a restricted part of a public project as for a missing one', async () => {
    const guest = await app().make.user();
    const project = await app().make.project({ visibility: 'public', initialize_with_readme: true }, world.owner);
    await app().make.projectMember(project, guest, 10);
    const owner = app().as(world.owner);
    await owner.put(`/projects/${project.id}`, { merge_requests_access_level: 'private' });
    const mergeRequest = await insertMergeRequest(app().hub.services.db, { project_id: project.id });
    const [branch] = (await owner.get(`/projects/${project.id}/protected_branches`)).body;
    const asks = (client: Client, kind: string, id: number) =>
      client.graphql(
        kind === 'MergeRequest'
          ? `mutation { createNote(input: { noteableId: "gid://gitlab/MergeRequest/${id}", body: "x" }) { errors } }`
          : `mutation { branchRuleDelete(input: { id: "gid://gitlab/Projects::BranchRule/${id}" }) { errors } }`,
      );
    for (const client of [app().as(guest), app().as(stranger)]) {
      for (const [kind, id] of Object.entries({ MergeRequest: mergeRequest.id, BranchRule: branch.id })) {
        const [there, absent] = [await asks(client, kind, id), await asks(client, kind, 987_654_321)];
        expect([kind, there.errors?.[0]?.extensions?.code]).toEqual([kind, 'NOT_FOUND']);
        expect(there).toEqual(absent);
      }
    }
  });

  it('gets the same answer in a release for a foreign milestone as for a missing one, without repeating it', async () => {
    const mine = await app().make.project({ initialize_with_readme: true }, stranger);
    const client = app().as(stranger);
    const release = (milestones: Record<string, unknown>) =>
      client.post(`/projects/${mine.id}/releases`, { tag_name: 'v1', ref: 'main', ...milestones });
    const answers = [
      await release({ milestone_ids: [world.ids.milestone_id] }),
      await release({ milestone_ids: [world.ids.group_milestone] }),
      await release({ milestone_ids: [987_654_321] }),
      await release({ milestones: ['one'] }),
      await release({ milestones: ['<b>none such</b>'] }),
    ];
    for (const { status, body } of answers) {
      expect([status, body]).toEqual([400, { message: '400 Bad request - Milestone(s) not found' }]);
    }
    expect((await client.get(`/projects/${mine.id}/releases`)).body).toEqual([]);
  });

  it('reveals nothing in counts and totals of a search', async () => {
    for (const client of [app().as(stranger), app().anonymous]) {
      for (const path of [
        `/projects?search=${world.project.path}`,
        `/groups?search=${world.group.path}`,
        `/projects?id_after=0&search=${world.project.path}&search_namespaces=true`,
      ]) {
        const { status, headers, body } = await client.get(path);
        expect([path, status, body, headers.get('x-total')]).toEqual([path, 200, [], '0']);
      }
    }
  });

  it('does not reveal the owner of a taken path', async () => {
    // The caller must learn that a name is taken, but not who owns it.
    const taken = await app().as(stranger).post('/groups', { name: 'x', path: world.group.path });
    expect(taken.status).toBe(400);
    expect(JSON.stringify(taken.body)).not.toContain(world.owner.username);
  });
});

describe('access', () => {
  it('ends with the membership, at once', async () => {
    const member = await app().make.user();
    const client = app().as(member);
    await app().make.groupMember(world.group, member, 30);
    const path = `/projects/${world.project.id}`;
    expect((await client.get(path)).status).toBe(200);
    expect((await app().as(world.owner).delete(`/groups/${world.group.id}/members/${member.id}`)).status).toBe(204);
    expect((await client.get(path)).status).toBe(404);
    expect((await client.get('/projects?membership=true')).body).toEqual([]);
    const { data } = await client.graphql(`{ project(fullPath: "${world.project.path_with_namespace}") { id } }`);
    expect(data.project).toBeNull();
  });

  it('ends with the share and with the date of expiry, at once', async () => {
    const guest = await app().make.user();
    const friends = await app().make.group({}, guest);
    const client = app().as(guest);
    const path = `/projects/${world.project.id}`;
    const owner = app().as(world.owner);
    // Only a group that the caller can see can be invited.
    await app().make.groupMember(friends, world.owner, 30);
    expect(
      (await owner.post(`/groups/${world.group.id}/share`, { group_id: friends.id, group_access: 20 })).status,
    ).toBe(200);
    expect((await client.get(path)).status).toBe(200);
    expect((await client.put(path, { description: 'mine' })).status).toBe(403);
    expect((await owner.delete(`/groups/${world.group.id}/share/${friends.id}`)).status).toBe(204);
    expect((await client.get(path)).status).toBe(404);
    await app().make.projectMember(world.project, guest, 30, '2020-01-01');
    expect((await client.get(path)).status).toBe(404);
  });

  it('ends with the token and the account, in REST, GraphQL and git', async () => {
    const user = await app().make.user();
    const token = await app().tokenOf(user);
    const project = await app().make.project({ initialize_with_readme: true }, user);
    const ask = async () => {
      const headers = { 'private-token': token };
      const query = JSON.stringify({ query: '{ currentUser { username } }' });
      const basic = `Basic ${Buffer.from(`oauth2:${token}`).toString('base64')}`;
      const answers = await Promise.all([
        fetch(`${app().url}/api/v4/user`, { headers }),
        fetch(`${app().url}/api/v4/projects`, { headers }),
        fetch(`${app().url}/api/graphql`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: query,
        }),
        fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=git-upload-pack`, {
          headers: { authorization: basic },
        }),
      ]);
      for (const answer of answers) await answer.body?.cancel();
      return answers.map(({ status }) => status);
    };
    expect(await ask()).toEqual([200, 200, 200, 200]);
    const { db } = app().hub.services;
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', user.id).execute();
    for (const status of await ask()) expect([401, 403]).toContain(status);
    await db.updateTable('users').set({ state: 'active' }).where('id', '=', user.id).execute();
    expect(await ask()).toEqual([200, 200, 200, 200]);
    await db.updateTable('personal_access_tokens').set({ revoked: true }).where('user_id', '=', user.id).execute();
    expect(await ask()).toEqual([401, 401, 401, 401]);
  });

  it('never includes writes with a read scope', async () => {
    const client = app().as(world.owner, ['read_api']);
    await app().settle(); // Creating the project also updates `last_activity_at`.
    const before = (await client.get(`/projects/${world.project.id}`)).body;
    for (const [method, path, body] of [
      ['PUT', `/projects/${world.project.id}`, { name: 'other' }],
      ['DELETE', `/projects/${world.project.id}`, undefined],
      ['POST', '/groups', { name: 'x', path: 'xyz' }],
      ['POST', '/user/personal_access_tokens', { name: 'x', scopes: ['k8s_proxy'] }],
    ] as const) {
      const answer = await client.request(method, path, body);
      expect([answer.status, answer.body.error]).toEqual([403, 'insufficient_scope']);
    }
    const { errors } = await client.graphql(
      `mutation { projectUpdate(input: { fullPath: "${world.project.path_with_namespace}", description: "x" }) { errors } }`,
    );
    expect(errors).toHaveLength(1);
    const git = app().as(world.owner, ['read_repository', 'write_repository']);
    for (const path of ['/user', '/projects', `/projects/${world.project.id}`]) {
      expect([path, (await git.get(path)).status]).toEqual([path, 403]);
    }
    expect((await app().as(world.owner).get(`/projects/${world.project.id}`)).body).toEqual(before);
  });
});

describe('a token', () => {
  it('is stored only as a digest, and nowhere else', async () => {
    const user = await app().make.user();
    const made = await app()
      .as(app().root)
      .post(`/users/${user.id}/personal_access_tokens`, { name: 'made', scopes: ['api'], expires_at: tomorrow() });
    const { token } = made.body;
    // 160 bits take 27 characters in base64url.
    expect(token.replace(/^glpat-/, '').length).toBeGreaterThanOrEqual(27);
    await app().settle();
    const { rows: tables } = await app().hub.services.pool.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
    );
    for (const { name } of tables) {
      const { rows } = await app().hub.services.pool.query<{ found: number }>(
        `select count(*)::int as found from ${name} as t where position($1 in t::text) > 0`,
        [token],
      );
      expect([name, rows[0]?.found]).toEqual([name, 0]);
    }
    const shown = await app().as(app().root).get(`/personal_access_tokens/${made.body.id}`);
    expect(JSON.stringify(shown.body)).not.toContain(token);
  });
});

const tomorrow = (): string => new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
