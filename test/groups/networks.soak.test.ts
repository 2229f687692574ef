import { request } from 'node:http';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { forgetRestrictions } from '#domains/access/restrictions.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();
const [INSIDE, OUTSIDE] = ['127.0.0.1', '127.0.0.2'];
const ELSEWHERE = '203.0.113.0/24, 2001:db8::/32';

/** Sets networks without the rule that they must include the address of the Owner who sets them. */
const restrict = async (id: number, ranges: string | null) => {
  await sql`update namespaces set ip_restriction_ranges = ${ranges} where id = ${id}`.execute(app().hub.services.db);
  forgetRestrictions(app().hub.services);
};

/** Subscribes to events as the user, from a local address. */
const follow = async (user: TestUser, localAddress: string, scope = '') => {
  const stream = { text: '', ended: false, close: () => {} };
  const sent = request(`${app().url}/api/graphql`, {
    method: 'POST',
    localAddress,
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      'private-token': await app().tokenOf(user),
    },
  });
  stream.close = () => sent.destroy();
  sent.on('error', () => undefined);
  sent.on('response', (response) => {
    response.setEncoding('utf8').on('data', (chunk: string) => {
      stream.text += chunk;
      if (chunk.includes('event: complete')) stream.ended = true;
    });
    response
      .on('error', () => undefined)
      .on('close', () => {
        stream.ended = true;
      });
  });
  sent.end(JSON.stringify({ query: `subscription { events${scope} { kind payload } }` }));
  return stream;
};

describe('ip_restriction_ranges', () => {
  it.each([[[INSIDE, OUTSIDE]], [[OUTSIDE, INSIDE]]])(
    'checks each address of one user separately: subscribed from %j',
    async (addresses) => {
      const owner = await app().make.user();
      const [group, open] = [await app().make.group({}, owner), await app().make.group({}, owner)];
      const client = app().as(owner);
      const put = await client.put(`/groups/${group.id}`, { ip_restriction_ranges: `${INSIDE}/32` });
      expect(put.status).toBe(200);
      const streams: { address: string; stream: Awaited<ReturnType<typeof follow>> }[] = [];
      for (const address of addresses) {
        const stream = await follow(owner, address);
        streams.push({ address, stream });
        await until('the stream is open', async () => {
          await client.put(`/groups/${open.id}`, { description: `open ${performance.now()}` });
          return stream.text.includes('open ');
        });
      }
      await client.put(`/groups/${group.id}`, { description: 'for the network alone' });
      await client.put(`/groups/${open.id}`, { description: 'the last one' });
      await until('the last event has come', () => streams.every(({ stream }) => stream.text.includes('the last one')));
      const reached = streams.filter(({ stream }) => stream.text.includes('for the network alone'));
      expect(reached.map(({ address }) => address)).toEqual([INSIDE]);
      for (const { stream } of streams) stream.close();
    },
  );

  it('stops events on an open stream once a rule excludes its address', async () => {
    const owner = await app().make.user();
    const [group, open] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    const client = app().as(owner);
    const inside = await follow(owner, INSIDE);
    const outside = await follow(owner, OUTSIDE);
    const scoped = await follow(owner, OUTSIDE, `(scope: { groupPath: "${group.full_path}" })`);
    await until('all streams are open', async () => {
      await client.put(`/groups/${group.id}`, { description: `before ${performance.now()}` });
      return [inside, outside, scoped].every(({ text }) => text.includes('before '));
    });
    await client.put(`/groups/${group.id}`, { ip_restriction_ranges: `${INSIDE}/32` });
    await client.put(`/groups/${group.id}`, { description: 'for the network alone' });
    await client.put(`/groups/${open.id}`, { description: 'the last one' });
    await until('the last event has come', () => [inside, outside].every(({ text }) => text.includes('the last one')));
    await until('the stream of the group has ended', () => scoped.ended);
    expect(inside.text).toContain('for the network alone');
    for (const { text } of [outside, scoped]) expect(text).not.toContain('for the network alone');
    for (const stream of [inside, outside, scoped]) stream.close();
  });

  it('hides everything that is not public from other networks over REST, GraphQL and git', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const child = await app().make.group({ parent_id: group.id }, owner);
    const project = await app().make.project({ namespace_id: child.id, initialize_with_readme: true }, owner);
    const issue = await client.post(`/projects/${project.id}/issues`, { title: 'Here' });
    const git = async () =>
      (
        await fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=git-upload-pack`, {
          headers: { authorization: `Basic ${btoa(`x:${await app().tokenOf(owner)}`)}` },
        })
      ).status;
    const seen = async () => ({
      one: (await client.get(`/groups/${group.id}`)).status,
      below: (await client.get(`/groups/${child.id}`)).status,
      project: (await client.get(`/projects/${project.id}`)).status,
      groups: (await client.get('/groups')).body.length,
      all: (await client.get(`/groups?all_available=true&search=${group.path}`)).body.length,
      projects: (await client.get('/projects?membership=true')).body.length,
      issues: (await client.get('/issues?scope=all')).body.length,
      graphql: (await client.graphql(`{ group(fullPath: "${group.full_path}") { id } }`)).data.group !== null,
      git: await git(),
    });
    expect(issue.status).toBe(201);
    const open = { one: 200, below: 200, project: 200, groups: 2, projects: 1, issues: 1, graphql: true, git: 200 };
    expect(await seen()).toMatchObject(open);
    await restrict(group.id, ELSEWHERE);
    expect(await seen()).toEqual({
      one: 404,
      below: 404,
      project: 404,
      groups: 0,
      all: 0,
      projects: 0,
      issues: 0,
      graphql: false,
      git: 404,
    });
    expect((await client.put(`/groups/${group.id}`, { description: 'changed' })).status).toBe(404);
    // Administrators can always correct the setting.
    expect((await app().as(app().root).get(`/groups/${group.id}`)).status).toBe(200);
    await restrict(group.id, '127.0.0.0/8,::1');
    expect(await seen()).toMatchObject(open);
  });

  it('leaves public groups as visible as they are to strangers', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'public' }, owner);
    const internal = await app().make.group({ parent_id: group.id, visibility: 'internal' }, owner);
    await restrict(group.id, ELSEWHERE);
    const client = app().as(owner);
    expect((await client.get(`/groups/${group.id}`)).status).toBe(200);
    expect((await client.get(`/groups/${internal.id}`)).status).toBe(404);
    expect((await client.put(`/groups/${group.id}`, { description: 'changed' })).status).toBe(403);
    expect((await client.get(`/groups/${group.id}/subgroups?all_available=true`)).body).toEqual([]);
  });

  it('gives members no role in a public project from other networks', async () => {
    const [owner, developer] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'public' }, owner);
    const attributes = { namespace_id: group.id, visibility: 'public', initialize_with_readme: true };
    const project = await app().make.project(attributes, owner);
    await app().make.projectMember(project, developer, 30);
    const path = `/projects/${project.id}`;
    const ask = async () => {
      const { permissions } = (await app().as(owner).get(path)).body;
      return {
        permissions,
        edit: (await app().as(owner).put(path, { description: 'changed' })).status,
        hooks: (await app().as(owner).get(`${path}/hooks`)).status,
        push: (await app().as(developer).post(`${path}/repository/branches`, { branch: 'b', ref: 'main' })).status,
        level: (
          await app()
            .as(owner)
            .graphql(`{ project(fullPath: "${project.path_with_namespace}") { maxAccessLevel { integerValue } } }`)
        ).data.project.maxAccessLevel.integerValue,
      };
    };
    await restrict(group.id, ELSEWHERE);
    expect(await ask()).toMatchObject({
      permissions: { project_access: null, group_access: null },
      edit: 403,
      hooks: 403,
      push: 403,
      level: 0,
    });
    await restrict(group.id, null);
    expect(await ask()).toMatchObject({
      permissions: { group_access: { access_level: 50 } },
      edit: 200,
      hooks: 200,
      push: 201,
      level: 50,
    });
  });

  it('is set by Owners on top-level groups, to networks that include their own address', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const child = await app().make.group({ parent_id: group.id }, owner);
    const set = (id: number, ip_restriction_ranges: string) => client.put(`/groups/${id}`, { ip_restriction_ranges });
    for (const wrong of ['300.0.0.1', '10.0.0.0/33', 'nonsense', '10.0.0.0/8;', ELSEWHERE]) {
      const { status, body } = await set(group.id, wrong);
      expect([wrong, status]).toEqual([wrong, 400]);
      expect(Object.keys(body.message)).toEqual(['ip_restriction_ranges']);
    }
    expect((await set(child.id, '127.0.0.0/8')).status).toBe(400);
    expect((await set(group.id, `127.0.0.0/8,${ELSEWHERE}`)).status).toBe(200);
    expect((await client.get(`/groups/${group.id}`)).body.ip_restriction_ranges).toBe(`127.0.0.0/8,${ELSEWHERE}`);
    const asRoot = await app().as(app().root).put(`/groups/${group.id}`, { ip_restriction_ranges: ELSEWHERE });
    expect(asRoot.status).toBe(200);
    expect((await client.get(`/groups/${group.id}`)).status).toBe(404);
  });

  it('is removed by an empty text, as forms and tools send it', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const set = (ip_restriction_ranges: string) => client.put(`/groups/${group.id}`, { ip_restriction_ranges });
    for (const empty of ['', '  ']) {
      expect((await set('127.0.0.0/8')).body.ip_restriction_ranges).toBe('127.0.0.0/8');
      const { status, body } = await set(empty);
      expect([status, body.ip_restriction_ranges]).toEqual([200, null]);
    }
  });

  it('ends when the group moves below another, where the networks of the top-level group count', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({}, owner);
    const place = await app().make.group({}, owner);
    await client.put(`/groups/${group.id}`, { ip_restriction_ranges: '127.0.0.0/8' });
    const move = (to?: number) => client.post(`/groups/${group.id}/transfer`, to === undefined ? {} : { group_id: to });
    expect((await move(place.id)).status).toBe(201);
    expect((await client.get(`/groups/${group.id}`)).body.ip_restriction_ranges).toBeNull();
    expect((await move()).status).toBe(201);
    expect((await client.get(`/groups/${group.id}`)).body.ip_restriction_ranges).toBeNull();
  });
});
