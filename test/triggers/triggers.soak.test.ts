import { describe, expect, it } from 'vitest';
import { ciScene } from '../schedules/support.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { giveToken } from '../support/running-job.ts';

const app = useApp();
const db = () => app().hub.services.db;

const FILE = `
spec:
  inputs:
    level:
      default: low
    depth:
      default: 1
      type: number
---
job:
  script:
    - echo $[[ inputs.level ]]
`;

const scene = async () => {
  const made = await ciScene(app(), FILE);
  return { ...made, triggers: `${made.url}/triggers` };
};

describe('a pipeline trigger', () => {
  it('is created, listed, changed and deleted, and only its owner sees its token', async () => {
    const { triggers, owner, project, ownerId } = await scene();
    const created = await owner.post(triggers, { description: 'From outside' });
    expect(created).toMatchObject({
      status: 201,
      body: { description: 'From outside', token: expect.stringMatching(/^glptt-/), last_used: null },
    });
    const one = `${triggers}/${created.body.id}`;
    expect((await owner.get(one)).body).toEqual(created.body);
    expect((await owner.get(one)).body.owner.id).toBe(ownerId);
    expect((await owner.put(one, { description: 'Changed' })).body.description).toBe('Changed');
    const maintainer = await app().make.user();
    await app().make.projectMember(project, maintainer, 40);
    const other = app().as(maintainer);
    expect((await other.get(triggers)).body).toMatchObject([{ description: 'Changed' }]);
    expect((await other.get(one)).body.token).toBe(created.body.token.slice(6, 10));
    expect((await other.put(one, { description: 'x' })).status).toBe(403);
    expect((await owner.put(one, { description: 'd'.repeat(256) })).status).toBe(400);
    const row = await db().selectFrom('pipeline_triggers').selectAll().executeTakeFirstOrThrow();
    expect(JSON.stringify(row) + row.sealed_token.toString('latin1')).not.toContain(created.body.token);
    expect((await other.delete(one)).status).toBe(204);
    expect((await owner.get(one)).status).toBe(404);
  });

  it('is hidden from those who do not administer the project', async () => {
    const { triggers, owner, developer, stranger } = await scene();
    const { body } = await owner.post(triggers, { description: '' });
    const one = `${triggers}/${body.id}`;
    for (const [client, status] of [
      [developer, 403],
      [stranger, 404],
      [app().anonymous, 401],
    ] as const) {
      const answers = [
        await client.get(triggers),
        await client.get(one),
        await client.post(triggers, { description: 'x' }),
        await client.put(one, { description: 'x' }),
        await client.delete(one),
      ];
      expect(answers.map((answer) => answer.status)).toEqual(Array(5).fill(status));
    }
  });

  it('starts pipelines as its owner, without another credential', async () => {
    const { url, triggers, owner, branch, ownerId, project } = await scene();
    const { body } = await owner.post(triggers, { description: 'x' });
    const { token } = body;
    const form = new URLSearchParams({ token, ref: branch, 'variables[DEPTH]': '3', 'inputs[depth]': '5' });
    const started = await app().anonymous.post(`${url}/trigger/pipeline`, form);
    expect(started).toMatchObject({ status: 201, body: { source: 'trigger', ref: branch, user: { id: ownerId } } });
    expect((await owner.get(`${url}/pipelines/${started.body.id}/variables`)).body).toMatchObject([
      { key: 'DEPTH', value: '3' },
    ]);
    const path = encodeURIComponent(project.path_with_namespace);
    const again = await app().anonymous.post(`/projects/${path}/ref/${branch}/trigger/pipeline`, {
      ...{ token, variables: { A: 'b' }, inputs: { level: 'low' } },
    });
    expect(again.status).toBe(201);
    // Forms have nothing but texts. JSON has numbers.
    const text = { token, ref: branch, inputs: { depth: '5' } };
    expect((await app().anonymous.post(`${url}/trigger/pipeline`, text)).status).toBe(400);
    expect((await owner.post(`${url}/pipeline`, { ref: branch, inputs: text.inputs })).status).toBe(400);
    const ofForm = new URLSearchParams({ ref: branch, 'inputs[depth]': '5' });
    expect((await owner.post(`${url}/pipeline`, ofForm)).status).toBe(201);
    expect((await owner.get(`${triggers}/${body.id}`)).body.last_used).not.toBeNull();
  });

  it('starts nothing for a wrong token, a wrong project, or a refused request', async () => {
    const { url, triggers, owner, branch } = await scene();
    const { body } = await owner.post(triggers, { description: 'x' });
    const { token } = body;
    const other = await scene();
    const fire = (at: string, given: Record<string, unknown>, headers = {}) =>
      app().anonymous.post(`${at}/trigger/pipeline`, { token, ref: branch, ...given }, headers);
    expect((await fire(url, { token: 'glptt-wrong' })).status).toBe(404);
    expect((await fire(url, { token: 'glcbt-wrong' })).status).toBe(404);
    expect((await fire(other.url, {})).status).toBe(404);
    for (const variables of [{ A: 1 }, { A: { b: 'c' } }, ['A'], 'A', { 'a-b': 'c' }, { A: 'x'.repeat(10_001) }])
      expect((await fire(url, { variables })).status).toBe(400);
    expect((await fire(url, { variables: { A: 1 } })).body).toMatchObject({
      error: 'variables needs to be a map of key-valued strings',
    });
    expect(await fire(url, { ref: 'nowhere' })).toMatchObject({
      status: 400,
      body: { message: { base: ['Reference not found'] } },
    });
    expect((await fire(url, {}, { 'x-gitlab-event': 'Pipeline Hook' })).status).toBe(403);
    await owner.delete(`${triggers}/${body.id}`);
    expect((await fire(url, {})).status).toBe(404);
    expect((await owner.get(`${url}/pipelines?source=trigger`)).body).toEqual([]);
  });

  it('is replaced by the token of a running job, which acts as its user', async () => {
    const { url, triggers, owner, branch, ownerId } = await scene();
    const { body } = await owner.post(triggers, { description: 'x' });
    await app().anonymous.post(`${url}/trigger/pipeline`, { token: body.token, ref: branch });
    const [{ id }] = (await owner.get(`${url}/jobs`)).body;
    await app().hub.services.db.updateTable('jobs').set({ status: 'running' }).where('id', '=', id).execute();
    const token = await giveToken(app(), id);
    expect(await app().anonymous.post(`${url}/trigger/pipeline`, { token, ref: branch })).toMatchObject({
      status: 201,
      body: { source: 'pipeline', user: { id: ownerId } },
    });
  });
});

describe('GraphQL', () => {
  it('manages triggers', async () => {
    const { project, owner, developer } = await scene();
    const path = project.path_with_namespace;
    const fields = 'pipelineTrigger { id description token lastUsed owner { username } project { fullPath } }';
    const { pipelineTrigger } = await mutate(
      owner,
      'pipelineTriggerCreate',
      { projectPath: path, description: 'x' },
      fields,
    );
    const { id } = pipelineTrigger;
    expect(pipelineTrigger).toMatchObject({ description: 'x', token: expect.stringMatching(/^glptt-/) });
    await mutate(owner, 'pipelineTriggerUpdate', { id, description: 'y' }, fields);
    const query = `{ project(fullPath: "${path}") { pipelineTriggers { nodes { id description } } } }`;
    expect((await owner.graphql(query)).data.project.pipelineTriggers.nodes).toEqual([{ id, description: 'y' }]);
    expect((await developer.graphql(query)).data.project.pipelineTriggers).toBeNull();
    const refused = `mutation { pipelineTriggerDelete(input: { id: "${id}" }) { errors } }`;
    expect(JSON.stringify((await developer.graphql(refused)).errors)).toContain('FORBIDDEN');
    await mutate(owner, 'pipelineTriggerDelete', { id });
    expect((await owner.graphql(query)).data.project.pipelineTriggers.nodes).toEqual([]);
  });
});
