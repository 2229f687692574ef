import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { KINDS, makeTracked } from './support.ts';

const app = useApp();
const TIMELOG = 'id timeSpent humanTimeSpent summary spentAt user { username } issue { iid } mergeRequest { iid }';

describe.each(KINDS)('tracking %s over GraphQL', (kind) => {
  const [model, field, mutation] =
    kind === 'issues'
      ? (['Issue', 'issue', 'issueSetSubscription'] as const)
      : (['MergeRequest', 'mergeRequest', 'mergeRequestSetSubscription'] as const);

  it('logs time, and deletes logged time', async () => {
    const { maintainer, owner, reporter, stranger, people, project, paths } = await makeTracked(app());
    const issuableId = `gid://gitlab/${model}/${(await maintainer.get(paths[kind])).body.id}`;
    const create = `mutation ($input: TimelogCreateInput!) { timelogCreate(input: $input) { errors timelog { ${TIMELOG} } } }`;
    const input = { issuableId, timeSpent: '1h 30m', spentAt: '2026-01-02T03:04:05.000Z', summary: 'Looking' };
    const made = await maintainer.graphql(create, { input });
    expect(made.data.timelogCreate).toMatchObject({
      errors: [],
      timelog: {
        timeSpent: 5_400,
        humanTimeSpent: '1h 30m',
        summary: 'Looking',
        spentAt: '2026-01-02T03:04:05.000Z',
        user: { username: people.maintainer.username },
        [field]: { iid: '1' },
      },
    });
    expect((await stranger.graphql(create, { input })).errors).toHaveLength(1);
    const query = `query ($path: ID!) { project(fullPath: $path) { ${field}(iid: "1") {
      totalTimeSpent subscribed timelogs(first: 5) { count nodes { ${TIMELOG} } }
      participants(first: 5) { nodes { username } } } } }`;
    const read = await maintainer.graphql(query, { path: project.path_with_namespace });
    expect(read.data.project[field]).toMatchObject({
      totalTimeSpent: 5_400,
      subscribed: true,
      timelogs: { count: 1, nodes: [made.data.timelogCreate.timelog] },
      participants: { nodes: [{ username: people.maintainer.username }] },
    });
    const remove = 'mutation ($input: TimelogDeleteInput!) { timelogDelete(input: $input) { errors timelog { id } } }';
    const { id } = made.data.timelogCreate.timelog;
    expect((await reporter.graphql(remove, { input: { id } })).errors).toHaveLength(1);
    expect((await stranger.graphql(remove, { input: { id } })).errors).toHaveLength(1);
    expect((await owner.graphql(remove, { input: { id } })).data.timelogDelete).toEqual({
      errors: [],
      timelog: { id },
    });
    expect((await owner.graphql(remove, { input: { id } })).errors).toHaveLength(1);
    expect((await maintainer.get(`${paths[kind]}/time_stats`)).body).toMatchObject({ total_time_spent: 0 });
  });

  it('subscribes and unsubscribes', async () => {
    const { reporter, stranger, project } = await makeTracked(app());
    const name = mutation.charAt(0).toUpperCase() + mutation.slice(1);
    const set = `mutation ($input: ${name}Input!) { ${mutation}(input: $input) { errors ${field} { subscribed } } }`;
    for (const subscribedState of [true, true, false]) {
      const input = { projectPath: project.path_with_namespace, iid: '1', subscribedState };
      const answer = await reporter.graphql(set, { input });
      expect(answer.data[mutation]).toEqual({ errors: [], [field]: { subscribed: subscribedState } });
      expect((await stranger.graphql(set, { input })).errors).toHaveLength(1);
    }
  });
});
