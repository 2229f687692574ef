import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();

const encoded = (path: string) => encodeURIComponent(path);

describe('POST /groups', () => {
  it('creates a group with every field of the record, and makes its creator the owner', async () => {
    const owner = await app().make.user();
    const answer = await app().as(owner).post('/groups', {
      name: 'Complete',
      path: 'complete',
      description: 'All of it',
      visibility: 'internal',
      project_creation_level: 'maintainer',
      subgroup_creation_level: 'owner',
      default_branch_protection: 1,
      emails_disabled: 'True',
      duo_features_enabled: false,
      two_factor_grace_period: '12',
    });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({
      id: answer.body.id,
      web_url: `${app().url}/groups/complete`,
      name: 'Complete',
      path: 'complete',
      description: 'All of it',
      visibility: 'internal',
      share_with_group_lock: false,
      require_two_factor_authentication: false,
      two_factor_grace_period: 12,
      project_creation_level: 'maintainer',
      auto_devops_enabled: null,
      subgroup_creation_level: 'owner',
      emails_disabled: true,
      emails_enabled: false,
      mentions_disabled: null,
      lfs_enabled: true,
      math_rendering_limits_enabled: true,
      lock_math_rendering_limits_enabled: false,
      default_branch: null,
      default_branch_protection: 1,
      default_branch_protection_defaults: {
        allowed_to_push: [{ access_level: 30 }],
        allow_force_push: false,
        allowed_to_merge: [{ access_level: 30 }],
        developer_can_initial_push: false,
        code_owner_approval_required: false,
      },
      avatar_url: null,
      request_access_enabled: true,
      full_name: 'Complete',
      full_path: 'complete',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      parent_id: null,
      organization_id: 1,
      shared_runners_setting: 'enabled',
      file_template_project_id: null,
      wiki_access_level: 'enabled',
      assistant_features_enabled: false,
      lock_assistant_features_enabled: false,
      marked_for_deletion_on: null,
      repository_storage: 'default',
      ip_restriction_ranges: null,
      ldap_cn: null,
      ldap_access: null,
      service_access_tokens_expiration_enforced: true,
      shared_with_groups: [],
    });
    const members = await app().as(owner).get('/groups/complete/members');
    expect(members.body).toMatchObject([{ id: owner.id, access_level: 50 }]);
  });

  it('creates subgroups below their parent, never more visible than the parent', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const parent = await app().make.group({ visibility: 'internal', name: 'Par ent' }, owner);
    const child = await client.post('/groups', { name: 'Ch ild', path: 'child', parent_id: parent.id });
    expect(child.body).toMatchObject({
      full_path: `${parent.path}/child`,
      full_name: 'Par ent / Ch ild',
      parent_id: parent.id,
      visibility: 'private',
    });
    const refused = await client.post('/groups', { name: 'x', path: 'x', parent_id: parent.id, visibility: 'public' });
    expect([refused.status, refused.body]).toEqual([
      400,
      {
        message: {
          visibility_level: ['public is not allowed since the parent group has a internal visibility.'],
        },
      },
    ]);
  });

  it.each([
    [{ path: 'a' }, { error: 'name is missing' }],
    [{ name: 'a' }, { error: 'path is missing' }],
    [
      { name: 'a', path: 'a', visibility: 'secret' },
      { error: 'visibility does not have a valid value (allowed: private, internal, public)' },
    ],
    [{ name: ' ', path: 'fine' }, { message: { name: ["can't be blank"] } }],
    [{ name: 'a', path: 'a/b' }, { message: { path: [expect.stringContaining('can contain only letters')] } }],
    [{ name: 'a', path: '-a' }, { message: { path: [expect.stringContaining("Cannot start with '-'")] } }],
    [{ name: 'a', path: 'a.git' }, { message: { path: [expect.stringContaining("'.git'")] } }],
    [{ name: 'a', path: 'Api' }, { message: { path: ['is a reserved name'] } }],
    [{ name: 'a'.repeat(256), path: 'fine' }, { message: { name: ['is too long (maximum is 255 characters)'] } }],
    [
      { name: 'a', path: 'a', default_branch_protection_defaults: { allowed_to_push: [{ access_level: 35 }] } },
      { message: { default_branch_protection_defaults: ['is invalid'] } },
    ],
    [
      { name: 'a', path: 'a', default_branch_protection_defaults: { allowed_to_push: 'Developers' } },
      { error: 'default_branch_protection_defaults[allowed_to_push] is invalid' },
    ],
    [
      { name: 'a', path: 'a', default_branch_protection_defaults: { allow_force_push: 'perhaps' } },
      { error: 'default_branch_protection_defaults[allow_force_push] is invalid (allowed: true, false)' },
    ],
  ])('refuses %j', async (body, expected) => {
    const answer = await app().as(app().root).post('/groups', body);
    expect([answer.status, answer.body]).toEqual([400, expected]);
  });

  it('keeps the default branch protection settings that are not given', async () => {
    const group = await app().make.group();
    const client = app().as(app().root);
    const protection = {
      allowed_to_push: [{ access_level: 30 }],
      allow_force_push: true,
      allowed_to_merge: [{ access_level: 30 }],
      developer_can_initial_push: true,
      code_owner_approval_required: true,
    };
    const created = await client.post('/groups', {
      name: 'Guarded',
      path: 'guarded',
      default_branch_protection_defaults: protection,
    });
    expect([created.status, created.body.default_branch_protection_defaults]).toEqual([201, protection]);
    const before = (await client.get('/application/settings')).body.default_branch_protection_defaults;
    await client.put('/application/settings', { default_branch_protection_defaults: protection });
    const partly = await client.post('/groups', {
      name: 'Partly guarded',
      path: 'partly-guarded',
      default_branch_protection_defaults: { allow_force_push: false },
    });
    await client.put('/application/settings', { default_branch_protection_defaults: { allowed_to_push: [] } });
    const closed = await client.put(`/groups/${group.id}`, {
      default_branch_protection_defaults: { allow_force_push: false },
    });
    await client.put('/application/settings', { default_branch_protection_defaults: before });
    expect([closed.status, closed.body.default_branch_protection_defaults]).toEqual([
      200,
      { ...protection, allowed_to_push: [], allow_force_push: false },
    ]);
    expect(partly.body.default_branch_protection_defaults).toEqual({ ...protection, allow_force_push: false });
    const put = async (given: object) =>
      (await client.put(`/groups/${group.id}`, { default_branch_protection_defaults: given })).body
        .default_branch_protection_defaults;
    expect(await put(protection)).toMatchObject(protection);
    expect(await put({ allowed_to_push: [{ access_level: 40 }] })).toMatchObject({
      ...protection,
      allowed_to_push: [{ access_level: 40 }],
    });
    const form = new URLSearchParams({ 'default_branch_protection_defaults[allow_force_push]': 'false' });
    const { body } = await client.put(`/groups/${group.id}`, form);
    expect(body.default_branch_protection_defaults).toMatchObject({
      ...protection,
      allowed_to_push: [{ access_level: 40 }],
      allow_force_push: false,
    });
    const levels = 'default_branch_protection_defaults[allowed_to_merge]';
    for (const [first, second] of [
      ['[][access_level]', '[][access_level]'],
      ['[0][access_level]', '[1][access_level]'],
    ]) {
      await put({ allowed_to_merge: [{ access_level: 0 }] });
      const pairs = new URLSearchParams([
        [`${levels}${first}`, '30'],
        [`${levels}${second}`, '60'],
      ]);
      const answer = await client.put(`/groups/${group.id}`, pairs);
      expect([answer.status, answer.body.default_branch_protection_defaults?.allowed_to_merge]).toEqual([
        200,
        [{ access_level: 30 }, { access_level: 60 }],
      ]);
    }
  });

  it('refuses a path that is taken by a group, a user or a project, in any case', async () => {
    const { make, as, root } = app();
    const user = await make.user({ username: 'somebody' });
    const group = await make.group({ path: 'taken' });
    const project = await make.project({ namespace_id: group.id });
    const taken = { message: { path: ['has already been taken'] } };
    for (const body of [
      { name: 'x', path: 'Taken' },
      { name: 'x', path: user.username.toUpperCase() },
      { name: 'x', path: project.path.toUpperCase(), parent_id: group.id },
    ]) {
      const answer = await as(root).post('/groups', body);
      expect([answer.status, answer.body]).toEqual([400, taken]);
    }
    const both = await Promise.all(['race', 'Race'].map((path) => as(root).post('/groups', { name: 'x', path })));
    expect(both.map((answer) => answer.status).toSorted()).toEqual([201, 400]);
    for (let i = 0; i < 5; i++) {
      const body = { name: `both${i}`, path: `both${i}` };
      const kinds = await Promise.all([
        as(root).post('/groups', { ...body, parent_id: group.id }),
        as(root).post('/projects', { ...body, namespace_id: group.id }),
      ]);
      expect(kinds.map((answer) => answer.status).toSorted()).toEqual([201, 400]);
    }
  });

  it('requires permission to create groups', async () => {
    const { make, as, root } = app();
    const body = { name: 'mine', path: 'mine' };
    expect((await app().anonymous.post('/groups', body)).status).toBe(401);
    expect((await as(await make.user({ can_create_group: false })).post('/groups', body)).status).toBe(403);
    const external = as(await make.user({ external: true }));
    expect((await external.post('/groups', body)).status).toBe(403);
    expect((await external.get('/user')).body.can_create_group).toBe(false);
    expect((await external.graphql('{ currentUser { canCreateGroup } }')).data.currentUser.canCreateGroup).toBe(false);
    expect((await as(await make.user(), ['read_api']).post('/groups', body)).status).toBe(403);
    const hidden = await make.group();
    const answer = await as(await make.user()).post('/groups', { ...body, parent_id: hidden.id });
    expect([answer.status, answer.body]).toEqual([404, { message: '404 Group Not Found' }]);
    expect((await as(root).get('/groups/mine')).status).toBe(404);
  });
});

describe('PUT /groups/:id', () => {
  it('renames a group with everything below, and redirects old paths', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const client = as(owner);
    const top = await make.group({ name: 'Old', path: 'old-top' }, owner);
    const below = await make.group({ name: 'Below', path: 'below', parent_id: top.id }, owner);
    const project = await make.project({ namespace_id: below.id, name: 'Thing', path: 'thing' }, owner);
    const answer = await client.put('/groups/old-top', { name: 'New', path: 'new-top' });
    expect([answer.status, answer.body.full_path, answer.body.full_name]).toEqual([200, 'new-top', 'New']);
    expect((await client.get(`/groups/${below.id}`)).body).toMatchObject({
      full_path: 'new-top/below',
      full_name: 'New / Below',
    });
    expect((await client.get(`/projects/${project.id}`)).body).toMatchObject({
      path_with_namespace: 'new-top/below/thing',
      name_with_namespace: 'New / Below / Thing',
    });
    const moved = await client.get(`/groups/${encoded('old-top/below')}?with_projects=false`);
    expect([moved.status, moved.headers.get('location')]).toEqual([
      301,
      `${app().url}/api/v4/groups/${below.id}?with_projects=false`,
    ]);
    const movedProject = await client.get(`/projects/${encoded('old-top/below/thing')}`);
    expect([movedProject.status, movedProject.headers.get('location')]).toEqual([
      301,
      `${app().url}/api/v4/projects/${project.id}`,
    ]);
    // The redirect reveals nothing to strangers, and other methods are not redirected.
    expect((await as(await make.user()).get(`/groups/${encoded('old-top/below')}`)).status).toBe(404);
    expect((await client.put('/groups/old-top', { name: 'Again' })).status).toBe(404);
    // A new group at the old path takes precedence.
    const heir = await make.group({ path: 'old-top' }, owner);
    expect((await client.get('/groups/old-top')).body.id).toBe(heir.id);
  });

  it('changes only the given attributes', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const group = await make.group({ description: 'kept' }, owner);
    const before = (await as(owner).get(`/groups/${group.id}`)).body;
    const answer = await as(owner).put(`/groups/${group.id}`, { lfs_enabled: false, mentions_disabled: true });
    const { projects: _projects, shared_projects: _shared, ...rest } = before;
    expect(answer.body).toEqual({ ...rest, lfs_enabled: false, mentions_disabled: true });
  });

  it('keeps the group at least as visible as its contents and at most as visible as its parent', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const client = as(owner);
    const parent = await make.group({ visibility: 'public' }, owner);
    const group = await make.group({ visibility: 'internal', parent_id: parent.id }, owner);
    await make.group({ visibility: 'internal', parent_id: group.id }, owner);
    await make.project({ visibility: 'internal', namespace_id: group.id }, owner);
    const lower = await client.put(`/groups/${group.id}`, { visibility: 'private' });
    expect([lower.status, lower.body]).toEqual([
      400,
      {
        message: {
          visibility_level: [
            'private is not allowed since there are sub-groups with higher visibility.',
            'private is not allowed since this group contains projects with higher visibility.',
          ],
        },
      },
    ]);
    expect((await client.put(`/groups/${group.id}`, { visibility: 'public' })).status).toBe(200);
    expect((await client.put(`/groups/${parent.id}`, { visibility: 'internal' })).status).toBe(400);
    expect((await client.get(`/groups/${parent.id}`)).body.visibility).toBe('public');
  });

  it('reserves restricted visibilities for administrators', async () => {
    const { make, as, root } = app();
    const owner = await make.user();
    const group = await make.group({}, owner);
    await as(root).put('/application/settings', { restricted_visibility_levels: ['public'] });
    try {
      const answer = await as(owner).put(`/groups/${group.id}`, { visibility: 'public' });
      expect([answer.status, answer.body.message.visibility_level]).toEqual([
        400,
        ['public has been restricted by your administrator'],
      ]);
      expect((await as(root).put(`/groups/${group.id}`, { visibility: 'public' })).status).toBe(200);
      // The group may keep the visibility that it has.
      expect((await as(owner).put(`/groups/${group.id}`, { visibility: 'public', name: 'Other' })).status).toBe(200);
    } finally {
      await as(root).put('/application/settings', { restricted_visibility_levels: [] });
    }
  });
});

describe('restricted visibilities', () => {
  it('block the transfer of a group that contains them at any depth', async () => {
    const { make, as, root } = app();
    const owner = await make.user();
    const [group, target] = [
      await make.group({ visibility: 'public' }, owner),
      await make.group({ visibility: 'public' }, owner),
    ];
    const child = await make.group({ parent_id: group.id, visibility: 'public' }, owner);
    await make.project({ namespace_id: child.id, visibility: 'internal' }, owner);
    const move = (user: TestUser) => as(user).post(`/groups/${group.id}/transfer`, { group_id: target.id });
    await as(root).put('/application/settings', { restricted_visibility_levels: ['internal'] });
    try {
      const refused = await move(owner);
      expect([refused.status, refused.body.message.visibility_level]).toEqual([
        400,
        ['internal has been restricted by your administrator'],
      ]);
      expect((await as(owner).get(`/groups/${group.id}`)).body.parent_id).toBeNull();
      expect((await move(root)).status).toBe(201);
    } finally {
      await as(root).put('/application/settings', { restricted_visibility_levels: [] });
    }
  });

  it('are never the default of a new group', async () => {
    const { make, as, root } = app();
    const owner = await make.user();
    const settings = { default_group_visibility: 'public', restricted_visibility_levels: ['public', 'internal'] };
    await as(root).put('/application/settings', settings);
    try {
      const path = `restricted-${owner.username}`;
      const made = await as(owner).post('/groups', { name: path, path });
      expect([made.status, made.body.visibility]).toEqual([201, 'private']);
    } finally {
      await as(root).put('/application/settings', {
        default_group_visibility: 'private',
        restricted_visibility_levels: [],
      });
    }
  });
});

describe('concurrent changes of a group', () => {
  it('leave name, path and full path consistent in the group and below', async () => {
    const { make, as, root, hub } = app();
    const group = await make.group();
    const child = await make.group({ parent_id: group.id });
    const client = as(root);
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([
        client.put(`/groups/${group.id}`, { path: `raced-${round}-a` }),
        client.put(`/groups/${group.id}`, { description: `round ${round}` }),
        client.put(`/groups/${group.id}`, { path: `raced-${round}-b` }),
        client.put(`/groups/${group.id}`, { name: `Raced ${round}` }),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      const rows = await hub.services.db
        .selectFrom('namespaces')
        .select(['path', 'full_path', 'name', 'full_name'])
        .where('id', 'in', [group.id, child.id])
        .orderBy('id')
        .execute();
      const [top] = rows;
      expect(rows).toEqual([
        { path: top?.path, full_path: top?.path, name: `Raced ${round}`, full_name: `Raced ${round}` },
        {
          path: child.path,
          full_path: `${top?.path}/${child.path}`,
          name: child.path,
          full_name: `Raced ${round} / ${child.path}`,
        },
      ]);
    }
  });
});

describe('DELETE /groups/:id', () => {
  it('removes everything below with its repositories, and ends its shares', async () => {
    const { make, as, root, hub } = app();
    const owner = await make.user();
    const group = await make.group({}, owner);
    const below = await make.group({ parent_id: group.id }, owner);
    const project = await make.project({ namespace_id: below.id, initialize_with_readme: true }, owner);
    const other = await make.group();
    await as(root).post(`/groups/${other.id}/share`, { group_id: below.id, group_access: 30 });
    expect((await as(owner).get(`/groups/${other.id}`)).status).toBe(200);
    const { disk_path } = await hub.services.db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const maintainer = await make.user();
    await make.groupMember(group, maintainer, 40);
    expect((await as(maintainer).delete(`/groups/${group.id}`)).status).toBe(403);
    const answer = await as(owner).delete(`/groups/${group.id}`);
    expect([answer.status, answer.body]).toEqual([202, { message: '202 Accepted' }]);
    for (const path of [
      `/groups/${group.id}`,
      `/groups/${below.id}`,
      `/projects/${project.id}`,
      `/groups/${other.id}`,
    ]) {
      expect((await as(owner).get(path)).status, path).toBe(404);
    }
    await app().settle();
    await expect(hub.services.git.isEmpty(disk_path)).rejects.toThrow();
  });
});

describe('POST /groups/:id/transfer', () => {
  it('moves a group with its contents, and updates who can see them', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const guest = await make.user();
    const client = as(owner);
    const target = await make.group({ name: 'Target' }, owner);
    await make.groupMember(target, guest, 10);
    const group = await make.group({ name: 'Moved' }, owner);
    const project = await make.project({ namespace_id: group.id }, owner);
    expect((await as(guest).get(`/projects/${project.id}`)).status).toBe(404);
    const answer = await client.post(`/groups/${group.id}/transfer`, { group_id: target.id });
    expect([answer.status, answer.body.full_path, answer.body.full_name]).toEqual([
      201,
      `${target.path}/${group.path}`,
      'Target / Moved',
    ]);
    expect((await as(guest).get(`/projects/${project.id}`)).body.path_with_namespace).toBe(
      `${target.path}/${group.path}/${project.path}`,
    );
    const round = await client.post(`/groups/${target.id}/transfer`, { group_id: group.id });
    expect(round.status).toBe(400);
    await client.post(`/groups/${group.id}/transfer`);
    expect((await as(guest).get(`/projects/${project.id}`)).status).toBe(404);
    expect((await client.get(`/groups/${group.id}`)).body.full_path).toBe(group.path);
  });
});

describe('lists', () => {
  const namesFor = async (user: TestUser, path: string): Promise<string[]> =>
    (await app().as(user).get(path)).body.map((group: { name: string }) => group.name);

  it('hold the groups of the caller, or all groups that the caller can see', async () => {
    const { make, as, root, anonymous } = app();
    const user = await make.user();
    const mark = `mark${user.id}`;
    const open = await make.group({ name: `${mark} open`, visibility: 'public' });
    await make.group({ name: `${mark} secret` });
    const own = await make.group({ name: `${mark} own` }, user);
    const joined = await make.group({ name: `${mark} joined` });
    await make.groupMember(joined, user, 30);
    const list = (query: string) => namesFor(user, `/groups?search=${mark}&${query}`);
    expect(await list('')).toEqual([`${mark} joined`, `${mark} own`]);
    expect(await list('sort=desc')).toEqual([`${mark} own`, `${mark} joined`]);
    expect(await list('all_available=true')).toEqual([`${mark} joined`, `${mark} open`, `${mark} own`]);
    expect(await list('all_available=true&owned=true')).toEqual([`${mark} own`]);
    expect(await list('min_access_level=30&order_by=id')).toEqual([`${mark} own`, `${mark} joined`]);
    expect(await list(`skip_groups[]=${own.id}`)).toEqual([`${mark} joined`]);
    expect(await list('all_available=true&visibility=public')).toEqual([`${mark} open`]);
    expect((await anonymous.get(`/groups?search=${mark}`)).body).toMatchObject([{ id: open.id }]);
    expect((await as(root).get(`/groups?search=${mark}`)).headers.get('x-total')).toBe('4');
    expect(await namesFor(user, `/groups?search=${mark} own&order_by=similarity`)).toEqual([`${mark} own`]);
    expect((await as(user).get(`/groups?search=${mark}&owned=maybe`)).status).toBe(400);
  });

  it('page by keyset for anonymous callers', async () => {
    const { make, anonymous } = app();
    const names = ['key a', 'key b', 'key c'];
    for (const name of names) await make.group({ name, visibility: 'public' });
    const found: string[] = [];
    let path: string | null = '/groups?search=key%20&pagination=keyset&per_page=2&order_by=name&sort=asc';
    for (; path !== null; ) {
      const answer: Awaited<ReturnType<typeof anonymous.get>> = await anonymous.get(path);
      found.push(...answer.body.map((group: { name: string }) => group.name));
      path = /<[^>]*\/api\/v4([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? null;
    }
    expect(found).toEqual(names);
  });

  it('show administrators, owners and others their own forms of a record, in any order of requests', async () => {
    const owner = await app().make.user();
    const guest = await app().make.user();
    const group = await app().make.group({ visibility: 'private' }, owner);
    await app().make.groupMember(group, guest, 10);
    const { root } = app();
    await app().as(root).put(`/groups/${group.id}`, { max_artifacts_size: 7 });
    const names = ['ip_restriction_ranges', 'max_artifacts_size', 'service_access_tokens_expiration_enforced'];
    const shown = async (user: typeof owner) => {
      const { body } = await app().as(user).get(`/groups?search=${group.path}`);
      return names.filter((name) => name in body[0]);
    };
    const forms = [
      [owner, [names[0], names[2]]],
      [root, names],
      [guest, []],
      [owner, [names[0], names[2]]],
      [root, names],
    ] as const;
    for (const [user, expected] of forms) expect([user.username, await shown(user)]).toEqual([user.username, expected]);
  });

  it('hold one level below a group, or all levels', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const top = await make.group({}, owner);
    const child = await make.group({ name: 'child', path: 'kid', parent_id: top.id }, owner);
    const grandchild = await make.group({ name: 'grandchild', parent_id: child.id }, owner);
    const ids = async (path: string) => (await as(owner).get(path)).body.map((group: { id: number }) => group.id);
    expect(await ids(`/groups/${top.id}/subgroups`)).toEqual([child.id]);
    expect(await ids(`/groups/${top.id}/descendant_groups`)).toEqual([child.id, grandchild.id]);
    // The search matches the short path only.
    expect(await ids(`/groups/${top.id}/subgroups?search=child`)).toEqual([]);
    expect(await ids(`/groups/${top.id}/subgroups?search=kid`)).toEqual([child.id]);
    const stranger = await make.user();
    expect((await as(stranger).get(`/groups/${top.id}/subgroups`)).status).toBe(404);
  });

  it('show the ancestors of a group that the caller is a member of, and not its siblings', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const guest = await make.user();
    const top = await make.group({}, owner);
    const child = await make.group({ parent_id: top.id }, owner);
    const sibling = await make.group({ parent_id: top.id }, owner);
    await make.groupMember(child, guest, 10);
    expect((await as(guest).get(`/groups/${top.id}`)).status).toBe(200);
    expect((await as(guest).get(`/groups/${sibling.id}`)).status).toBe(404);
    expect((await as(guest).get(`/groups/${top.id}/descendant_groups?all_available=true`)).body).toHaveLength(1);
  });

  it('give administrators the sizes of all projects below', async () => {
    const { make, as, root, hub } = app();
    const owner = await make.user();
    const group = await make.group({ name: 'sized' }, owner);
    const below = await make.group({ parent_id: group.id }, owner);
    for (const namespace of [group, below]) {
      const project = await make.project({ namespace_id: namespace.id }, owner);
      await hub.services.db
        .updateTable('project_statistics')
        .set({ repository_size: 100, uploads_size: 11 })
        .where('project_id', '=', project.id)
        .execute();
    }
    const [found] = (await as(root).get('/groups?search=sized&statistics=true')).body;
    expect(found.statistics).toEqual({
      storage_size: 222,
      repository_size: 200,
      wiki_size: 0,
      lfs_objects_size: 0,
      job_artifacts_size: 0,
      pipeline_artifacts_size: 0,
      packages_size: 0,
      snippets_size: 0,
      uploads_size: 22,
    });
    expect((await as(owner).get('/groups?search=sized&statistics=true')).body[0].statistics).toBeUndefined();
  });
});

describe('sharing', () => {
  it('opens a group to the members of another group, with an expiry date', async () => {
    const { make, as, root } = app();
    const owner = await make.user();
    const member = await make.user();
    const group = await make.group({}, owner);
    const invited = await make.group({ name: 'Invited' }, owner);
    await make.groupMember(invited, member, 40);
    const client = as(owner);
    const share = { group_id: invited.id, group_access: 30, expires_at: '2999-01-01' };
    const answer = await client.post(`/groups/${group.id}/share`, share);
    expect([answer.status, answer.body.shared_with_groups]).toEqual([
      200,
      [
        {
          group_id: invited.id,
          group_name: 'Invited',
          group_full_path: invited.path,
          group_access_level: 30,
          expires_at: '2999-01-01',
        },
      ],
    ]);
    expect((await as(member).get(`/groups/${group.id}`)).status).toBe(200);
    expect((await as(member).get(`/groups/${invited.id}/groups/shared`)).body).toMatchObject([{ id: group.id }]);
    expect((await client.post(`/groups/${group.id}/share`, share)).status).toBe(409);
    for (const [body, status] of [
      [{ ...share, group_access: 35 }, 400],
      [{ ...share, expires_at: '2020-01-01' }, 400],
      [{ ...share, group_id: group.id }, 400],
      [{ group_id: invited.id }, 400],
      [{ ...share, group_id: 999_999 }, 404],
    ] as const) {
      expect((await client.post(`/groups/${group.id}/share`, body)).status, JSON.stringify(body)).toBe(status);
    }
    expect((await as(member).delete(`/groups/${group.id}/share/${invited.id}`)).status).toBe(403);
    const removed = await client.delete(`/groups/${group.id}/share/${invited.id}`);
    expect([removed.status, removed.body]).toEqual([204, '']);
    expect((await as(member).get(`/groups/${group.id}`)).status).toBe(404);
    expect((await as(root).delete(`/groups/${group.id}/share/${invited.id}`)).status).toBe(404);
  });
});

describe('namespaces', () => {
  it('are listed for the caller, and found by id or path', async () => {
    const { make, as } = app();
    const user = await make.user();
    const group = await make.group({}, user);
    const client = as(user);
    const list = (await client.get('/namespaces')).body;
    expect(list).toMatchObject([
      { kind: 'user', path: user.username, full_path: user.username, parent_id: null, avatar_url: null },
      { kind: 'group', id: group.id, members_count_with_descendants: 1, web_url: `${app().url}/groups/${group.path}` },
    ]);
    expect(list[0].web_url).toBe(`${app().url}/${user.username}`);
    expect((await client.get('/namespaces?owned_only=true&search=group')).body).toHaveLength(1);
    expect((await client.get(`/namespaces/${group.path}`)).body.id).toBe(group.id);
    expect((await client.get(`/namespaces/${list[0].id}`)).body.kind).toBe('user');
    expect((await as(await make.user()).get(`/namespaces/${group.id}`)).body).toEqual({
      message: '404 Namespace Not Found',
    });
    expect((await app().anonymous.get('/namespaces')).status).toBe(401);
  });

  it('are reported to exist, with a free path as a suggestion', async () => {
    const { make, as, root } = app();
    const group = await make.group({ path: 'exists' });
    await make.group({ path: 'exists1' });
    const client = as(root);
    expect((await client.get('/namespaces/Exists/exists')).body).toEqual({ exists: true, suggests: ['Exists2'] });
    expect((await client.get(`/namespaces/exists/exists?parent_id=${group.id}`)).body).toEqual({
      exists: false,
      suggests: [],
    });
  });

  it('are not revealed below a group that the caller must not know about', async () => {
    const { make, as } = app();
    const secret = await make.group({ visibility: 'private' });
    await make.group({ path: 'plans', parent_id: secret.id });
    const answer = await as(await make.user()).get(`/namespaces/plans/exists?parent_id=${secret.id}`);
    expect([answer.status, answer.body]).toEqual([404, { message: '404 Namespace Not Found' }]);
  });
});
