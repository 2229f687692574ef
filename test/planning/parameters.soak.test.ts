import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

// Each parameter of issues, labels, milestones and comments does what it says, on groups as on projects.

const app = useApp();
const db = () => app().hub.services.db;

let owner: TestUser;
let ann: TestUser;
let bob: TestUser;
let client: Client;
/** `top`, in it `group`, in it `below`; the project is in `group`. */
let ids: { readonly top: number; readonly group: number; readonly below: number; readonly project: number };

beforeAll(async () => {
  const { make, as } = app();
  [owner, ann, bob] = [await make.user(), await make.user(), await make.user()];
  client = as(owner);
  const top = await make.group({}, owner);
  const group = await make.group({ parent_id: top.id }, owner);
  const below = await make.group({ parent_id: group.id }, owner);
  const project = await make.project({ namespace_id: group.id }, owner);
  await make.projectMember(project, ann, 20);
  await make.projectMember(project, bob, 20);
  ids = { top: top.id, group: group.id, below: below.id, project: project.id };
});

type Query = Readonly<Record<string, string>>;
type Rows = readonly { readonly id: number; readonly title?: string; readonly name?: string }[];

const rows = async (path: string, query: Query, as = client): Promise<Rows> => {
  const { status, body } = await as.get(`${path}?${new URLSearchParams(query)}`);
  expect([status, body], `${path} ${JSON.stringify(query)}`).toEqual([200, expect.any(Array)]);
  return body;
};

describe('lists of issues', () => {
  let issues: readonly { readonly id: number }[];

  beforeAll(async () => {
    const path = `/projects/${ids.project}`;
    const [one, two] = [
      (await client.post(`${path}/milestones`, { title: 'One' })).body.id,
      (await client.post(`${path}/milestones`, { title: 'Two' })).body.id,
    ];
    const made = [
      {
        title: 'Delta',
        description: 'heron',
        labels: 'bug',
        milestone_id: one,
        assignee_ids: [ann.id],
        weight: 3,
        due_date: '2030-01-03',
      },
      { title: 'Alpha heron', issue_type: 'incident' },
      {
        title: 'Charlie',
        labels: 'bug,ui',
        milestone_id: two,
        assignee_ids: [bob.id],
        weight: 5,
        confidential: true,
      },
      { title: 'Bravo', labels: 'ui', milestone_id: one, assignee_ids: [ann.id], due_date: '2030-01-01' },
    ];
    const created: { id: number }[] = [];
    for (const issue of made) created.push((await client.post(`${path}/issues`, issue)).body);
    issues = created;
    await client.put(`${path}/issues/2`, { state_event: 'close' });
    await client.post(`${path}/issues/1/award_emoji`, { name: 'heart' });
    await client.post(`${path}/issues/4/award_emoji`, { name: 'thumbsup' });
    for (const [index, { id }] of created.entries()) {
      await db()
        .updateTable('issues')
        .set({
          author_id: index % 2 === 0 ? owner.id : ann.id,
          created_at: `2020-01-0${index + 1}T00:00:00Z`,
          updated_at: `2020-02-0${4 - index}T00:00:00Z`,
          relative_position: 40 - index * 10,
        })
        .where('id', '=', id)
        .execute();
    }
    const other = await app().make.project({ namespace_id: ids.below }, owner);
    await client.post(`/projects/${other.id}/issues`, { title: 'In a subgroup' });
  });

  /** The owner's results, as indexes of the issues. Oldest first, unless the query sets another order. */
  const filters = (): readonly (readonly [Query, readonly number[]])[] => [
    [{}, [0, 1, 2, 3]],
    [{ iids: '1,3' }, [0, 2]],
    [{ 'not[iids]': '1,3' }, [1, 3]],
    [{ labels: 'bug' }, [0, 2]],
    [{ labels: 'bug,ui' }, [2]],
    [{ labels: 'None' }, [1]],
    [{ labels: 'Any' }, [0, 2, 3]],
    [{ 'not[labels]': 'bug,ui' }, [1]],
    [{ milestone: 'One' }, [0, 3]],
    [{ milestone: 'None' }, [1]],
    [{ milestone: 'Any' }, [0, 2, 3]],
    [{ 'not[milestone]': 'One' }, [1, 2]],
    [{ author_id: String(ann.id) }, [1, 3]],
    [{ author_username: ann.username.toUpperCase() }, [1, 3]],
    [{ 'not[author_id]': String(ann.id) }, [0, 2]],
    [{ 'not[author_username]': ann.username }, [0, 2]],
    [{ assignee_id: String(ann.id) }, [0, 3]],
    [{ assignee_id: 'None' }, [1]],
    [{ assignee_id: 'Any' }, [0, 2, 3]],
    [{ assignee_username: bob.username }, [2]],
    [{ 'not[assignee_id]': String(ann.id) }, [1, 2]],
    [{ 'not[assignee_username]': bob.username }, [0, 1, 3]],
    [{ my_reaction_emoji: 'thumbsup' }, [3]],
    [{ my_reaction_emoji: 'Any' }, [0, 3]],
    [{ my_reaction_emoji: 'None' }, [1, 2]],
    [{ 'not[my_reaction_emoji]': 'thumbsup' }, [0, 1, 2]],
    [{ state: 'opened' }, [0, 2, 3]],
    [{ state: 'closed' }, [1]],
    [{ state: 'all' }, [0, 1, 2, 3]],
    [{ search: 'HERON' }, [0, 1]],
    [{ search: 'heron', in: 'title' }, [1]],
    [{ search: 'heron', in: 'description' }, [0]],
    [{ issue_type: 'incident' }, [1]],
    [{ confidential: 'true' }, [2]],
    [{ confidential: 'false' }, [0, 1, 3]],
    [{ created_after: '2020-01-03T00:00:00Z', created_before: '2020-02-01T00:00:00Z' }, [2, 3]],
    [{ created_before: '2020-01-02T00:00:00Z' }, [0, 1]],
    [{ updated_after: '2020-02-03T00:00:00Z', updated_before: '2020-03-01T00:00:00Z' }, [0, 1]],
    [{ updated_before: '2020-02-02T00:00:00Z' }, [2, 3]],
    [{ order_by: 'title' }, [1, 3, 2, 0]],
    [{ order_by: 'updated_at' }, [3, 2, 1, 0]],
    [{ order_by: 'updated_at', sort: 'desc' }, [0, 1, 2, 3]],
    [{ order_by: 'due_date' }, [3, 0, 1, 2]],
    [{ order_by: 'weight', sort: 'desc' }, [2, 0, 3, 1]],
    [{ order_by: 'relative_position' }, [3, 2, 1, 0]],
    [{ scope: 'created_by_me' }, [0, 2]],
  ];

  it.each([
    ['/issues', () => '/issues'],
    ['/groups/:id/issues', () => `/groups/${ids.group}/issues`],
    ['/projects/:id/issues', () => `/projects/${ids.project}/issues`],
  ])('filters and orders (%s)', async (_route, path) => {
    const usual = { scope: 'all', sort: 'asc' };
    const found = async (query: Query, as = client) =>
      (await rows(path(), { ...usual, ...query }, as))
        .map((row) => issues.findIndex(({ id }) => id === row.id))
        .filter((index) => index >= 0);
    for (const [query, expected] of filters()) expect([query, await found(query)]).toEqual([query, expected]);
    expect(await found({ scope: 'assigned_to_me' }, app().as(ann))).toEqual([0, 3]);
    const [plain] = await rows(path(), { ...usual, labels: 'bug' });
    const [detailed] = await rows(path(), { ...usual, labels: 'bug', with_labels_details: 'true' });
    expect(plain).toMatchObject({ labels: ['bug'] });
    expect(detailed).toMatchObject({ labels: [{ name: 'bug', color: expect.any(String) }] });
  });

  it('leave out subgroups on request', async () => {
    const titles = async (query: Query) => (await rows(`/groups/${ids.group}/issues`, query)).map(({ title }) => title);
    expect(await titles({})).toContain('In a subgroup');
    const direct = await titles({ include_subgroups: 'false' });
    expect(direct).not.toContain('In a subgroup');
    expect(direct).toHaveLength(4);
  });

  it('of a milestone filter by state', async () => {
    const { body: milestone } = await client.post(`/groups/${ids.group}/milestones`, { title: 'Of issues' });
    const path = `/projects/${ids.project}`;
    const { body: local } = await client.post(`${path}/milestones`, { title: 'Of local issues' });
    for (const [at, milestone_id] of [
      [`/groups/${ids.group}/milestones/${milestone.id}/issues`, milestone.id],
      [`${path}/milestones/${local.id}/issues`, local.id],
    ]) {
      const [open, closed] = [
        (await client.post(`${path}/issues`, { title: 'open', milestone_id })).body,
        (await client.post(`${path}/issues`, { title: 'closed', milestone_id })).body,
      ];
      await client.put(`${path}/issues/${closed.iid}`, { state_event: 'close' });
      expect((await rows(at, { state: 'opened' })).map(({ id }) => id)).toEqual([open.id]);
      expect((await rows(at, { state: 'closed' })).map(({ id }) => id)).toEqual([closed.id]);
      expect(await rows(at, { state: 'all' })).toHaveLength(2);
    }
  });

  it('show the changed attributes', async () => {
    const path = `/projects/${ids.project}`;
    const { body: issue } = await client.post(`${path}/issues`, { title: 'To change' });
    const { body: milestone } = await client.post(`${path}/milestones`, { title: 'For the change' });
    const changes = { description: 'Changed', due_date: '2031-02-03', issue_type: 'incident', weight: 8 };
    const at = `${path}/issues/${issue.iid}`;
    expect((await client.put(at, { ...changes, milestone_id: milestone.id })).status).toBe(200);
    expect((await client.get(at)).body).toMatchObject({ ...changes, milestone: { id: milestone.id } });
    const cleared = { description: null, due_date: null, milestone_id: null, weight: null };
    expect((await client.put(at, cleared)).body).toMatchObject({
      description: null,
      due_date: null,
      milestone: null,
      weight: null,
    });
  });
});

describe('labels', () => {
  const names = async (path: string, query: Query) => (await rows(path, query)).map(({ name }) => name);

  it('are listed with those of other levels, by text and state', async () => {
    const label = (path: string, name: string, more = {}) =>
      client.post(`${path}/labels`, { name, color: '#112233', ...more });
    const [group, project] = [`/groups/${ids.group}`, `/projects/${ids.project}`];
    await label(`/groups/${ids.top}`, 'level-above');
    await label(group, 'level-group', { description: 'An egret' });
    await label(group, 'level-gone');
    await client.put(`${group}/labels/level-gone`, { archived: true });
    await label(`/groups/${ids.below}`, 'level-below');
    await label(project, 'level-project', { description: 'An egret' });
    await label(project, 'level-left');
    await client.put(`${project}/labels/level-left`, { archived: true });
    const usual = { search: 'level', per_page: '100' };
    const ofGroup = (query: Query) => names(`${group}/labels`, { ...usual, ...query });
    expect(await ofGroup({})).toEqual(['level-above', 'level-gone', 'level-group']);
    expect(await ofGroup({ include_ancestor_groups: 'false' })).toEqual(['level-gone', 'level-group']);
    const all = ['level-above', 'level-below', 'level-gone', 'level-group'];
    expect(await ofGroup({ include_descendant_groups: 'true' })).toEqual(all);
    expect(await ofGroup({ archived: 'true' })).toEqual(['level-gone']);
    expect(await ofGroup({ archived: 'false' })).toEqual(['level-above', 'level-group']);
    expect(await ofGroup({ search: 'EGRET' })).toEqual(['level-group']);
    const ofProject = (query: Query) => names(`${project}/labels`, { ...usual, ...query });
    expect(await ofProject({ archived: 'true' })).toEqual(['level-gone', 'level-left']);
    expect(await ofProject({ archived: 'true', include_ancestor_groups: 'false' })).toEqual(['level-left']);
    expect(await ofProject({ search: 'egret' })).toEqual(['level-group', 'level-project']);
    for (const at of [group, project]) {
      expect((await client.get(`${at}/labels/level-above`)).status).toBe(200);
      expect((await client.get(`${at}/labels/level-above?include_ancestor_groups=true`)).status).toBe(200);
      expect((await client.get(`${at}/labels/level-above?include_ancestor_groups=false`)).status).toBe(404);
    }
    await client.post(`${project}/issues`, { title: 'Counted', labels: 'level-group' });
    const [counted] = await rows(`${group}/labels`, { search: 'level-group', with_counts: 'true' });
    expect(counted).toMatchObject({ open_issues_count: 1, closed_issues_count: 0, open_merge_requests_count: 0 });
    expect((await rows(`${group}/labels`, { search: 'level-group' }))[0]).not.toHaveProperty('open_issues_count');
  });

  it.each(['groups', 'projects'] as const)('of %s keep every attribute, addressed by path or by body', async (kind) => {
    const path = `/${kind}/${kind === 'groups' ? ids.group : ids.project}/labels`;
    for (const inBody of [false, true]) {
      const name = `${kind}-${inBody}`;
      const first = { name, color: '#aabbcc', description: 'First', priority: 3 };
      expect((await client.post(path, first)).body).toMatchObject(first);
      const second = { color: '#ccbbaa', description: 'Second', priority: 4, archived: true };
      const put = (body: Record<string, unknown>, old = name) =>
        inBody ? client.put(path, { name: old, ...body }) : client.put(`${path}/${old}`, body);
      expect(await put(second)).toMatchObject({ status: 200, body: second });
      expect((await client.get(`${path}/${name}`)).body).toMatchObject(second);
      expect((await put({ new_name: `${name}-renamed` })).body).toMatchObject({ ...second, name: `${name}-renamed` });
      const gone = inBody
        ? await client.delete(path, { name: `${name}-renamed` })
        : await client.delete(`${path}/${name}-renamed`);
      expect(gone.status).toBe(204);
      expect((await client.get(`${path}/${name}-renamed`)).status).toBe(404);
    }
  });
});

describe('milestones', () => {
  it('are listed with those of other levels, by number, text, state and time', async () => {
    const make = async (path: string, title: string, updated_at: string, more = {}) => {
      const { body } = await client.post(`${path}/milestones`, { title, ...more });
      await db().updateTable('milestones').set({ updated_at }).where('id', '=', body.id).execute();
      return body;
    };
    const [group, project] = [`/groups/${ids.group}`, `/projects/${ids.project}`];
    await make(`/groups/${ids.top}`, 'stone-above', '2020-01-01T00:00:00Z');
    const first = await make(group, 'stone-group', '2020-01-02T00:00:00Z', { description: 'A bittern' });
    await make(`/groups/${ids.below}`, 'stone-below', '2020-01-03T00:00:00Z');
    const closed = await make(group, 'stone-closed', '2020-01-04T00:00:00Z');
    await client.put(`${group}/milestones/${closed.id}`, { state_event: 'close' });
    await db()
      .updateTable('milestones')
      .set({ updated_at: '2020-01-04T00:00:00Z' })
      .where('id', '=', closed.id)
      .execute();
    await make(project, 'stone-project', '2020-01-05T00:00:00Z');
    const titles = async (path: string, query: Query) =>
      (await rows(`${path}/milestones`, { search: 'stone', ...query })).map(({ title }) => title).sort();
    const own = ['stone-closed', 'stone-group'];
    expect(await titles(group, {})).toEqual(own);
    expect(await titles(group, { include_ancestors: 'true' })).toEqual(['stone-above', ...own]);
    expect(await titles(group, { include_parent_milestones: 'true' })).toEqual(['stone-above', ...own]);
    expect(await titles(group, { include_descendants: 'true' })).toEqual(['stone-below', ...own]);
    expect(await titles(group, { iids: String(first.iid) })).toEqual(['stone-group']);
    expect(await titles(group, { state: 'active' })).toEqual(['stone-group']);
    expect(await titles(group, { state: 'closed' })).toEqual(['stone-closed']);
    expect(await titles(group, { state: 'all' })).toEqual(own);
    expect(await titles(group, { title: 'stone-group' })).toEqual(['stone-group']);
    expect(await titles(group, { search: 'BITTERN' })).toEqual(['stone-group']);
    expect(await titles(group, { updated_after: '2020-01-04T00:00:00Z' })).toEqual(['stone-closed']);
    expect(await titles(group, { updated_before: '2020-01-02T00:00:00Z' })).toEqual(['stone-group']);
    const all = ['stone-above', ...own, 'stone-project'];
    expect(await titles(project, {})).toEqual(['stone-project']);
    expect(await titles(project, { include_parent_milestones: 'true' })).toEqual(all);
    expect(await titles(project, { include_ancestors: 'true', updated_after: '2020-01-04T00:00:00Z' })).toEqual([
      'stone-closed',
      'stone-project',
    ]);
    expect(await titles(project, { include_ancestors: 'true', updated_before: '2020-01-02T00:00:00Z' })).toEqual([
      'stone-above',
      'stone-group',
    ]);
  });

  it.each(['groups', 'projects'] as const)('of %s keep every attribute', async (kind) => {
    const path = `/${kind}/${kind === 'groups' ? ids.group : ids.project}/milestones`;
    const first = { title: `${kind} first`, description: 'First', start_date: '2030-01-01', due_date: '2030-01-31' };
    const { status, body } = await client.post(path, first);
    expect([status, body]).toEqual([201, expect.objectContaining(first)]);
    const second = { title: `${kind} second`, description: 'Next', start_date: '2031-01-01', due_date: '2031-01-31' };
    expect((await client.put(`${path}/${body.id}`, { ...second, state_event: 'close' })).status).toBe(200);
    expect((await client.get(`${path}/${body.id}`)).body).toMatchObject({ ...second, state: 'closed' });
    expect((await client.put(`${path}/${body.id}`, { state_event: 'activate' })).body.state).toBe('active');
  });
});

describe.each(['issues', 'merge_requests'] as const)('comments on %s', (kind) => {
  it('keep their attributes and are ordered and filtered', async () => {
    const path = `/projects/${ids.project}`;
    const iid = 77;
    if (kind === 'issues') await client.post(`${path}/issues`, { title: 'Discussed', iid });
    else {
      await db()
        .insertInto('merge_requests')
        .values({ project_id: ids.project, iid, title: 'Discussed', source_branch: 'a', target_branch: 'main' })
        .execute();
    }
    const at = `${path}/${kind}/${iid}/notes`;
    const first = await client.post(at, { body: 'first', created_at: '2020-01-01T00:00:00Z' });
    expect(first.body).toMatchObject({ body: 'first', created_at: '2020-01-01T00:00:00.000Z', internal: false });
    const second = await client.post(at, { body: 'second', internal: true, created_at: '2020-01-02T00:00:00Z' });
    expect(second.body).toMatchObject({ internal: true, confidential: true });
    const third = await client.post(at, { body: 'third', confidential: true, created_at: '2020-01-03T00:00:00Z' });
    expect(third.body).toMatchObject({ internal: true, confidential: true });
    expect((await client.put(`${at}/${first.body.id}`, { body: 'edited' })).body).toMatchObject({ body: 'edited' });
    for (const [note, day] of [
      [first, 3],
      [second, 2],
      [third, 1],
    ] as const) {
      await db()
        .updateTable('notes')
        .set({ updated_at: `2020-02-0${day}T00:00:00Z`, system: note === third })
        .where('id', '=', note.body.id)
        .execute();
    }
    const bodies = async (query: Query) => {
      const { body } = await client.get(`${at}?${new URLSearchParams(query)}`);
      return body.map((each: { body: string }) => each.body);
    };
    expect(await bodies({})).toEqual(['third', 'second', 'edited']);
    expect(await bodies({ sort: 'asc' })).toEqual(['edited', 'second', 'third']);
    expect(await bodies({ order_by: 'updated_at', sort: 'asc' })).toEqual(['third', 'second', 'edited']);
    expect(await bodies({ activity_filter: 'only_comments' })).toEqual(['second', 'edited']);
    expect(await bodies({ activity_filter: 'only_activity' })).toEqual(['third']);
    const emoji = await client.post(`${at}/${first.body.id}/award_emoji`, { name: 'tada' });
    expect(emoji).toMatchObject({ status: 201, body: { name: 'tada', awardable_id: first.body.id } });
  });
});

describe('lists of merge requests', () => {
  it('have a scope and an order', async () => {
    const values = (title: string, author_id: number, day: number) => ({
      project_id: ids.project,
      iid: 80 + day,
      title,
      author_id,
      source_branch: title,
      target_branch: 'ordered',
      created_at: `2020-01-0${day}T00:00:00Z`,
      updated_at: `2020-02-0${4 - day}T00:00:00Z`,
    });
    await db()
      .insertInto('merge_requests')
      .values([values('Bravo', owner.id, 1), values('Charlie', ann.id, 2), values('Alpha', owner.id, 3)])
      .execute();
    for (const path of [
      '/merge_requests',
      `/groups/${ids.group}/merge_requests`,
      `/projects/${ids.project}/merge_requests`,
    ]) {
      const titles = async (query: Query) =>
        (await rows(path, { target_branch: 'ordered', ...query })).map(({ title }) => title);
      expect(await titles({ scope: 'all' })).toEqual(['Alpha', 'Charlie', 'Bravo']);
      expect(await titles({ scope: 'all', sort: 'asc' })).toEqual(['Bravo', 'Charlie', 'Alpha']);
      expect(await titles({ scope: 'all', order_by: 'title', sort: 'asc' })).toEqual(['Alpha', 'Bravo', 'Charlie']);
      expect(await titles({ scope: 'all', order_by: 'updated_at' })).toEqual(['Bravo', 'Charlie', 'Alpha']);
      expect(await titles({ scope: 'created_by_me' })).toEqual(['Alpha', 'Bravo']);
      expect(await titles({ scope: 'assigned_to_me' })).toEqual([]);
    }
  });
});
