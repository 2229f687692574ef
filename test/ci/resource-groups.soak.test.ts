import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();

const FILE = `
one:
  script: ["true"]
  resource_group: production
two:
  script: ["true"]
  resource_group: production
`;

describe('a resource group', () => {
  it('is listed with the jobs that wait for it, and its mode is changed by developers', async () => {
    const { client, path, project, newest, shown, finish } = await pipelineScene(app(), FILE);
    await app().settle();
    const { id } = await newest();
    const groups = `${path}/resource_groups`;
    const [group] = (await client.get(groups)).body;
    expect(group).toMatchObject({ key: 'production', process_mode: 'unordered' });
    const one = `${groups}/production`;
    expect((await client.get(one)).body).toEqual(group);
    const upcoming = async () =>
      (await client.get(`${one}/upcoming_jobs`)).body.map((job: { name: string }) => job.name);
    expect(await shown(id)).toBe('one pending, two waiting_for_resource');
    expect(await upcoming()).toEqual(['two']);
    for (const process_mode of ['oldest_first', 'newest_first', 'newest_ready_first']) {
      expect(await client.put(one, { process_mode })).toMatchObject({ status: 200, body: { process_mode } });
      expect(await upcoming()).toEqual(['two']);
    }
    await finish(id, 'one');
    expect(await shown(id)).toBe('one success, two pending');
    expect(await upcoming()).toEqual([]);
    expect((await client.put(one, { process_mode: 'random' })).status).toBe(400);
    expect(await client.get(`${groups}/nothing`)).toMatchObject({
      status: 404,
      body: { message: '404 Resource Group Not Found' },
    });
    const person = await app().make.user();
    await app().make.projectMember(project, person, 20);
    const reporter = app().as(person);
    expect((await reporter.get(one)).status).toBe(200);
    expect((await reporter.put(one, { process_mode: 'unordered' })).status).toBe(403);
    const stranger = app().as(await app().make.user());
    for (const answer of [
      await stranger.get(groups),
      await stranger.get(one),
      await stranger.get(`${one}/upcoming_jobs`),
    ])
      expect(answer.status).toBe(404);
    expect((await client.get(one)).body.process_mode).toBe('newest_ready_first');
  });

  it('is listed and changed over GraphQL', async () => {
    const { client, project, finish, newest } = await pipelineScene(app(), FILE);
    const groups = `{ project(fullPath: "${project.path_with_namespace}") { ciResourceGroups(first: 5) {
      nodes { id key processMode createdAt updatedAt upcomingJobs { nodes { name } } } } } }`;
    const read = async (who = client) => (await who.graphql(groups)).data.project?.ciResourceGroups;
    const [group] = (await read()).nodes;
    expect(group).toMatchObject({
      ...{ id: expect.stringContaining('Ci::ResourceGroup'), key: 'production', processMode: 'UNORDERED' },
      ...{ createdAt: expect.any(String), updatedAt: expect.any(String) },
      upcomingJobs: { nodes: [{ name: 'two' }] },
    });
    const input = { projectPath: project.path_with_namespace, key: 'production', processMode: 'NEWEST_FIRST' };
    const change = async (who = client, given = input) => {
      const mutation = `mutation ($input: CiResourceGroupUpdateInput!) {
        ciResourceGroupUpdate(input: $input) { resourceGroup { processMode } errors } }`;
      const { data, errors } = await who.graphql(mutation, { input: given });
      return errors ? errors[0]?.extensions?.code : data.ciResourceGroupUpdate;
    };
    expect(await change()).toEqual({ resourceGroup: { processMode: 'NEWEST_FIRST' }, errors: [] });
    expect(await change(client, { ...input, key: 'nothing' })).toBe('NOT_FOUND');
    const person = await app().make.user();
    await app().make.projectMember(project, person, 20);
    expect(await change(app().as(person))).toBe('FORBIDDEN');
    const stranger = app().as(await app().make.user());
    expect([await read(stranger), await change(stranger)]).toEqual([undefined, 'NOT_FOUND']);
    await finish((await newest()).id, 'one');
    expect((await read()).nodes).toMatchObject([{ processMode: 'NEWEST_FIRST', upcomingJobs: { nodes: [] } }]);
  });

  it('gives its resource to the next job while rows of other jobs are being inserted', async () => {
    const { newest, shown, run, end } = await pipelineScene(app(), FILE);
    const { id } = await newest();
    const one = await run(id, 'one');
    const { resource_group_id: group } = await app()
      .hub.services.db.selectFrom('jobs')
      .select('resource_group_id')
      .where('id', '=', one)
      .executeTakeFirstOrThrow();
    await app()
      .context()
      .transaction(async (tx) => {
        // What the foreign key of a new row locks.
        await sql`select from resource_groups where id = ${group} for key share`.execute(tx.db);
        await end(one);
        expect(await shown(id)).toBe('one success, two pending');
      });
  });

  it('gives its resource to the next pipeline if the one that has it is deleted', async () => {
    const { client, path, newest, shown, create } = await pipelineScene(app(), FILE);
    const { id } = await newest();
    const second = (await create()).body.id;
    expect(await shown(second)).toBe('one waiting_for_resource, two waiting_for_resource');
    expect((await client.delete(`${path}/pipelines/${id}`)).status).toBe(204);
    await app().settle();
    expect(await shown(second)).toMatch(/pending/);
  });
});
