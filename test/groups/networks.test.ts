import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { forgetRestrictions } from '#domains/access/restrictions.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const ELSEWHERE = '203.0.113.0/24, 2001:db8::/32';

/** Sets networks past the rule that Owners name their own: from then on the tests come from elsewhere. */
const restrict = async (id: number, ranges: string | null) => {
  await sql`update namespaces set ip_restriction_ranges = ${ranges} where id = ${id}`.execute(app().hub.services.db);
  forgetRestrictions(app().hub.services);
};

describe('ip_restriction_ranges', () => {
  it('hides what is not public from everywhere else, over REST, GraphQL and git', async () => {
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
    // Administrators can always set it right.
    expect((await app().as(app().root).get(`/groups/${group.id}`)).status).toBe(200);
    await restrict(group.id, '127.0.0.0/8,::1');
    expect(await seen()).toMatchObject(open);
  });

  it('leaves what is public as it is to strangers', async () => {
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

  it('is set by Owners on top-level groups, to networks that they are in', async () => {
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

  it('is taken away by an empty text, as forms and tools send it', async () => {
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
});
