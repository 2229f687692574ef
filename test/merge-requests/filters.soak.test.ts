import { beforeAll, describe, expect, it } from 'vitest';
import { insertRule } from '../approvals/support.ts';
import { makeScene } from '../planning/scene.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { expectLists, type ListCase } from '../support/graphql.ts';
import { insertDiff, insertMergeRequest } from './support.ts';

// Tests every merge request filter in every list that accepts it: with a value that matches one merge request, and with
// a value that does not.

const app = useApp();
let user: TestUser;
let other: TestUser;
let projectId: number;
let projectPath: string;
let groupPath: string;

beforeAll(async () => {
  const scene = await makeScene(app());
  user = scene.people.maintainer;
  other = scene.people.reporter;
  projectId = scene.project.id;
  projectPath = scene.project.path_with_namespace;
  groupPath = scene.group.full_path;
  const { db } = app().hub.services;
  const project_id = projectId;
  const milestone = await db
    .insertInto('milestones')
    .values({ project_id, iid: 1, title: 'v1' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const label = await db
    .insertInto('labels')
    .values({ project_id, title: 'bug', color: '#ff0000' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const { id } = await insertMergeRequest(db, {
    project_id,
    title: 'Match',
    source_branch: 'topic',
    author_id: user.id,
    merge_user_id: user.id,
    milestone_id: milestone.id,
    state: 'merged',
    created_at: '2024-06-01T00:00:00Z',
    updated_at: '2024-06-02T00:00:00Z',
    merged_at: '2024-06-03T00:00:00Z',
  });
  const person = { merge_request_id: id, user_id: user.id };
  await db.insertInto('label_links').values({ label_id: label.id, merge_request_id: id }).execute();
  await db.insertInto('merge_request_assignees').values(person).execute();
  await db.insertInto('merge_request_reviewers').values(person).execute();
  await db.insertInto('merge_request_approvals').values(person).execute();
  await insertRule(app(), { project_id }, { approvals_required: 1, users: [user] });
  await db
    .insertInto('award_emoji')
    .values({ ...person, name: 'tada' })
    .execute();
});

type Filter = readonly [name: string, fits: unknown, fitsNot: unknown];
const [BEFORE, AFTER] = ['2024-01-01T00:00:00Z', '2025-01-01T00:00:00Z'];

const times = (...names: readonly string[]): Filter[] =>
  names.map((name) => (/after$/i.test(name) ? [name, BEFORE, AFTER] : [name, AFTER, BEFORE]));

/** Returns queries that have all filters with the values that fit, each with one filter of a kind. */
const togetherOf = (filters: readonly Filter[]): string[] => {
  const queries: string[][] = [];
  const count = new Map<string, number>();
  for (const [name, fits] of filters) {
    const kind = name.replace(/=.*$|\[\]$/, '').replace(/_(?:ids?|username)\b/, '');
    const turn = count.get(kind) ?? 0;
    count.set(kind, turn + 1);
    const query = queries[turn] ?? [];
    queries[turn] = [...query, `${name}=${fits}`];
  }
  return queries.map((query) => query.join('&'));
};

describe('merge requests', () => {
  it('are filtered by each parameter of each REST list', async () => {
    const [me, them] = [user, other];
    const criteria: readonly Filter[] = [
      ['labels', 'bug', 'none-such'],
      ['milestone', 'v1', 'v2'],
      ['author_id', me.id, them.id],
      ['author_username', me.username, them.username],
      ['assignee_id', me.id, them.id],
      ['assignee_username', me.username, them.username],
      ['reviewer_id', me.id, them.id],
      ['reviewer_username', me.username, them.username],
      ['my_reaction_emoji', 'tada', 'heart'],
    ];
    const filters: readonly Filter[] = [
      ...criteria,
      ...criteria.map(([name, fits, fitsNot]): Filter => [`not[${name}]`, fitsNot, fits]),
      ...times('created_after', 'created_before', 'updated_after', 'updated_before'),
      ['assignee_username[]', me.username, `${me.username}&assignee_username[]=${them.username}`],
      ['not[assignee_username]', them.username, `${me.username},${them.username}`],
      ['state', 'merged', 'opened'],
      ['approved', 'yes', 'no'],
      ['approved_by_ids', me.id, them.id],
      ['merge_user_id', me.id, them.id],
      ['merge_user_username', me.username, them.username],
      ['source_project_id', projectId, 1_000_000],
      ['source_branch', 'topic', 'main'],
      ['target_branch', 'main', 'topic'],
      ['wip', 'no', 'yes'],
      ['draft', false, true],
      ['search', 'match', 'nothing'],
      ['search=match&in', 'title', 'description'],
      ['approved_by_ids', 'Any', 'None'],
      ['approver_ids', me.id, them.id],
      ['approver_ids', 'Any', 'None'],
      ['approver_ids', me.id, `${me.id},${them.id}`],
      // There are no deployments, so these filters find nothing.
      ['environment', '', 'production'],
      ['deployed_after', '', BEFORE],
      ['deployed_after', 'no time', BEFORE],
      ['deployed_before', '', AFTER],
      ['deployed_before', 'no time', AFTER],
    ];
    const fitting = togetherOf(filters);
    const found = async (list: string, query: string): Promise<string[]> => {
      const { status, body } = await app().as(user).get(`${list}${query}`);
      expect([query, status]).toEqual([query, 200]);
      return body.map(({ title }: { title: string }) => title);
    };
    for (const list of [
      `/projects/${projectId}/merge_requests?`,
      `/groups/${encodeURIComponent(groupPath)}/merge_requests?`,
      '/merge_requests?scope=all&',
    ]) {
      for (const query of fitting) expect([list, query, await found(list, query)]).toEqual([list, query, ['Match']]);
      for (const [name, , fitsNot] of filters) {
        expect([list, name, await found(list, `${name}=${fitsNot}`)]).toEqual([list, name, []]);
      }
      const shown = await app().as(user).get(`${list}with_labels_details=true&with_merge_status_recheck=true`);
      expect(shown.body).toMatchObject([{ title: 'Match', labels: [{ name: 'bug' }] }]);
      expect((await app().as(user).get(`${list}view=simple`)).body[0]).not.toHaveProperty('labels');
    }
  });

  it('are filtered by each argument of each GraphQL list', async () => {
    const [me, them] = [user.username, other.username];
    const filters: readonly Filter[] = [
      ...times('createdAfter', 'createdBefore', 'updatedAfter', 'updatedBefore', 'mergedAfter', 'mergedBefore'),
      ['approved', true, false],
      ['approvedBy', [me], [me, them]],
      ['approver', [me], [me, them]],
      ['assigneeUsername', me, them],
      ['authorUsername', me, them],
      ['reviewerUsername', me, them],
      ['draft', false, true],
      ['iids', ['1'], ['2']],
      ['iids', ['1', '2'], ['3', '4']],
      ['labels', ['bug'], ['none-such']],
      ['labels', ['Any'], ['none']],
      ['milestoneTitle', 'v1', 'v2'],
      ['milestoneTitle', 'Any', 'None'],
      ['search', 'match', 'nothing'],
      ['sourceBranches', ['topic'], ['main']],
      ['targetBranches', ['main'], ['topic']],
      ['not', { assigneeUsernames: [them] }, { assigneeUsernames: [me] }],
      ['not', { authorUsername: them }, { authorUsername: me }],
      ['not', { reviewerUsername: them }, { reviewerUsername: me }],
      ['not', { labels: ['none-such'] }, { labels: ['bug'] }],
      ['not', { labels: ['None'] }, { labels: ['any'] }],
      ['not', { milestoneTitle: 'v2' }, { milestoneTitle: 'v1' }],
      ['not', { milestoneTitle: 'none' }, { milestoneTitle: 'Any' }],
    ];
    const literal = (value: unknown): string =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? `{ ${Object.entries(value).map(([key, each]) => `${key}: ${literal(each)}`)} }`
        : JSON.stringify(value);
    const lists = ['assignedMergeRequests', 'authoredMergeRequests', 'reviewRequestedMergeRequests'];
    const places: readonly (readonly [string, string])[] = [
      [`project(fullPath: "${projectPath}")`, 'mergeRequests'],
      [`group(fullPath: "${groupPath}")`, 'mergeRequests'],
      ...lists.flatMap((list): [string, string][] => [
        ['currentUser', list],
        [`user(username: "${me}") { ... on UserCore`, list],
      ]),
    ];
    for (const [place, list] of places) {
      await expectLists(app().as(user), place, list, 'title', [
        ...filters.flatMap(([name, fits, fitsNot]): ListCase[] => [
          [`${name}: ${literal(fits)}`, ['Match']],
          [`${name}: ${literal(fitsNot)}`, []],
        ]),
        ['state: merged, sort: MERGED_AT_ASC', ['Match']],
        ['state: opened, sort: MERGED_AT_ASC', []],
      ]);
    }
  });

  it('are listed below subgroups, and their diffs by path, if asked to', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const subgroup = await app().make.group({ parent_id: group.id }, owner);
    const [here, below] = [
      await app().make.project({ namespace_id: group.id }, owner),
      await app().make.project({ namespace_id: subgroup.id }, owner),
    ];
    const { db } = app().hub.services;
    const { id } = await insertMergeRequest(db, { project_id: here.id, title: 'Here' });
    await insertMergeRequest(db, { project_id: below.id, title: 'Below' });
    await expectLists(app().as(owner), `group(fullPath: "${group.full_path}")`, 'mergeRequests', 'title', [
      ['includeSubgroups: false', ['Here']],
      ['includeSubgroups: true', ['Here', 'Below']],
    ]);
    await insertDiff(db, id, { files: [{ new_path: 'a' }, { new_path: 'b' }] });
    const { data, errors } = await app()
      .as(owner)
      .graphql(`{ mergeRequest(id: "gid://gitlab/MergeRequest/${id}") {
        all: diffStats { path } one: diffStats(path: "b") { path } none: diffStats(path: "c") { path } } }`);
    expect(errors).toBeUndefined();
    expect(data.mergeRequest).toEqual({ all: [{ path: 'a' }, { path: 'b' }], one: [{ path: 'b' }], none: [] });
  });
});
