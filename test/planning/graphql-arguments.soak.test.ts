import { beforeAll, describe, expect, it } from 'vitest';
import { gid } from '#graphql/ids.ts';
import { insertMergeRequest } from '../merge-requests/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { expectLists, type ListCase, mutate } from '../support/graphql.ts';

// Sets each argument of the lists and mutations of issues, comments, labels and milestones.

const app = useApp();
const db = () => app().hub.services.db;

let owner: TestUser;
let reader: TestUser;
let group: TestGroup;
let subgroup: TestGroup;
let project: TestProject;
let below: TestProject;
let client: Client;

const create = async (path: string, body: Record<string, unknown>) => {
  const answer = await client.post(path, body);
  expect([path, answer.status]).toEqual([path, 201]);
  return answer.body;
};

beforeAll(async () => {
  const { make, as } = app();
  owner = await make.user();
  reader = await make.user();
  client = as(owner);
  group = await make.group({ visibility: 'public' }, owner);
  subgroup = await make.group({ visibility: 'private', parent_id: group.id }, owner);
  project = await make.project({ namespace_id: group.id, visibility: 'private' }, owner);
  below = await make.project({ namespace_id: subgroup.id, visibility: 'private' }, owner);
  await make.projectMember(project, reader, 20);
});

describe('lists of issues', () => {
  it('are filtered and sorted by each argument below projects, below groups and everywhere', async () => {
    const issues = `/projects/${project.id}/issues`;
    const milestone = await create(`/projects/${project.id}/milestones`, { title: 'v1' });
    const match = await create(issues, {
      title: 'Match',
      labels: 'bug,ui',
      milestone_id: milestone.id,
      assignee_ids: [reader.id],
      confidential: true,
      issue_type: 'incident',
    });
    await create(issues, { title: 'Other' });
    await create(`/projects/${below.id}/issues`, { title: 'Below' });
    await db()
      .updateTable('issues')
      .set({
        author_id: reader.id,
        state: 'closed',
        description: 'a needle',
        created_at: '2024-06-01T00:00:00Z',
        updated_at: '2024-06-02T00:00:00Z',
      })
      .where('id', '=', match.id)
      .execute();
    await db().insertInto('award_emoji').values({ issue_id: match.id, user_id: reader.id, name: 'tada' }).execute();
    const [MATCH, OTHER, BOTH] = [['Match'], ['Other'], ['Match', 'Other']];
    const table: readonly ListCase[] = [
      ['', BOTH],
      ['iid: "1"', MATCH],
      ['iids: ["2", "x"]', OTHER],
      ['state: closed', MATCH],
      ['state: opened', OTHER],
      ['state: all', BOTH],
      ['labelName: ["ui", "bug"]', MATCH],
      ['labelName: ["bug", "none-such"]', []],
      ['labelName: "None"', OTHER],
      ['milestoneTitle: ["v1", "v2"]', MATCH],
      ['milestoneTitle: "none"', OTHER],
      [`authorUsername: "${reader.username}"`, MATCH],
      [`assigneeUsername: "${reader.username}"`, MATCH],
      [`assigneeUsernames: ["${reader.username}", "nobody"]`, MATCH],
      [`assigneeId: "${reader.id}"`, MATCH],
      ['assigneeId: "None"', OTHER],
      ['assigneeId: "0"', OTHER],
      ['search: "NEEDLE"', MATCH],
      ['types: [INCIDENT]', MATCH],
      ['types: [ISSUE, TASK]', OTHER],
      ['confidential: true', MATCH],
      ['confidential: false', OTHER],
      ['myReactionEmoji: "tada"', MATCH],
      ['myReactionEmoji: "None"', OTHER],
      ['createdAfter: "2024-07-01T00:00:00Z"', OTHER],
      ['createdBefore: "2024-07-01T00:00:00Z"', MATCH],
      ['updatedAfter: "2024-07-01T00:00:00Z"', OTHER],
      ['updatedBefore: "2024-07-01T00:00:00Z"', MATCH],
      ['not: { iids: ["1"] }', OTHER],
      ['not: { labelName: ["bug"] }', OTHER],
      ['not: { milestoneTitle: ["v1"] }', OTHER],
      [`not: { authorUsername: "${reader.username}" }`, OTHER],
      [`not: { assigneeUsernames: ["${reader.username}"] }`, OTHER],
      ['sort: TITLE_ASC', ['Match', 'Other']],
      ['sort: CREATED_DESC', ['Other', 'Match']],
    ];
    const asReader = app().as(reader);
    await expectLists(asReader, `project(fullPath: "${project.path_with_namespace}")`, 'issues', 'title', table);
    await expectLists(asReader, `group(fullPath: "${group.full_path}")`, 'issues', 'title', table);
    await expectLists(asReader, '', 'issues', 'title', table);
    const subgroups: readonly ListCase[] = [
      ['includeSubgroups: false', BOTH],
      ['includeSubgroups: true', [...BOTH, 'Below']],
    ];
    await expectLists(client, `group(fullPath: "${group.full_path}")`, 'issues', 'title', subgroups);
    await expectLists(asReader, `group(fullPath: "${group.full_path}")`, 'issues', 'title', [
      ['includeSubgroups: true', BOTH],
    ]);
  });
});

describe('mutations of issues', () => {
  const scene = async () => {
    const mine = await app().make.project({ namespace_id: group.id }, owner);
    const path = `/projects/${mine.id}`;
    return {
      path,
      projectPath: mine.path_with_namespace,
      milestone: await create(`${path}/milestones`, { title: 'm1' }),
      labels: [
        await create(`${path}/labels`, { name: 'l1', color: '#ff0000' }),
        await create(`${path}/labels`, { name: 'l2', color: '#ff0000' }),
      ],
    };
  };
  const labelId = ({ id }: { readonly id: number }) => gid('ProjectLabel', id);

  it('write each attribute of a new issue', async () => {
    const { path, projectPath, milestone, labels } = await scene();
    await mutate(
      client,
      'createIssue',
      {
        projectPath,
        title: 'Full',
        description: 'text',
        assigneeIds: [gid('User', owner.id)],
        confidential: true,
        createdAt: '2023-01-02T03:04:05Z',
        iid: 17,
        labelIds: labels.map(labelId),
        milestoneId: gid('Milestone', milestone.id),
        type: 'INCIDENT',
        dueDate: '2030-01-01',
        weight: 3,
      },
      'issue { iid }',
    );
    expect((await client.get(`${path}/issues/17`)).body).toMatchObject({
      title: 'Full',
      description: 'text',
      assignees: [{ id: owner.id }],
      confidential: true,
      created_at: '2023-01-02T03:04:05.000Z',
      labels: ['l1', 'l2'],
      milestone: { id: milestone.id },
      issue_type: 'incident',
      due_date: '2030-01-01',
      weight: 3,
    });
  });

  it('change each attribute of an issue', async () => {
    const { path, projectPath, milestone, labels } = await scene();
    await create(`${path}/issues`, { title: 'Old' });
    const read = async () => (await client.get(`${path}/issues/1`)).body;
    const update = (input: Record<string, unknown>) =>
      mutate(client, 'updateIssue', { projectPath, iid: '1', ...input }, 'issue { iid }');
    await update({
      title: 'New',
      description: 'text',
      assigneeIds: [gid('User', owner.id)],
      confidential: true,
      locked: true,
      type: 'TASK',
      labelIds: [labelId(labels[0])],
      milestoneId: gid('Milestone', milestone.id),
      dueDate: '2030-01-01',
      weight: 3,
    });
    expect(await read()).toMatchObject({
      title: 'New',
      description: 'text',
      assignees: [{ id: owner.id }],
      confidential: true,
      discussion_locked: true,
      issue_type: 'task',
      labels: ['l1'],
      milestone: { id: milestone.id },
      due_date: '2030-01-01',
      weight: 3,
    });
    await update({ addLabelIds: [labelId(labels[1])] });
    expect((await read()).labels).toEqual(['l1', 'l2']);
    await update({ removeLabelIds: [labelId(labels[0])], milestoneId: null, assigneeIds: [], weight: null });
    expect(await read()).toMatchObject({ labels: ['l2'], milestone: null, assignees: [], weight: null, title: 'New' });
    const named = { projectPath, iid: '1' };
    const FIELDS = 'issue { confidential discussionLocked dueDate }';
    expect(
      (await mutate(client, 'issueSetConfidential', { ...named, confidential: false }, FIELDS)).issue.confidential,
    ).toBe(false);
    expect((await mutate(client, 'issueSetLocked', { ...named, locked: false }, FIELDS)).issue.discussionLocked).toBe(
      false,
    );
    const moved = await mutate(client, 'issueSetDueDate', { ...named, dueDate: '2031-02-03' }, FIELDS);
    expect(moved.issue.dueDate).toBe('2031-02-03T00:00:00.000Z');
    expect((await mutate(client, 'issueSetDueDate', named, FIELDS)).issue.dueDate).toBeNull();
  });
});

describe('comments', () => {
  it('are written with each attribute and listed by kind', async () => {
    const issue = await create(`/projects/${project.id}/issues`, { title: 'Discussed' });
    const mr = await insertMergeRequest(db(), { project_id: project.id });
    const noteableId = gid('Issue', issue.id);
    const { note } = await mutate(
      client,
      'createNote',
      { noteableId, body: 'said', internal: true, createdAt: '2023-01-02T03:04:05Z' },
      'note { internal createdAt }',
    );
    expect(note).toEqual({ internal: true, createdAt: '2023-01-02T03:04:05.000Z' });
    await mutate(client, 'createNote', { noteableId: gid('MergeRequest', mr.id), body: 'said' }, 'note { id }');
    const system = { project_id: project.id, author_id: owner.id, note: 'changed it', system: true };
    await db()
      .insertInto('notes')
      .values([
        { ...system, issue_id: issue.id, noteable_type: 'Issue', discussion_id: 'd1' },
        { ...system, merge_request_id: mr.id, noteable_type: 'MergeRequest', discussion_id: 'd2' },
      ])
      .execute();
    const table: readonly ListCase[] = [
      ['filter: ALL_NOTES', ['said', 'changed it']],
      ['filter: ONLY_COMMENTS', ['said']],
      ['filter: ONLY_ACTIVITY', ['changed it']],
    ];
    const at = `project(fullPath: "${project.path_with_namespace}")`;
    await expectLists(client, `${at} { issue(iid: "${issue.iid}")`, 'notes', 'body', table);
    await expectLists(client, `${at} { mergeRequest(iid: "${mr.iid}")`, 'notes', 'body', table);
  });
});

describe('labels', () => {
  it('are listed by each argument, from groups that the caller can see', async () => {
    const root = await app().make.group({ visibility: 'public' }, owner);
    const middle = await app().make.group({ visibility: 'public', parent_id: root.id }, owner);
    const hidden = await app().make.group({ visibility: 'private', parent_id: middle.id }, owner);
    const inside = await app().make.project({ namespace_id: middle.id, visibility: 'public' }, owner);
    const label = (owned: string, name: string, description = '') =>
      create(`${owned}/labels`, { name, color: '#112233', description });
    const archivedLabel = async (owned: string, name: string) => {
      await label(owned, name);
      await client.put(`${owned}/labels/${name}`, { archived: true });
    };
    await label(`/groups/${root.id}`, 'above');
    await label(`/groups/${middle.id}`, 'here', 'needle');
    await archivedLabel(`/groups/${middle.id}`, 'old');
    await label(`/groups/${hidden.id}`, 'hidden');
    await label(`/projects/${inside.id}`, 'own', 'needle');
    await archivedLabel(`/projects/${inside.id}`, 'gone');
    const place = `group(fullPath: "${middle.full_path}")`;
    const common: readonly ListCase[] = [
      ['', ['here', 'old']],
      ['includeAncestorGroups: true', ['above', 'here', 'old']],
      ['searchTerm: "NEEDLE"', ['here']],
      ['title: "old"', ['old']],
      ['archived: true', ['old']],
      ['archived: false', ['here']],
    ];
    await expectLists(client, place, 'labels', 'title', [
      ...common,
      ['includeDescendantGroups: true', ['here', 'old', 'hidden']],
    ]);
    await expectLists(app().anonymous, place, 'labels', 'title', [
      ...common,
      ['includeDescendantGroups: true', ['here', 'old']],
    ]);
    const listed = await app().anonymous.get(`/groups/${middle.id}/labels?include_descendant_groups=true`);
    expect(listed.body.map(({ name }: { name: string }) => name)).toEqual(['above', 'here', 'old']);
    await expectLists(client, `project(fullPath: "${inside.path_with_namespace}")`, 'labels', 'title', [
      ['includeAncestorGroups: true', ['above', 'here', 'old', 'own', 'gone']],
      ['searchTerm: "needle"', ['own']],
      ['title: "own"', ['own']],
      ['archived: true', ['gone']],
      ['archived: false', ['own']],
    ]);
  });

  it('are created and changed with each attribute', async () => {
    const SELECTION = 'label { id title color description priority archived }';
    const projectPath = project.path_with_namespace;
    const made = await mutate(
      client,
      'labelCreate',
      { projectPath, title: 'first', color: '#123456', description: 'text', priority: 4 },
      SELECTION,
    );
    expect(made.label).toMatchObject({ title: 'first', color: '#123456', description: 'text', priority: 4 });
    const { id } = made.label;
    const wanted = { title: 'second', color: '#654321', description: 'other', priority: 5, archived: true };
    expect((await mutate(client, 'labelUpdate', { id, ...wanted }, SELECTION)).label).toEqual({ id, ...wanted });
  });
});

describe('milestones', () => {
  it('are listed by each argument, from groups that the caller can see', async () => {
    const root = await app().make.group({ visibility: 'public' }, owner);
    const middle = await app().make.group({ visibility: 'public', parent_id: root.id }, owner);
    const hidden = await app().make.group({ visibility: 'private', parent_id: middle.id }, owner);
    const inside = await app().make.project({ namespace_id: middle.id, visibility: 'public' }, owner);
    const milestone = (owned: string, title: string) => create(`${owned}/milestones`, { title });
    await milestone(`/groups/${root.id}`, 'above');
    const ids: string[] = [];
    for (const owned of [`/groups/${middle.id}`, `/projects/${inside.id}`]) {
      const prefix = owned.startsWith('/groups') ? '' : 'own ';
      ids.push(gid('Milestone', (await milestone(owned, `${prefix}first`)).id));
      const { id } = await milestone(owned, `${prefix}second`);
      await client.put(`${owned}/milestones/${id}`, { state_event: 'close' });
    }
    await milestone(`/groups/${hidden.id}`, 'hidden');
    const common = (prefix: string): readonly ListCase[] => [
      ['', [`${prefix}first`, `${prefix}second`]],
      [`ids: ${JSON.stringify(ids)}`, [`${prefix}first`]],
      ['iids: ["2"]', [`${prefix}second`]],
      ['state: active', [`${prefix}first`]],
      ['state: closed', [`${prefix}second`]],
      [`title: "${prefix}second"`, [`${prefix}second`]],
      ['searchTitle: "IRS"', [`${prefix}first`]],
    ];
    const place = `group(fullPath: "${middle.full_path}")`;
    const withAncestors: ListCase = ['includeAncestors: true', ['above', 'first', 'second']];
    await expectLists(client, place, 'milestones', 'title', [
      ...common(''),
      withAncestors,
      ['includeDescendants: true', ['first', 'second', 'hidden']],
    ]);
    await expectLists(app().anonymous, place, 'milestones', 'title', [
      ...common(''),
      withAncestors,
      ['includeDescendants: true', ['first', 'second']],
    ]);
    const listed = await app().anonymous.get(`/groups/${middle.id}/milestones?include_descendants=true`);
    expect(listed.body.map(({ title }: { title: string }) => title)).toEqual(['first', 'second']);
    await expectLists(client, `project(fullPath: "${inside.path_with_namespace}")`, 'milestones', 'title', [
      ...common('own '),
      ['includeAncestors: true', ['above', 'first', 'second', 'own first', 'own second']],
    ]);
  });

  it('are created and changed with each attribute', async () => {
    const SELECTION = 'milestone { id title description startDate dueDate }';
    const projectPath = project.path_with_namespace;
    const made = await mutate(
      client,
      'milestoneCreate',
      { projectPath, title: 'first', description: 'text', startDate: '2030-01-01', dueDate: '2030-02-01' },
      SELECTION,
    );
    expect(made.milestone).toMatchObject({
      title: 'first',
      description: 'text',
      startDate: '2030-01-01T00:00:00.000Z',
      dueDate: '2030-02-01T00:00:00.000Z',
    });
    const changed = await mutate(
      client,
      'milestoneUpdate',
      { id: made.milestone.id, title: 'second', description: 'other', startDate: '2031-01-01', dueDate: '2031-02-01' },
      SELECTION,
    );
    expect(changed.milestone).toMatchObject({
      title: 'second',
      description: 'other',
      startDate: '2031-01-01T00:00:00.000Z',
      dueDate: '2031-02-01T00:00:00.000Z',
    });
  });
});
