import { beforeAll, describe, expect, it } from 'vitest';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';

// Section 9 of the three specifications, row by row: version 4 keeps what version 5 removes.

const app = useApp();
const admin = () => app().as(app().root);
const owned = () => app().as(owner);
const v5 = (path: string) => `/api/v5${path}`;

let owner: TestUser;
let project: TestProject;
let iid: number;

beforeAll(async () => {
  const { make } = app();
  owner = await make.user();
  project = await make.project({ visibility: 'private', initialize_with_readme: true, topics: ['tools'] }, owner);
  const at = `/projects/${project.id}`;
  await owned().post(`${at}/repository/commits`, {
    branch: 'feature',
    start_branch: 'main',
    commit_message: 'Add a file',
    actions: [{ action: 'create', file_path: 'a.txt', content: 'a\n' }],
  });
  const opened = await owned().post(`${at}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'A',
  });
  iid = opened.body.iid;
  await app().settle();
});

/** Compares the keys of both versions: returns those that only version 4 has. */
const removedKeys = async (path: string, client = owned()): Promise<readonly string[]> => {
  const [before, after] = [await client.get(path), await client.get(v5(path))];
  expect([before.status, after.status]).toEqual([200, 200]);
  const [old, now] = [before, after].map(({ body }) => (Array.isArray(body) ? body[0] : body));
  for (const [name, value] of Object.entries(now)) {
    if (!(name in old)) throw new Error(`only version 5 has ${name}: ${JSON.stringify(value)}`);
  }
  return Object.keys(old)
    .filter((name) => !(name in now))
    .sort();
};

const refused = (problem: string) => ({ status: 400, body: { error: problem } });

describe('version 5', () => {
  it('removes attributes of projects, in both forms', async () => {
    const gone = ['approvals_before_merge', 'container_registry_enabled', 'marked_for_deletion_at', 'tag_list'];
    expect(await removedKeys(`/projects/${project.id}`)).toEqual(gone);
    expect(await removedKeys('/projects?membership=true')).toEqual(gone);
    expect(await removedKeys('/projects?membership=true&simple=true')).toEqual(['tag_list']);
    expect(await removedKeys(`/users/${owner.id}/projects`)).toEqual(gone);
    const { body } = await owned().get(v5(`/projects/${project.id}`));
    expect(body).toMatchObject({ topics: ['tools'], container_registry_access_level: 'enabled' });
  });

  it('refuses the parameters of those attributes, with their replacement', async () => {
    const at = `/projects/${project.id}`;
    const rules = 'use approval rules';
    const cases = [
      [{ tag_list: ['a'] }, 'tag_list was removed in version 5 of the API: use `topics`'],
      [
        { container_registry_enabled: false },
        'container_registry_enabled was removed in version 5 of the API: use `container_registry_access_level`',
      ],
      [{ approvals_before_merge: 2 }, `approvals_before_merge was removed in version 5 of the API: ${rules}`],
    ] as const;
    for (const [body, problem] of cases) expect(await owned().put(v5(at), body)).toMatchObject(refused(problem));
    const several = await owned().put(v5(at), { tag_list: ['a'], approvals_before_merge: 2, description: 'changed' });
    expect(several.body.error.split(', ').sort()).toEqual([cases[2][1], cases[0][1]]);
    expect((await owned().get(at)).body).toMatchObject({ topics: ['tools'], description: null });
    expect((await owned().put(v5(at), { topics: ['kits'] })).body.topics).toEqual(['kits']);
    expect((await owned().put(at, { tag_list: ['tools'] })).body).toMatchObject({
      topics: ['tools'],
      tag_list: ['tools'],
    });
    const form = new FormData();
    form.append('path', 'imported');
    form.append('file', new Blob(['x']), 'a.tar.gz');
    form.append('override_params[tag_list]', 'a');
    expect(await owned().post(v5('/projects/import'), form)).toMatchObject(
      refused('override_params[tag_list] was removed in version 5 of the API: use `topics`'),
    );
  });

  it('removes attributes of merge requests, in lists, one by one and in answers to changes', async () => {
    const gone = ['approvals_before_merge', 'merge_status', 'merged_by', 'reference'];
    const at = `/projects/${project.id}/merge_requests`;
    expect(await removedKeys(`${at}/${iid}`)).toEqual(gone);
    expect(await removedKeys(at)).toEqual(gone);
    expect(await removedKeys('/merge_requests?scope=all')).toEqual(gone);
    expect(await removedKeys(`${at}?view=simple`)).toEqual([]);
    const changed = await owned().put(v5(`${at}/${iid}`), { title: 'B' });
    expect(changed.body).toMatchObject({
      title: 'B',
      references: { short: `!${iid}` },
      detailed_merge_status: 'mergeable',
    });
    expect(changed.body).not.toHaveProperty('merge_status');
    const opening = { source_branch: 'main', target_branch: 'other', title: 'C', approvals_before_merge: 1 };
    await owned().post(`/projects/${project.id}/repository/branches`, { branch: 'other', ref: 'main' });
    expect(await owned().post(v5(at), opening)).toMatchObject(
      refused('approvals_before_merge was removed in version 5 of the API: use approval rules'),
    );
    expect(await owned().post(at, opening)).toMatchObject({ status: 201, body: { approvals_before_merge: 1 } });
  });

  it('has no endpoint for the changes of a merge request', async () => {
    const at = `/projects/${project.id}/merge_requests/${iid}`;
    expect((await owned().get(`${at}/changes`)).body.changes).toHaveLength(1);
    const gone = await owned().get(v5(`${at}/changes`));
    expect(gone).toMatchObject({
      status: 404,
      body: {
        error:
          '404 Not Found: GET /projects/:id/merge_requests/:merge_request_iid/changes was removed in version 5 of the API: use GET /projects/:id/merge_requests/:merge_request_iid/diffs',
      },
    });
    // The answer is the same for everyone, so it reveals nothing.
    expect((await app().anonymous.get(v5(`${at}/changes`))).body).toEqual(gone.body);
    expect((await owned().post(v5(`${at}/changes`))).status).toBe(404);
    expect((await owned().post(`${at}/changes`)).status).toBe(405);
    expect((await owned().get(v5(`${at}/diffs`))).body).toHaveLength(1);
  });

  it('removes approvers, numbers and the older name of re-authentication from approvals', async () => {
    const at = `/projects/${project.id}`;
    const gone = ['approvals_before_merge', 'approver_groups', 'approvers', 'require_password_to_approve'];
    expect(await removedKeys(`${at}/approvals`)).toEqual(gone);
    expect(await removedKeys(`${at}/merge_request_approval_setting`)).toEqual(['require_password_to_approve']);
    expect(await removedKeys(`${at}/merge_requests/${iid}/approvals`)).toEqual([
      'approver_groups',
      'approvers',
      'merge_status',
      'require_password_to_approve',
    ]);
    const problem =
      'require_password_to_approve was removed in version 5 of the API: use `require_reauthentication_to_approve`';
    const old = { require_password_to_approve: true };
    expect(await owned().post(v5(`${at}/approvals`), old)).toMatchObject(refused(problem));
    expect(await owned().put(v5(`${at}/merge_request_approval_setting`), old)).toMatchObject(refused(problem));
    expect(await owned().post(v5(`${at}/approvals`), { approvals_before_merge: 1 })).toMatchObject({ status: 400 });
    // In version 4 the newer name wins.
    const both = { ...old, require_reauthentication_to_approve: false };
    expect((await owned().post(`${at}/approvals`, both)).body.require_reauthentication_to_approve).toBe(false);
    expect(await owned().post(v5(`${at}/merge_requests/${iid}/approvals`), { approvals_required: 1 })).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining('use approval rules') },
    });
  });

  it('accepts no null for the private profile of a user', async () => {
    const user = await app().make.user();
    const problem = 'private_profile must be true or false, not null';
    for (const private_profile of [null, '']) {
      expect(await admin().put(v5(`/users/${user.id}`), { private_profile })).toMatchObject(refused(problem));
      expect((await admin().put(`/users/${user.id}`, { private_profile })).status).toBe(200);
    }
    expect((await admin().put(v5(`/users/${user.id}`), { private_profile: true })).body.private_profile).toBe(true);
    const fresh = { username: 'fresh', name: 'Fresh', email: 'fresh@example.com', force_random_password: true };
    expect(await admin().post(v5('/users'), { ...fresh, private_profile: null })).toMatchObject(refused(problem));
    expect((await admin().post(v5('/users'), { ...fresh, private_profile: 'false' })).status).toBe(201);
  });

  it('shows the day of activities once', async () => {
    expect(await removedKeys('/user/activities', admin())).toEqual(['last_activity_at']);
  });

  it('removes the number for the protection of the default branch', async () => {
    const group = await app().make.group({}, owner);
    expect(await removedKeys(`/groups/${group.id}`)).toEqual(['default_branch_protection']);
    expect(await removedKeys('/groups?owned=true')).toEqual(['default_branch_protection']);
    expect(await owned().put(v5(`/groups/${group.id}`), { default_branch_protection: 0 })).toMatchObject(
      refused(
        'default_branch_protection was removed in version 5 of the API: use `default_branch_protection_defaults`',
      ),
    );
    const changed = await owned().put(v5(`/groups/${group.id}`), {
      default_branch_protection_defaults: { allow_force_push: true },
    });
    expect(changed.body.default_branch_protection_defaults.allow_force_push).toBe(true);
    // Projects inside the record of a group follow the rules of projects.
    await app().make.project({ namespace_id: group.id }, owner);
    const { projects } = (await owned().get(v5(`/groups/${group.id}`))).body;
    expect(projects[0]).not.toHaveProperty('tag_list');
  });

  it('removes deprecated names of settings', async () => {
    const path = '/application/settings';
    const alias = 'allow_local_requests_from_hooks_and_services';
    expect(await removedKeys(path, admin())).toContain(alias);
    expect(await admin().put(v5(path), { [alias]: true })).toMatchObject(
      refused(`${alias} was removed in version 5 of the API: use \`allow_local_requests_from_web_hooks_and_services\``),
    );
  });

  it('has geo_sites in place of geo_nodes, for administrators', async () => {
    for (const path of ['', '/status']) {
      for (const name of ['/geo_nodes', '/geo_sites']) {
        expect(await admin().get(name + path)).toMatchObject({ status: 200, body: [] });
        expect((await owned().get(name + path)).status).toBe(403);
        expect((await app().anonymous.get(name + path)).status).toBe(401);
      }
      expect((await admin().get(v5(`/geo_sites${path}`))).body).toEqual([]);
      expect(await admin().get(v5(`/geo_nodes${path}`))).toMatchObject({
        status: 404,
        body: { error: expect.stringMatching(`: use GET /geo_sites${path}$`) },
      });
    }
    expect(await admin().get('/geo_sites/1')).toMatchObject({
      status: 404,
      body: { message: '404 Geo Site Not Found' },
    });
    expect((await admin().get('/geo_nodes/1')).status).toBe(404);
  });

  it('has no managed licenses', async () => {
    const at = `/projects/${project.id}/managed_licenses`;
    expect(await owned().get(at)).toMatchObject({ status: 200, body: [] });
    expect((await owned().get(`${at}/1`)).status).toBe(404);
    expect(
      (
        await app()
          .as(await app().make.user())
          .get(at)
      ).status,
    ).toBe(404);
    expect(await owned().get(v5(at))).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining('license approval policies') },
    });
    expect((await owned().get(v5(`${at}/1`))).status).toBe(404);
  });
});

describe('the preview', () => {
  it('keeps the version of its callers in links, headers and redirects', async () => {
    const base = `${app().url}/api/v5/projects`;
    const at = `/projects/${project.id}`;
    const { body } = await owned().get(v5(at));
    expect(body._links).toMatchObject({ self: `${base}/${project.id}`, labels: `${base}/${project.id}/labels` });
    await owned().post(`${at}/labels`, { name: 'one', color: '#112233' });
    await owned().post(`${at}/labels`, { name: 'two', color: '#112233' });
    const page = await owned().get(v5(`${at}/labels?per_page=1`));
    expect(page.headers.get('link')).toContain(`<${base}/${project.id}/labels?page=2&per_page=1>; rel="next"`);
    const issue = await owned().post(v5(`${at}/issues`), { title: 'An issue' });
    expect(issue.body._links.self).toBe(`${base}/${project.id}/issues/${issue.body.iid}`);
    const release = await owned().post(v5(`${at}/releases`), { tag_name: 'v1', ref: 'main' });
    expect(release.body.assets.sources[0].url).toContain(`${base}/${project.id}/repository/archive`);
    const link = await owned().post(v5(`${at}/releases/v1/assets/links`), {
      name: 'elsewhere',
      url: 'https://files.example/api/v4/file',
    });
    expect(link.body.direct_asset_url).toBe('https://files.example/api/v4/file');
    const old = project.path_with_namespace;
    await owned().put(at, { path: 'renamed' });
    const moved = await fetch(`${app().url}/api/v5/projects/${encodeURIComponent(old)}/labels`, {
      headers: { 'private-token': await app().tokenOf(owner) },
      redirect: 'manual',
    });
    expect(moved.headers.get('location')).toBe(`${base}/${project.id}/labels`);
    expect((await owned().get(v5('/openapi.json'))).body.paths).toHaveProperty('/api/v5/geo_sites');
    expect((await owned().get(v5('/nothing'))).body).toEqual({ error: '404 Not Found' });
  });

  it('takes a token from headers, but not from the query', async () => {
    const token = await app().tokenOf(owner);
    const problem =
      'access_token in the query was removed in version 5 of the API: use the header `Authorization: Bearer`';
    expect((await app().anonymous.get(`/user?access_token=${token}`)).status).toBe(200);
    expect(await app().anonymous.get(v5(`/user?access_token=${token}`))).toMatchObject(refused(problem));
    const bearer = { authorization: `Bearer ${token}` };
    expect((await app().anonymous.get(v5('/user'), bearer)).body.id).toBe(owner.id);
  });

  it('describes an OAuth token under the new names', async () => {
    const value = randomToken(43);
    await app()
      .hub.services.db.insertInto('oauth_access_tokens')
      .values({ user_id: owner.id, digest: digestToken(value), scopes: ['api'], family_id: crypto.randomUUID() })
      .execute();
    const bearer = { authorization: `Bearer ${value}` };
    const old = await app().anonymous.get(`${app().url}/oauth/token/info`, bearer);
    const now = await app().anonymous.get(v5('/oauth/token/info'), bearer);
    const { scopes, expires_in_seconds, ...rest } = old.body;
    expect([scopes, expires_in_seconds]).toEqual([rest.scope, rest.expires_in]);
    expect(now).toMatchObject({ status: 200, body: rest });
    expect(Object.keys(now.body)).toEqual(Object.keys(rest));
    const inQuery = `/oauth/token/info?access_token=${value}`;
    expect((await app().anonymous.get(app().url + inQuery)).status).toBe(200);
    expect((await app().anonymous.get(v5(inQuery))).status).toBe(400);
  });

  it('is off if its setting is', async () => {
    await admin().put('/application/settings', { api_v5_preview_enabled: false });
    expect(await owned().get(v5('/user'))).toMatchObject({ status: 404, body: { error: '404 Not Found' } });
    expect((await owned().get(v5('/openapi.json'))).status).toBe(404);
    expect((await owned().get('/user')).status).toBe(200);
    await admin().put('/application/settings', { api_v5_preview_enabled: true });
    expect((await owned().get(v5('/user'))).status).toBe(200);
  });
});
