import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { insertMergeRequest, insertPipeline } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const db = () => app().hub.services.db;

/** A record of the second time shows this one. The others are in the milliseconds beside it. */
const SHOWN = '2020-01-02T03:04:05.678Z';
const TIMES = ['2020-01-02T03:04:05.677999Z', '2020-01-02T03:04:05.678901Z', '2020-01-02T03:04:05.679Z'];

/** Creates three records, and sets the columns of each to one of the times. */
const three = async (table: string, names: readonly string[], make: () => Promise<{ readonly id: number }>) => {
  const ids: number[] = [];
  for (const _ of TIMES) ids.push((await make()).id);
  // Followers update the times of what has just been created.
  await app().settle();
  for (const [n, time] of TIMES.entries()) {
    const values = names.map((name) => sql`${sql.ref(`${name}_at`)} = ${time}::timestamptz`);
    await sql`update ${sql.table(table)} set ${sql.join(values)} where id = ${ids[n]}`.execute(db());
  }
  return ids;
};

const scene = async () => {
  const { project, path, owner, people } = await makeScene(app());
  const project_id = project.id;
  const create = async (url: string, body: Record<string, unknown>) => (await owner.post(url, body)).body;
  return { project, project_id, path, owner, person: people.owner, create };
};

it('finds records by the time that they show, in every list of REST', async () => {
  const { project_id, path, owner, person, create } = await scene();
  const root = app().as(app().root);
  const environment = await create(`${path}/environments`, { name: 'live' });
  let count = 0;
  const make = {
    issues: () => create(`${path}/issues`, { title: 'One' }),
    merge_requests: () => insertMergeRequest(db(), { project_id, state: 'merged' }),
    pipelines: () => insertPipeline(db(), { project_id }),
    milestones: () => create(`${path}/milestones`, { title: `v${++count}` }),
    deployments: () => {
      const at = {
        project_id,
        environment_id: environment.id,
        ref: 'main',
        sha: 'a'.repeat(40),
        status: 'success',
        tag: false,
      };
      return db()
        .insertInto('deployments')
        .values({ ...at, iid: ++count })
        .returning('id')
        .executeTakeFirstOrThrow();
    },
    personal_access_tokens: () => create('/user/personal_access_tokens', { name: 'shown', scopes: ['k8s_proxy'] }),
    users: () => app().make.user(),
    projects: () => app().make.project({}, person),
  };
  const found: Record<string, unknown> = {};
  for (const [table, list, names] of [
    ['issues', `${path}/issues?`, ['created', 'updated']],
    ['merge_requests', `${path}/merge_requests?`, ['created', 'updated']],
    ['pipelines', `${path}/pipelines?`, ['created', 'updated']],
    ['milestones', `${path}/milestones?`, ['updated']],
    ['deployments', `${path}/deployments?`, ['updated', 'finished']],
    ['personal_access_tokens', '/personal_access_tokens?', ['created', 'last_used']],
    ['users', '/users?', ['created']],
    ['projects', '/projects?order_by=updated_at&', ['updated', 'last_activity']],
  ] as const) {
    const ids = await three(table, names, make[table]);
    const client = table === 'users' ? root : owner;
    for (const name of names) {
      for (const side of ['after', 'before']) {
        const answer = await client.get(`${list}per_page=100&${name}_${side}=${SHOWN}`);
        const listed = new Set(answer.body.map(({ id }: { id: number }) => id));
        found[`${table} ${name}_${side}`] = ids.map((id) => listed.has(id));
      }
    }
  }
  const expected = Object.keys(found).map((key) => [
    key,
    key.endsWith('after') ? [false, true, true] : [true, true, false],
  ]);
  expect(found).toEqual(Object.fromEntries(expected));
});

it('finds records by the time that they show, over GraphQL', async () => {
  const { project, project_id, owner, path, create } = await scene();
  await three('issues', ['created', 'updated'], () => create(`${path}/issues`, { title: 'One' }));
  await three('merge_requests', ['merged'], () => insertMergeRequest(db(), { project_id, state: 'merged' }));
  await three('pipelines', ['updated'], () => insertPipeline(db(), { project_id }));
  const { data, errors } = await owner.graphql(
    `query ($path: ID!, $at: Time) { project(fullPath: $path) {
      issues(updatedAfter: $at, updatedBefore: $at) { nodes { iid } }
      mergeRequests(mergedAfter: $at, mergedBefore: $at) { nodes { iid } }
      pipelines(updatedAfter: $at, updatedBefore: $at) { nodes { iid } } } }`,
    { path: project.path_with_namespace, at: SHOWN },
  );
  const second = { nodes: [{ iid: '2' }] };
  expect([errors, data?.project]).toEqual([undefined, { issues: second, mergeRequests: second, pipelines: second }]);
});
