import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { makeScene } from './scene.ts';

const app = useApp();

const titles = (answer: { readonly body: readonly { readonly title: string }[] }) =>
  answer.body.map((each) => each.title);

describe('issues', () => {
  it('creates an issue with every attribute and reads it back', async () => {
    const { path, project, people, owner } = await makeScene(app());
    const milestone = await owner.post(`${path}/milestones`, { title: 'm' });
    const made = await owner.post(`${path}/issues`, {
      title: ' Broken ',
      description: '- [x] one\n- [ ] two\n```\n- [ ] no\n```',
      labels: 'bug, ui',
      assignee_ids: [people.guest.id],
      milestone_id: milestone.body.id,
      due_date: '2030-01-31',
      weight: 3,
      issue_type: 'incident',
      created_at: '2020-01-01T00:00:00Z',
      iid: 7,
    });
    expect(made.status).toBe(201);
    const full = `${project.path_with_namespace}#7`;
    const api = `${app().url}/api/v4${path}`;
    const person = { id: people.guest.id, username: people.guest.username, state: 'active', locked: false };
    expect(made.body).toMatchObject({
      iid: 7,
      project_id: project.id,
      title: 'Broken',
      state: 'opened',
      created_at: '2020-01-01T00:00:00.000Z',
      closed_at: null,
      closed_by: null,
      labels: ['bug', 'ui'],
      milestone: { id: milestone.body.id, title: 'm' },
      assignees: [person],
      assignee: person,
      author: { id: people.owner.id },
      type: 'INCIDENT',
      issue_type: 'incident',
      user_notes_count: 0,
      merge_requests_count: 0,
      upvotes: 0,
      downvotes: 0,
      due_date: '2030-01-31',
      confidential: false,
      discussion_locked: null,
      web_url: `${app().url}/${project.path_with_namespace}/-/issues/7`,
      time_stats: { time_estimate: 0, total_time_spent: 0, human_time_estimate: null, human_total_time_spent: null },
      task_completion_status: { count: 2, completed_count: 1 },
      has_tasks: true,
      weight: 3,
      references: { short: '#7', relative: '#7', full },
      _links: { self: `${api}/issues/7`, notes: `${api}/issues/7/notes`, project: api, closed_as_duplicate_of: null },
      severity: 'UNKNOWN',
      moved_to_id: null,
      imported: false,
      imported_from: 'none',
    });
    expect(await owner.get(`${path}/issues/7`)).toMatchObject({ status: 200, body: made.body });
    // Numbering continues after the given number, and no number is used twice.
    expect((await owner.post(`${path}/issues`, { title: 'next' })).body.iid).toBe(8);
    expect((await owner.post(`${path}/issues`, { title: 'again', iid: 7 })).status).toBe(409);
    expect((await owner.get(`${path}/labels`)).body.map((each: { name: string }) => each.name)).toEqual(['bug', 'ui']);
    expect((await owner.get(path)).body.open_issues_count).toBe(2);
  });

  it('changes, closes, reopens and deletes an issue', async () => {
    const { path, people, owner } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'a', labels: 'x,y', assignee_id: people.guest.id });
    const one = `${path}/issues/1`;
    expect(await owner.put(one, {})).toMatchObject({ status: 400 });
    expect(await owner.put(one, { title: ' ' })).toMatchObject({
      status: 400,
      body: { message: { title: ["can't be blank"] } },
    });
    const changed = await owner.put(one, { title: 'b', add_labels: 'z', remove_labels: 'x', assignee_id: 0 });
    expect(changed.body).toMatchObject({ title: 'b', labels: ['y', 'z'], assignees: [], assignee: null });
    expect((await owner.put(one, { labels: '' })).body.labels).toEqual([]);
    const closed = await owner.put(one, { state_event: 'close' });
    expect(closed.body).toMatchObject({ state: 'closed', closed_by: { id: people.owner.id } });
    expect(closed.body.closed_at).not.toBeNull();
    expect((await owner.get(path)).body.open_issues_count).toBe(0);
    expect((await owner.put(one, { state_event: 'reopen' })).body).toMatchObject({
      state: 'opened',
      closed_by: null,
      closed_at: null,
    });
    expect((await owner.get(path)).body.open_issues_count).toBe(1);
    const history = await app()
      .hub.services.db.selectFrom('resource_events')
      .select(['kind', 'action', 'state'])
      .where('issue_id', '=', changed.body.id)
      .where('kind', '=', 'state')
      .orderBy('id')
      .execute();
    expect(history.map((each) => each.state)).toEqual(['closed', 'reopened']);
    expect((await owner.delete(one)).status).toBe(204);
    expect(await owner.get(one)).toMatchObject({ status: 404, body: { message: '404 Issue Not Found' } });
    expect((await owner.get(path)).body.open_issues_count).toBe(0);
  });

  it('reports every problem of the input and changes nothing', async () => {
    const { path, people, owner } = await makeScene(app());
    const foreign = await makeScene(app());
    const { body: milestone } = await foreign.owner.post(`${foreign.path}/milestones`, { title: 'secret' });
    expect(await owner.post(`${path}/issues`, {})).toMatchObject({
      status: 400,
      body: { error: 'title is missing' },
    });
    // A milestone or user that the caller cannot see is treated like one that does not exist.
    for (const milestone_id of [milestone.id, 999_999_999]) {
      expect(await owner.post(`${path}/issues`, { title: 'x', milestone_id, labels: 'made' })).toMatchObject({
        status: 400,
        body: { message: { milestone_id: ['is invalid'] } },
      });
    }
    for (const id of [people.stranger.id, 999_999_999]) {
      expect(await owner.post(`${path}/issues`, { title: 'x', assignee_ids: [id] })).toMatchObject({
        status: 400,
        body: { message: { assignee_ids: [`${id} cannot be assigned`] } },
      });
    }
    expect((await owner.post(`${path}/issues`, { title: 'x', due_date: '2030-02-30' })).status).toBe(400);
    expect((await owner.post(`${path}/issues`, { title: 'x'.repeat(256) })).status).toBe(400);
    expect((await owner.post(`${path}/issues`, { title: 'x', assignee_id: 1, assignee_ids: [1] })).status).toBe(400);
    expect((await owner.get(`${path}/issues`)).body).toEqual([]);
    expect((await owner.get(`${path}/labels`)).body).toEqual([]);
    expect((await owner.post(`${path}/issues`, { title: 'first' })).body.iid).toBe(1);
  });

  it.each(['blocked', 'deactivated'])('is not newly assigned to %s users', async (state) => {
    const { path, owner, people } = await makeScene(app());
    const [kept, added] = [people.guest.id, people.planner.id];
    const { iid } = (await owner.post(`${path}/issues`, { title: 'x', assignee_ids: [kept] })).body;
    const { db } = app().hub.services;
    await db.updateTable('users').set({ state }).where('id', 'in', [kept, added]).execute();
    const refused = { status: 400, body: { message: { assignee_ids: [`${added} cannot be assigned`] } } };
    expect(await owner.post(`${path}/issues`, { title: 'y', assignee_ids: [added] })).toMatchObject(refused);
    expect(await owner.put(`${path}/issues/${iid}`, { assignee_ids: [kept, added] })).toMatchObject(refused);
    const { status, body } = await owner.put(`${path}/issues/${iid}`, { assignee_ids: [kept, people.reporter.id] });
    expect([status, body.assignees.map(({ id }: { id: number }) => id).sort()]).toEqual([
      200,
      [kept, people.reporter.id].sort(),
    ]);
  });

  it('accepts assignees with commas, as forms send them', async () => {
    const { path, owner, people } = await makeScene(app());
    const made = await owner.post(`${path}/issues`, {
      title: 'x',
      assignee_ids: `${people.guest.id},${people.planner.id}`,
    });
    expect(made.status).toBe(201);
    expect(made.body.assignees).toHaveLength(2);
  });

  it('counts an emoji as one character of a title', async () => {
    const { path, owner, project } = await makeScene(app());
    const longest = '😀'.repeat(255);
    expect(await owner.post(`${path}/issues`, { title: longest })).toMatchObject({
      status: 201,
      body: { title: longest },
    });
    expect((await owner.post(`${path}/issues`, { title: `${longest}x` })).status).toBe(400);
    const create = async (title: string) => {
      const { data } = await owner.graphql(
        'mutation ($input: CreateIssueInput!) { createIssue(input: $input) { issue { title } errors } }',
        { input: { projectPath: project.path_with_namespace, title } },
      );
      return data.createIssue;
    };
    expect(await create(longest)).toEqual({ issue: { title: longest }, errors: [] });
    expect(await create(`${longest}x`)).toEqual({
      issue: null,
      errors: ['Title is too long (maximum is 255 characters)'],
    });
  });

  it('lists issues by every filter and in every order', async () => {
    const { path, people, owner, guest, group } = await makeScene(app());
    const { body: milestone } = await owner.post(`/groups/${group.id}/milestones`, { title: 'G' });
    await owner.post(`${path}/issues`, { title: 'alpha', labels: 'bug,ui', due_date: '2030-01-02' });
    await owner.post(`${path}/issues`, {
      title: 'beta',
      labels: 'bug',
      milestone_id: milestone.id,
      assignee_ids: [people.guest.id],
      due_date: '2030-01-01',
    });
    await guest.post(`${path}/issues`, { title: 'gamma', description: '100% alpha_like' });
    await owner.put(`${path}/issues/1`, { state_event: 'close' });
    const list = async (query: string) => titles(await owner.get(`${path}/issues?${query}`));
    expect(await list('')).toEqual(['gamma', 'beta', 'alpha']);
    expect(await list('sort=asc')).toEqual(['alpha', 'beta', 'gamma']);
    expect(await list('state=opened')).toEqual(['gamma', 'beta']);
    expect(await list('state=closed')).toEqual(['alpha']);
    expect(await list('labels=bug')).toEqual(['beta', 'alpha']);
    expect(await list('labels=bug,ui')).toEqual(['alpha']);
    expect(await list('labels=None')).toEqual(['gamma']);
    expect(await list('labels=Any')).toEqual(['beta', 'alpha']);
    expect(await list('not[labels]=ui')).toEqual(['gamma', 'beta']);
    expect(await list('milestone=G')).toEqual(['beta']);
    expect(await list('milestone=None')).toEqual(['gamma', 'alpha']);
    expect(await list(`author_id=${people.guest.id}`)).toEqual(['gamma']);
    expect(await list(`author_username=${people.owner.username.toUpperCase()}`)).toEqual(['beta', 'alpha']);
    expect(await list(`assignee_id=${people.guest.id}`)).toEqual(['beta']);
    expect(await list('assignee_id=None')).toEqual(['gamma', 'alpha']);
    expect(await list('assignee_id=Any')).toEqual(['beta']);
    expect(await list(`assignee_username[]=${people.guest.username}`)).toEqual(['beta']);
    expect(await list('search=ALPHA')).toEqual(['gamma', 'alpha']);
    expect(await list('search=alpha&in=title')).toEqual(['alpha']);
    expect(await list('search=100%25')).toEqual(['gamma']);
    expect(await list('search=a_p')).toEqual([]);
    expect(await list('iids[]=1&iids[]=3')).toEqual(['gamma', 'alpha']);
    expect(await list('created_after=2100-01-01')).toEqual([]);
    expect(await list('confidential=true')).toEqual([]);
    expect(await list('scope=created_by_me')).toEqual(['beta', 'alpha']);
    expect(await list('order_by=title&sort=desc')).toEqual(['gamma', 'beta', 'alpha']);
    expect(await list('order_by=due_date&sort=asc')).toEqual(['beta', 'alpha', 'gamma']);
    expect(await list('order_by=due_date&sort=desc')).toEqual(['alpha', 'beta', 'gamma']);
    expect((await owner.get(`${path}/issues?order_by=nothing`)).status).toBe(400);
    const detailed = await owner.get(`${path}/issues?iids[]=2&with_labels_details=true`);
    expect(detailed.body[0].labels).toMatchObject([{ name: 'bug', text_color: '#FFFFFF' }]);
    const ofMilestone = `/groups/${group.id}/milestones/${milestone.id}/issues`;
    expect(titles(await owner.get(ofMilestone))).toEqual(['beta']);
    expect(titles(await app().anonymous.get(ofMilestone))).toEqual([]);
    expect(titles(await owner.get(`/groups/${group.id}/issues?state=opened`))).toEqual(['gamma', 'beta']);
    expect(titles(await owner.get('/issues'))).toEqual(['beta', 'alpha']);
    expect(titles(await guest.get('/issues?scope=assigned_to_me'))).toEqual(['beta']);
    expect((await app().anonymous.get('/issues')).status).toBe(401);

    // Keyset pages cover the list to its end.
    const seen: string[] = [];
    let next: string | undefined = `${path}/issues?pagination=keyset&order_by=title&sort=asc&per_page=2`;
    while (next) {
      const answer: Awaited<ReturnType<typeof owner.get>> = await owner.get(next);
      seen.push(...titles(answer));
      next = /<[^>]*\/api\/v4([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    }
    expect(seen).toEqual(['alpha', 'beta', 'gamma']);
  });

  it('allows each role only what it may do', async () => {
    const { path, owner, planner, guest, stranger } = await makeScene(app());
    expect((await app().anonymous.get(`${path}/issues`)).status).toBe(404);
    expect((await app().anonymous.post(`${path}/issues`, { title: 'x' })).status).toBe(401);
    expect((await stranger.get(`${path}/issues`)).status).toBe(404);
    expect((await stranger.post(`${path}/issues`, { title: 'x' })).status).toBe(404);
    // Guests create and edit their own issues, but planning attributes in a guest's request are ignored.
    const made = await guest.post(`${path}/issues`, { title: 'mine', labels: 'bug', weight: 2, iid: 90 });
    expect(made.body).toMatchObject({ iid: 1, labels: [], weight: null });
    await owner.post(`${path}/issues`, { title: 'not theirs' });
    expect((await guest.put(`${path}/issues/1`, { title: 'still mine', labels: 'bug' })).body).toMatchObject({
      title: 'still mine',
      labels: [],
    });
    expect((await guest.put(`${path}/issues/1`, { labels: 'bug' })).status).toBe(403);
    expect((await guest.put(`${path}/issues/1`, { confidential: true })).status).toBe(403);
    expect((await guest.put(`${path}/issues/2`, { title: 'x' })).status).toBe(403);
    expect((await guest.delete(`${path}/issues/1`)).status).toBe(403);
    expect((await planner.put(`${path}/issues/1`, { labels: 'bug' })).body.labels).toEqual(['bug']);
    expect((await planner.delete(`${path}/issues/1`)).status).toBe(403);
    await owner.put(path, { issues_access_level: 'disabled' });
    expect((await owner.get(`${path}/issues`)).status).toBe(404);
    expect((await owner.get(`${path}/issues/1`)).status).toBe(404);
    expect((await owner.post(`${path}/issues`, { title: 'x' })).status).toBe(404);
    await owner.put(path, { issues_access_level: 'enabled' });
    await owner.post(`${path}/archive`);
    expect((await owner.post(`${path}/issues`, { title: 'x' })).status).toBe(403);
    expect((await owner.put(`${path}/issues/1`, { title: 'x' })).status).toBe(403);
    expect(titles(await owner.get(`${path}/issues`))).toEqual(['not theirs', 'still mine']);
  });

  it('shows confidential issues only to their authors, their assignees and Planners', async () => {
    const { path, project, people, group, owner, planner, guest, stranger } = await makeScene(app(), {
      visibility: 'public',
    });
    await owner.post(`${path}/issues`, { title: 'open' });
    await owner.post(`${path}/issues`, { title: 'secret', confidential: true, labels: 'bug' });
    await stranger.post(`${path}/issues`, { title: 'their secret', confidential: true });
    const everywhere = `/issues?scope=all&search=secret`;
    const graphql = `{ project(fullPath: "${project.path_with_namespace}") { issue(iid: "2") { title }
      issues { count nodes { title } } openIssuesCount issueStatusCounts { opened } } }`;
    const sees = async (client: typeof owner) => {
      const list = await client.get(`${path}/issues?sort=asc`);
      const { data } = await client.graphql(graphql);
      expect(data.project.issues.count).toBe(list.body.length);
      expect(data.project.issueStatusCounts.opened).toBe(list.body.length);
      expect(data.project.issues.nodes.map((each: { title: string }) => each.title).toReversed()).toEqual(titles(list));
      expect(list.headers.get('x-total')).toBe(String(list.body.length));
      expect((await client.get(`${path}/issues/2`)).status).toBe(titles(list).includes('secret') ? 200 : 404);
      expect(data.project.issue === null).toBe(!titles(list).includes('secret'));
      expect(titles(await client.get(`/groups/${group.id}/issues?sort=asc`))).toEqual(titles(list));
      expect((await client.get(everywhere)).body.length).toBe(list.body.length - 1);
      // The count that everyone sees covers only the issues that everyone sees.
      expect(data.project.openIssuesCount).toBe(1);
      return titles(list);
    };
    expect(await sees(owner)).toEqual(['open', 'secret', 'their secret']);
    expect(await sees(planner)).toEqual(['open', 'secret', 'their secret']);
    expect(await sees(stranger)).toEqual(['open', 'their secret']);
    expect(await sees(guest)).toEqual(['open']);
    expect(await sees(app().anonymous)).toEqual(['open']);
    const counts = async (client: typeof owner) => (await client.get(`${path}/labels/bug`)).body.open_issues_count;
    expect([await counts(planner), await counts(guest)]).toEqual([1, 0]);
    expect((await guest.put(`${path}/issues/2`, { title: 'x' })).status).toBe(404);
    await owner.put(`${path}/issues/2`, { assignee_ids: [people.guest.id] });
    expect(await sees(guest)).toEqual(['open', 'secret']);
    await owner.put(`${path}/issues/2`, { confidential: false });
    expect((await owner.get(path)).body.open_issues_count).toBe(2);
  });
});
