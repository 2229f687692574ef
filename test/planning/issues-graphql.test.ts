import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { untilBlocked } from '../support/locks.ts';
import { countStatements } from '../support/statements.ts';
import { makeScene } from './scene.ts';

const app = useApp();

const FIELDS = `id iid title description state confidential type webUrl webPath reference ref: reference(full: true)
  author { username } assignees(first: 3) { nodes { username } } labels(first: 3) { count nodes { title color } } milestone { title }
  dueDate weight userNotesCount upvotes timeEstimate humanTimeEstimate totalTimeSpent discussionLocked
  taskCompletionStatus { count completedCount } userPermissions { updateIssue adminIssue destroyIssue } closedAt`;

describe('issues over GraphQL', () => {
  it('are null, as their project counts no open ones, for callers who may not read issues', async () => {
    const { project, path, owner, stranger } = await makeScene(app(), { visibility: 'public' });
    await owner.post(`${path}/issues`, { title: 'one' });
    const query = `{ project(fullPath: "${project.path_with_namespace}") {
      issues { count } issueStatusCounts { opened } openIssuesCount } }`;
    const shown = { issues: { count: 1 }, issueStatusCounts: { opened: 1 }, openIssuesCount: 1 };
    const hidden = { issues: null, issueStatusCounts: null, openIssuesCount: null };
    const seen = async (client: typeof owner) => (await client.graphql(query)).data.project;
    expect(await seen(stranger)).toEqual(shown);
    await owner.put(path, { issues_access_level: 'private' });
    expect([await seen(owner), await seen(stranger), await seen(app().anonymous)]).toEqual([shown, hidden, hidden]);
    await owner.put(path, { issues_access_level: 'disabled' });
    expect(await seen(owner)).toEqual(hidden);
  });

  it('creates, changes, reads and deletes issues under the same rules', async () => {
    const { project, people, path, owner, guest, stranger } = await makeScene(app());
    const projectPath = project.path_with_namespace;
    const create = `mutation ($input: CreateIssueInput!) { createIssue(input: $input) { errors issue { ${FIELDS} } } }`;
    const made = await owner.graphql(create, {
      input: { projectPath, title: 'one', description: '* [x] t', labels: ['bug'], dueDate: '2030-01-01', weight: 2 },
    });
    expect(made.errors).toBeUndefined();
    const { issue } = made.data.createIssue;
    expect(issue).toMatchObject({
      iid: '1',
      title: 'one',
      state: 'opened',
      type: 'ISSUE',
      webPath: `/${projectPath}/-/issues/1`,
      reference: '#1',
      ref: `${projectPath}#1`,
      author: { username: people.owner.username },
      assignees: { nodes: [] },
      labels: { count: 1, nodes: [{ title: 'bug' }] },
      milestone: null,
      dueDate: '2030-01-01T00:00:00.000Z',
      taskCompletionStatus: { count: 1, completedCount: 1 },
      userPermissions: { updateIssue: true, adminIssue: true, destroyIssue: true },
    });
    expect((await owner.get(`${path}/issues/1`)).body).toMatchObject({ title: 'one', labels: ['bug'], weight: 2 });
    const blank = await owner.graphql(create, { input: { projectPath, title: ' ' } });
    expect(blank.data.createIssue).toEqual({ errors: ["Title can't be blank"], issue: null });
    expect((await stranger.graphql(create, { input: { projectPath, title: 'x' } })).errors).toHaveLength(1);
    expect((await app().anonymous.graphql(create, { input: { projectPath, title: 'x' } })).errors).toHaveLength(1);

    const update = `mutation ($input: UpdateIssueInput!) { updateIssue(input: $input) { errors issue { ${FIELDS} } } }`;
    const closed = await owner.graphql(update, {
      input: { projectPath, iid: '1', stateEvent: 'CLOSE', removeLabelIds: [], labels: ['ui'] },
    });
    expect(closed.data.updateIssue.issue).toMatchObject({ state: 'closed', labels: { nodes: [{ title: 'ui' }] } });
    expect(closed.data.updateIssue.issue.closedAt).not.toBeNull();
    expect((await guest.graphql(update, { input: { projectPath, iid: '1', title: 'x' } })).errors).toHaveLength(1);
    const assign = `mutation ($input: IssueSetAssigneesInput!) { issueSetAssignees(input: $input) {
      errors issue { assignees { nodes { username } } } } }`;
    const assigned = await owner.graphql(assign, {
      input: { projectPath, iid: '1', assigneeUsernames: [people.guest.username], operationMode: 'APPEND' },
    });
    expect(assigned.data.issueSetAssignees.issue.assignees.nodes).toEqual([{ username: people.guest.username }]);
    const wrong = await owner.graphql(assign, {
      input: { projectPath, iid: '1', assigneeUsernames: [people.stranger.username] },
    });
    expect(wrong.data.issueSetAssignees).toMatchObject({ issue: null });
    expect(wrong.data.issueSetAssignees.errors).toHaveLength(1);

    const read = `query ($path: ID!, $id: IssueID!) { issue(id: $id) { title } project(fullPath: $path) {
      issue(iid: "1") { title } closed: issues(state: closed, labelName: ["ui"]) { count nodes { iid } }
      opened: issues(state: opened) { count } sorted: issues(sort: TITLE_ASC, assigneeUsernames: ["${people.guest.username}"]) { nodes { iid } } } }`;
    const { data, errors } = await guest.graphql(read, { path: projectPath, id: issue.id });
    expect(errors).toBeUndefined();
    expect(data).toEqual({
      issue: { title: 'one' },
      project: {
        issue: { title: 'one' },
        closed: { count: 1, nodes: [{ iid: '1' }] },
        opened: { count: 0 },
        sorted: { nodes: [{ iid: '1' }] },
      },
    });
    expect((await stranger.graphql(read, { path: projectPath, id: issue.id })).data).toEqual({
      issue: null,
      project: null,
    });
    const remove = 'mutation ($input: IssueDeleteInput!) { issueDelete(input: $input) { errors } }';
    expect((await guest.graphql(remove, { input: { projectPath, iid: '1' } })).errors).toHaveLength(1);
    expect((await owner.graphql(remove, { input: { projectPath, iid: '1' } })).data.issueDelete.errors).toEqual([]);
    expect((await owner.get(`${path}/issues`)).body).toEqual([]);
  });

  it('keeps the assignees that concurrent requests add', async () => {
    const { project, people, path, owner } = await makeScene(app());
    const { body: issue } = await owner.post(`${path}/issues`, { title: 'one', assignee_id: people.owner.id });
    const set = (username: string, operationMode: 'APPEND' | 'REMOVE') =>
      owner.graphql(`mutation ($input: IssueSetAssigneesInput!) { issueSetAssignees(input: $input) { errors } }`, {
        input: { projectPath: project.path_with_namespace, iid: '1', assigneeUsernames: [username], operationMode },
      });
    await app().settle();
    const { db } = app().hub.services;
    let answers: Promise<unknown[]> = Promise.resolve([]);
    await db.transaction().execute(async (trx) => {
      await trx.selectFrom('issues').select('id').where('id', '=', issue.id).forUpdate().execute();
      answers = Promise.all([
        set(people.guest.username, 'APPEND'),
        set(people.reporter.username, 'APPEND'),
        set(people.owner.username, 'REMOVE'),
      ]);
      await untilBlocked(app(), 3);
    });
    for (const answer of await answers) expect(answer).toMatchObject({ data: { issueSetAssignees: { errors: [] } } });
    const { body } = await owner.get(`${path}/issues/1`);
    expect(body.assignees.map(({ id }: { id: number }) => id)).toEqual(
      [people.guest.id, people.reporter.id].sort((a, b) => a - b),
    );
  });

  it('runs as many statements for many projects and issues as for two', async () => {
    const { owner, group, path } = await makeScene(app());
    const query = `{ group(fullPath: "${group.full_path}") { projects(first: 10) { nodes { fullPath label(title: "l0") { color }
      issue(iid: "1") { title } labels(first: 5) { nodes { title } } milestones(first: 5) { nodes { title } } issueStatusCounts { opened }
      issues(first: 10) { count nodes { ${FIELDS} } } } } } }`;
    const fill = async (project: string, issues: number) => {
      const { body } = await owner.post(`${project}/milestones`, { title: 'm' });
      for (let i = 0; i < issues; i++) {
        await owner.post(`${project}/issues`, { title: `i${i}`, labels: `l${i}`, milestone_id: body.id });
      }
    };
    const read = async () => {
      const { data, errors } = await owner.graphql(query);
      expect(errors).toBeUndefined();
      return data.group.projects.nodes;
    };
    const fillAnother = async (name: string, issues: number) => {
      const { body } = await owner.post('/projects', { name, namespace_id: group.id });
      await fill(`/projects/${body.id}`, issues);
    };
    await fill(path, 1);
    // The issues of a single project come with their count, which is a statement of its own for several.
    await fillAnother('second', 1);
    await read();
    const few = await countStatements(app(), read);
    await fillAnother('third', 4);
    await fillAnother('fourth', 4);
    const many = await countStatements(app(), async () => expect(await read()).toHaveLength(4));
    expect(many).toBe(few);
    expect(few).toBeLessThan(20);
  });
});
