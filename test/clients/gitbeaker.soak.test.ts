import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { png } from '../support/pictures.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
let owner: TestUser;
let other: TestUser;
let api: InstanceType<typeof Gitlab>;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  other = await app().make.user();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
});
afterAll(() => front.close());

describe('gitbeaker', () => {
  it('creates, reads, lists, changes and deletes groups, subgroups and their members', async () => {
    const group = await api.Groups.create('Mill', 'mill', { visibility: 'public', description: 'First' });
    expect(group).toMatchObject({ name: 'Mill', full_path: 'mill', visibility: 'public' });
    const sub = await api.Groups.create('Race', 'race', { parentId: group.id, visibility: 'public' });
    expect(await api.Groups.show('mill/race')).toMatchObject({ id: sub.id, parent_id: group.id });
    expect((await api.Groups.allSubgroups(group.id)).map(({ id }) => id)).toEqual([sub.id]);
    expect(await api.Groups.edit(sub.id, { description: 'Changed' })).toMatchObject({ description: 'Changed' });

    const member = await api.GroupMembers.add(group.id, 30, { userId: other.id });
    expect(member).toMatchObject({ id: other.id, access_level: 30 });
    expect(await api.GroupMembers.edit(group.id, other.id, 40)).toMatchObject({ access_level: 40 });
    const all = await api.GroupMembers.all(sub.id, { includeInherited: true });
    expect(all.map(({ id, access_level }) => [id, access_level]).sort()).toEqual(
      [
        [owner.id, 50],
        [other.id, 40],
      ].sort(),
    );
    await api.GroupMembers.remove(group.id, other.id);
    expect((await api.GroupMembers.all(group.id)).map(({ id }) => id)).toEqual([owner.id]);

    await api.Groups.remove(sub.id);
    await app().settle();
    await expect(api.Groups.show('mill/race')).rejects.toMatchObject({ cause: { description: '404 Group Not Found' } });
  });

  it('pages through lists by page number and by keyset at the external address', async () => {
    const home = await api.Groups.create('Many', 'many', { visibility: 'private' });
    for (let n = 0; n < 5; n++) await api.Projects.create({ name: `p${n}`, path: `p${n}`, namespaceId: home.id });
    const paged = { membership: true, perPage: 2, sort: 'asc' } as const;
    const ours = (projects: readonly { readonly path: unknown }[]) =>
      projects.map(({ path }) => String(path)).filter((path) => /^p\d$/.test(path));
    const before = front.paths.length;
    expect(ours(await api.Projects.all({ ...paged, orderBy: 'name', pagination: 'offset' }))).toEqual([
      'p0',
      'p1',
      'p2',
      'p3',
      'p4',
    ]);
    expect(front.paths.length - before).toBeGreaterThanOrEqual(3);
    expect(ours(await api.Projects.all({ ...paged, orderBy: 'id', pagination: 'keyset' }))).toEqual([
      'p0',
      'p1',
      'p2',
      'p3',
      'p4',
    ]);
    const second = await api.Groups.allProjects(home.id, {
      perPage: 2,
      page: 2,
      pagination: 'offset',
      showExpanded: true,
    });
    expect(second.paginationInfo).toMatchObject({
      total: 5,
      totalPages: 3,
      current: 2,
      next: 3,
      previous: 1,
      perPage: 2,
    });

    // The client follows links blindly, so they must name the external address.
    const { headers } = await app().as(owner).get(`/groups/${home.id}/projects?per_page=2&page=2`);
    const links = (headers.get('link') ?? '').split(', ');
    expect(links).toHaveLength(4);
    for (const link of links) expect(link.startsWith(`<${front.url}/api/v4/groups/${home.id}/projects?`)).toBe(true);
    const head = await app().as(owner).head(`/groups/${home.id}/projects?per_page=2`);
    expect([head.status, head.body, head.headers.get('x-total')]).toEqual([200, '', '5']);
  });

  it('creates, reads, changes and deletes projects and their contents', async () => {
    const project = await api.Projects.create({
      name: 'Wheel',
      initializeWithReadme: true,
      visibility: 'private',
      topics: ['a', 'b'],
    });
    const path = `${owner.username}/wheel`;
    expect(await api.Projects.show(path)).toMatchObject({
      id: project.id,
      default_branch: 'main',
      topics: ['a', 'b'],
      web_url: `${front.url}/${path}`,
    });
    expect(await api.Projects.edit(project.id, { description: 'Turns' })).toMatchObject({ description: 'Turns' });
    expect(await api.Branches.create(project.id, 'feature/x', 'main')).toMatchObject({
      name: 'feature/x',
      protected: false,
    });
    expect((await api.Branches.show(path, 'feature/x')).commit.title).toEqual(expect.any(String));
    expect((await api.Branches.all(project.id)).map(({ name }) => name)).toEqual(['feature/x', 'main']);
    await api.Branches.remove(project.id, 'feature/x');
    expect((await api.ProtectedBranches.all(project.id)).map(({ name }) => name)).toEqual(['main']);

    const label = await api.ProjectLabels.create(project.id, 'bug', '#ff0000');
    expect(label).toMatchObject({ name: 'bug', color: '#ff0000' });
    const milestone = await api.ProjectMilestones.create(project.id, 'v1', { dueDate: '2030-01-31' });
    expect(milestone).toMatchObject({ title: 'v1', due_date: '2030-01-31', state: 'active' });
    const issue = await api.Issues.create(project.id, 'Squeaks', {
      labels: 'bug',
      milestoneId: milestone.id,
      assigneeIds: [owner.id],
    });
    expect(issue).toMatchObject({ iid: 1, labels: ['bug'], milestone: { title: 'v1' }, assignees: [{ id: owner.id }] });
    const note = await api.IssueNotes.create(project.id, issue.iid, 'Oil it');
    expect((await api.IssueNotes.all(project.id, issue.iid)).map(({ body }) => body)).toContain('Oil it');
    await api.IssueNotes.remove(project.id, issue.iid, note.id);
    expect(await api.Issues.edit(project.id, issue.iid, { stateEvent: 'close' })).toMatchObject({ state: 'closed' });
    expect((await api.Issues.all({ projectId: project.id, state: 'closed' })).map(({ iid }) => iid)).toEqual([1]);
    await api.Issues.remove(project.id, issue.iid);
    await api.ProjectMilestones.remove(project.id, milestone.id);
    await api.ProjectLabels.remove(project.id, 'bug');
    expect(await api.ProjectLabels.all(project.id)).toEqual([]);
    expect(await api.MergeRequests.all({ projectId: project.id })).toEqual([]);
    expect(await api.Pipelines.all(project.id)).toEqual([]);

    await api.Projects.remove(project.id);
    await app().settle();
    await expect(api.Projects.show(path)).rejects.toThrow();
  });

  it('creates, changes and removes hooks, and reads its token', async () => {
    const group = await api.Groups.create('Hooked', 'hooked');
    const hook = await api.GroupHooks.add(group.id, 'https://hooks.example.com/x', {
      pushEvents: true,
      token: 'top-secret-token',
    });
    expect(hook).toMatchObject({ url: 'https://hooks.example.com/x', push_events: true });
    expect(JSON.stringify(hook)).not.toContain('top-secret-token');
    expect(
      await api.GroupHooks.edit(group.id, hook.id, 'https://hooks.example.com/y', { issuesEvents: true }),
    ).toMatchObject({ issues_events: true });
    expect(await api.GroupHooks.all(group.id)).toHaveLength(1);
    await api.GroupHooks.remove(group.id, hook.id);
    expect(await api.GroupHooks.all(group.id)).toEqual([]);
    expect(await api.PersonalAccessTokens.show()).toMatchObject({ user_id: owner.id, active: true });
    expect(await api.Metadata.show()).toMatchObject({ enterprise: false });
  });

  it('creates, finds, changes and removes users, and sets custom attributes', async () => {
    const admin = new Gitlab({ host: front.url, token: await app().tokenOf(app().root) });
    const user = await admin.Users.create({
      username: 'gita',
      name: 'Gita',
      email: 'gita@example.com',
      forceRandomPassword: true,
      skipConfirmation: true,
    });
    expect(await admin.Users.show(user.id)).toMatchObject({ username: 'gita', email: 'gita@example.com' });
    const picture = { content: new Blob([new Uint8Array(png())]), filename: 'me.png' };
    const changed = await admin.Users.edit(user.id, { bio: 'Weaves', avatar: picture });
    expect(changed).toMatchObject({ bio: 'Weaves' });
    expect(String(changed.avatar_url)).toMatch(`${front.url}/uploads/-/system/user/avatar/${user.id}/`);
    expect(await api.Users.show(user.id)).not.toHaveProperty('email');

    expect(await admin.UserCustomAttributes.set(user.id, 'team', 'red')).toMatchObject({ key: 'team', value: 'red' });
    expect(await admin.UserCustomAttributes.all(user.id)).toEqual([{ key: 'team', value: 'red' }]);
    const found = await admin.Users.all({ customAttributes: { team: 'red' }, withCustomAttributes: true });
    expect(found).toMatchObject([{ id: user.id, custom_attributes: [{ key: 'team', value: 'red' }] }]);
    await admin.UserCustomAttributes.remove(user.id, 'team');
    expect(await admin.UserCustomAttributes.all(user.id)).toEqual([]);

    await admin.Users.remove(user.id);
    await expect(admin.Users.show(user.id)).rejects.toMatchObject({ cause: { description: '404 User Not Found' } });
  });

  it('reads and changes instance settings, secrets and lists among them', async () => {
    const admin = new Gitlab({ host: front.url, token: await app().tokenOf(app().root) });
    expect(await admin.ApplicationSettings.show()).toMatchObject({
      asciidoc_max_includes: 32,
      spamcheck_api_key: null,
    });
    const edited = await admin.ApplicationSettings.edit({
      asciidocMaxIncludes: 64,
      domainDenylist: ['spam.example'],
      akismetApiKey: 'key',
      defaultBranchProtectionDefaults: { allow_force_push: true },
    });
    const changed = {
      asciidoc_max_includes: 64,
      domain_denylist: ['spam.example'],
      spamcheck_api_key: '********',
      default_branch_protection_defaults: { allow_force_push: true },
    };
    expect(edited).toMatchObject(changed);
    // A tool that writes back all that it read changes nothing.
    expect(await admin.ApplicationSettings.edit({ ...(await admin.ApplicationSettings.show()) })).toMatchObject(
      changed,
    );
    await expect(admin.ApplicationSettings.edit({ asciidocMaxIncludes: 65 })).rejects.toMatchObject({
      cause: { description: expect.stringContaining('must be less than or equal to 64'), response: { status: 400 } },
    });
    await expect(api.ApplicationSettings.show()).rejects.toMatchObject({ cause: { response: { status: 403 } } });
  });

  it('shows errors in its usual form', async () => {
    const problem = async (work: Promise<unknown>) =>
      work.then(
        () => null,
        (error: unknown) => error,
      );
    expect(await problem(api.Projects.show('nobody/nothing'))).toMatchObject({
      name: 'GitbeakerRequestError',
      cause: { description: '404 Project Not Found', response: { status: 404 } },
    });
    await api.Groups.create('Twice', 'twice');
    expect(await problem(api.Groups.create('Twice', 'twice'))).toMatchObject({
      cause: { description: expect.stringContaining('taken'), response: { status: 400 } },
    });
    expect(
      await problem(api.Users.create({ username: 'x', name: 'x', email: 'x@example.com', password: 'correct-horse' })),
    ).toMatchObject({
      cause: { description: '403 Forbidden' },
    });
    const stranger = new Gitlab({ host: front.url, token: 'glpat-of-nobody-at-all-at-all' });
    expect(await problem(stranger.Projects.all())).toMatchObject({ cause: { response: { status: 401 } } });
  });
});
