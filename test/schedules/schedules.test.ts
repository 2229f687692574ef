import { describe, expect, it } from 'vitest';
import { nextRun } from '#domains/schedules/cron.ts';
import { findDueSchedules, runSchedule } from '#domains/schedules/jobs.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { type CiScene, ciScene } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;

const FILE = `
job:
  script:
    - echo $GREETING
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule"
`;

const attempt = { attempt: 1, lastAttempt: false };

const scene = async () => {
  const made = await ciScene(app(), FILE);
  const schedules = `${made.url}/pipeline_schedules`;
  const given = { description: 'Nightly', ref: made.branch, cron: '0 1 * * *' };
  return { ...made, schedules, given };
};

const makeDue = (id: number) =>
  db().updateTable('pipeline_schedules').set({ next_run_at: '2020-01-01T00:00:00Z' }).where('id', '=', id).execute();

const pipelinesOf = async ({ owner, url }: Pick<CiScene, 'owner' | 'url'>) =>
  (await owner.get(`${url}/pipelines?source=schedule`)).body;

describe('cron patterns', () => {
  const after = new Date('2026-03-28T20:00:00Z');
  it.each([
    ['0 1 * * *', 'UTC', '2026-03-29T01:00:00.000Z'],
    ['0 1 * * 1-5', 'America/New_York', '2026-03-30T05:00:00.000Z'],
    ['*/15 22 * * *', 'Berlin', '2026-03-28T21:00:00.000Z'],
    // The clocks skip this hour.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-29T01:00:00.000Z'],
    ['0 12 1 JAN *', 'Pacific Time (US & Canada)', '2027-01-01T20:00:00.000Z'],
    ['0 0 1 * 1', 'UTC', '2026-03-30T00:00:00.000Z'],
  ])('%s in %s is next at %s', (pattern, zone, expected) => {
    expect(nextRun(pattern, zone, after)?.toISOString()).toBe(expected);
  });

  it.each([
    ...['', '* * * *', '* * * * * *', '60 * * * *', '*/0 * * * *', '@daily', '? * * * *', '0 0 31 2 *', 'a b c d e'],
  ])('refuses %j', (pattern) => {
    expect(nextRun(pattern, 'UTC', after)).toBeNull();
  });

  it.each(['', 'Atlantis', '+01:00', 'constructor'])('refuses the zone %j', (zone) => {
    expect(nextRun('* * * * *', zone, after)).toBeNull();
  });
});

describe('a pipeline schedule', () => {
  it('is created, listed, changed and deleted', async () => {
    const { schedules, given, developer, reporter, developerUser, branch, project } = await scene();
    const created = await developer.post(schedules, { ...given, inputs: [{ name: 'level', value: 3 }] });
    expect(created).toMatchObject({
      status: 201,
      body: {
        ...{ description: 'Nightly', ref: `refs/heads/${branch}`, cron: '0 1 * * *', cron_timezone: 'UTC' },
        ...{ active: true, owner: { id: developerUser.id }, last_pipeline: null, variables: [] },
        ...{ next_run_at: expect.stringMatching(/T01:00:00/), inputs: [{ name: 'level', value: 3 }] },
      },
    });
    const one = `${schedules}/${created.body.id}`;
    const changes = { description: 'Weekly', cron: '0 2 * * 1', cron_timezone: 'Berlin', ref: `refs/heads/${branch}` };
    const inputs = [
      { name: 'level', destroy: true },
      { name: 'kind', value: 'full' },
    ];
    expect(await developer.put(one, { ...changes, inputs })).toMatchObject({
      status: 200,
      body: { ...changes, inputs: [{ name: 'kind', value: 'full' }] },
    });
    expect((await developer.put(one, { active: false })).body).toMatchObject({ active: false, next_run_at: null });
    const ids = async (query: string) =>
      (await reporter.get(`${schedules}?${query}`)).body.map((each: { id: number }) => each.id);
    expect([await ids(''), await ids('scope=active'), await ids('scope=inactive')]).toEqual([
      ...[[created.body.id], [], [created.body.id]],
    ]);
    expect((await reporter.get(one)).body).not.toHaveProperty('variables');
    expect((await developer.delete(one)).status).toBe(204);
    const idle = { active: false, cron_timezone: 'Berlin' };
    const removed = [{ name: 'level', destroy: true }];
    const other = await developer.post(schedules, { ...given, ...idle, inputs: removed });
    expect(other).toMatchObject({ status: 201, body: { ...idle, next_run_at: null, inputs: [] } });
    await developer.delete(`${schedules}/${other.body.id}`);
    expect(await reporter.get(one)).toMatchObject({
      status: 404,
      body: { message: '404 Pipeline Schedule Not Found' },
    });
    const events = await db()
      .selectFrom('events')
      .select('kind')
      .where('project_id', '=', project.id)
      .where('kind', 'like', 'pipeline_schedule.%')
      .orderBy('id')
      .execute();
    expect(events.map(({ kind }) => kind.split('.')[1])).toEqual([
      ...['created', 'updated', 'updated', 'deleted'],
      ...['created', 'deleted'],
    ]);
  });

  it('is refused with the reason if it is invalid', async () => {
    const { schedules, given, developer } = await scene();
    for (const [bad, field] of [
      [{ cron: '* * * *' }, 'cron'],
      [{ cron: '0 0 31 2 *' }, 'cron'],
      [{ cron_timezone: 'Atlantis' }, 'cron_timezone'],
      [{ description: ' ' }, 'description'],
      [{ description: 'd'.repeat(1_025) }, 'description'],
      [{ ref: 'nowhere' }, 'ref'],
    ] as const) {
      const answer = await developer.post(schedules, { ...given, ...bad });
      expect([bad, answer.status, Object.keys(answer.body.message)]).toEqual([bad, 400, [field]]);
    }
    for (let count = 0; count < 10; count += 1) expect((await developer.post(schedules, given)).status).toBe(201);
    expect(await developer.post(schedules, given)).toMatchObject({
      status: 400,
      body: { message: { base: ['Maximum number of pipeline schedules (10) exceeded'] } },
    });
  });

  it('has variables, which only its owner sees and changes', async () => {
    const { schedules, given, developer, owner, url } = await scene();
    const { body } = await developer.post(schedules, given);
    const one = `${schedules}/${body.id}`;
    const variable = { key: 'GREETING', value: 'hello', variable_type: 'file' };
    expect(await developer.post(`${one}/variables`, variable)).toMatchObject({ status: 201, body: variable });
    expect(await developer.post(`${one}/variables`, variable)).toMatchObject({ status: 400 });
    expect((await developer.post(`${one}/variables`, { key: 'a-b', value: '' })).status).toBe(400);
    expect((await developer.get(one)).body.variables).toEqual([variable]);
    const changed = { value: 'goodbye', variable_type: 'env_var' };
    expect(await developer.put(`${one}/variables/GREETING`, changed)).toMatchObject({ status: 200, body: changed });
    expect((await developer.put(`${one}/variables/NOTHING`, changed)).status).toBe(404);
    const row = await db()
      .selectFrom('pipeline_schedule_variables')
      .select('sealed_value')
      .where('schedule_id', '=', body.id)
      .executeTakeFirstOrThrow();
    expect(row.sealed_value.toString('latin1')).not.toContain('goodbye');
    expect((await owner.get(one)).body).not.toHaveProperty('variables');
    // Nobody may give variables to pipelines.
    await owner.put(url, { ci_pipeline_variables_minimum_override_role: 'no_one_allowed' });
    expect((await developer.put(`${one}/variables/GREETING`, changed)).status).toBe(403);
    for (const answer of [
      await owner.post(`${one}/variables`, { key: 'B', value: '' }),
      await owner.put(`${one}/variables/GREETING`, changed),
      await owner.delete(`${one}/variables/GREETING`),
      await owner.put(one, { cron: '* * * * *' }),
    ])
      expect(answer.status).toBe(403);
    expect(await developer.delete(`${one}/variables/GREETING`)).toMatchObject({ status: 202, body: changed });
    expect((await developer.delete(`${one}/variables/GREETING`)).status).toBe(404);
  });

  it('is taken over and deleted by maintainers, and hidden from strangers', async () => {
    const { schedules, given, developer, owner, reporter, stranger, ownerId } = await scene();
    const { body } = await developer.post(schedules, given);
    const one = `${schedules}/${body.id}`;
    for (const [client, status] of [
      [reporter, 403],
      [stranger, 404],
      [app().anonymous, 401],
    ] as const) {
      const answers = [
        await client.post(schedules, given),
        await client.put(one, { active: false }),
        await client.delete(one),
        await client.post(`${one}/take_ownership`),
        await client.post(`${one}/play`),
        await client.post(`${one}/variables`, { key: 'A', value: 'x' }),
      ];
      expect(answers.map((answer) => answer.status)).toEqual(Array(6).fill(status));
    }
    expect((await stranger.get(one)).status).toBe(404);
    expect((await developer.post(`${one}/take_ownership`)).status).toBe(403);
    expect(await owner.post(`${one}/take_ownership`)).toMatchObject({ status: 201, body: { owner: { id: ownerId } } });
    expect((await developer.put(one, { active: false })).status).toBe(403);
    expect((await developer.delete(one)).status).toBe(403);
    expect((await owner.delete(one)).status).toBe(204);
  });

  it('cannot be created for a protected branch by those who may not run jobs there', async () => {
    const { schedules, given, developer, owner, url, branch } = await scene();
    expect((await owner.post(`${url}/protected_branches`, { name: branch })).status).toBe(201);
    expect((await developer.post(schedules, given)).status).toBe(403);
    expect((await owner.post(schedules, given)).status).toBe(201);
  });

  it('is played at most once a minute', async () => {
    const { schedules, given, developer, owner, url, developerUser } = await scene();
    const { body } = await owner.post(schedules, given);
    const play = `${schedules}/${body.id}/play`;
    expect(await developer.post(play)).toMatchObject({ status: 201, body: { message: '201 Created' } });
    expect((await developer.post(play)).status).toBe(429);
    const [pipeline, ...rest] = await pipelinesOf({ owner, url });
    expect(rest).toEqual([]);
    expect(pipeline.source).toBe('schedule');
    expect((await owner.get(`${url}/pipelines/${pipeline.id}`)).body.user.id).toBe(developerUser.id);
    expect((await owner.get(`${schedules}/${body.id}`)).body.last_pipeline).toMatchObject({ id: pipeline.id });
    expect((await owner.get(`${schedules}/${body.id}/pipelines`)).body).toMatchObject([{ id: pipeline.id }]);
  });
});

describe('a due schedule', () => {
  it('runs once as its owner with its variables, however often its job runs', async () => {
    const { schedules, given, developer, owner, url, developerUser } = await scene();
    const { body } = await developer.post(schedules, given);
    await developer.post(`${schedules}/${body.id}/variables`, { key: 'GREETING', value: 'hello' });
    await findDueSchedules.run(app().context(), {}, attempt);
    await app().settle();
    expect(await pipelinesOf({ owner, url })).toEqual([]);
    await makeDue(body.id);
    const runNow = () => runSchedule.run(app().context(), { id: body.id }, attempt);
    await Promise.all([runNow(), runNow(), findDueSchedules.run(app().context(), {}, attempt)]);
    await runNow();
    // A process that died after it created the pipeline did not set the next time.
    await makeDue(body.id);
    await app().settle();
    await runNow();
    const [pipeline, ...rest] = await pipelinesOf({ owner, url });
    expect(rest).toEqual([]);
    expect((await owner.get(`${url}/pipelines/${pipeline.id}`)).body.user.id).toBe(developerUser.id);
    // Maintainers do not see them either.
    expect((await owner.get(`${url}/pipelines/${pipeline.id}/variables`)).status).toBe(403);
    expect((await developer.get(`${url}/pipelines/${pipeline.id}/variables`)).body).toMatchObject([
      { key: 'GREETING', value: 'hello' },
    ]);
    const after = await developer.get(`${schedules}/${body.id}`);
    expect(new Date(after.body.next_run_at).getTime()).toBeGreaterThan(Date.now());
  });

  it('is deactivated if its owner may not run pipelines any more', async () => {
    const { schedules, given, developer, owner, url, developerUser } = await scene();
    const { body } = await developer.post(schedules, given);
    await owner.put(`${url}/members/${developerUser.id}`, { access_level: 20 });
    await makeDue(body.id);
    await runSchedule.run(app().context(), { id: body.id }, attempt);
    expect((await owner.get(`${schedules}/${body.id}`)).body).toMatchObject({ active: false, next_run_at: null });
    expect(await pipelinesOf({ owner, url })).toEqual([]);
  });

  it('starts its pipeline after an import of the project, without waiting for its next time', async () => {
    const { schedules, given, developer, owner, url, project } = await scene();
    const { body } = await developer.post(schedules, given);
    await makeDue(body.id);
    await db()
      .insertInto('project_imports')
      .values({ project_id: project.id, import_type: 'gitlab_project', status: 'started' })
      .execute();
    const runNow = () => runSchedule.run(app().context(), { id: body.id }, attempt);
    await expect(runNow()).rejects.toThrow('the project is being imported');
    await db().deleteFrom('project_imports').where('project_id', '=', project.id).execute();
    await runNow();
    expect(await pipelinesOf({ owner, url })).toHaveLength(1);
  });

  it('waits for its next time if its branch is gone', async () => {
    const { schedules, given, developer, owner, url, branch } = await scene();
    await owner.post(`${url}/repository/branches`, { branch: 'side', ref: branch });
    const { body } = await developer.post(schedules, { ...given, ref: 'side' });
    await owner.delete(`${url}/repository/branches/side`);
    await makeDue(body.id);
    await runSchedule.run(app().context(), { id: body.id }, attempt);
    const after = (await owner.get(`${schedules}/${body.id}`)).body;
    expect(after.active).toBe(true);
    expect(new Date(after.next_run_at).getTime()).toBeGreaterThan(Date.now());
    expect(await pipelinesOf({ owner, url })).toEqual([]);
  });
});

describe('GraphQL', () => {
  it('manages schedules', async () => {
    const { project, developer, owner, reporter, stranger, branch } = await scene();
    const path = project.path_with_namespace;
    const fields = `pipelineSchedule { id description ref refForDisplay cron cronTimezone active nextRunAt createdAt
      updatedAt owner { username } project { fullPath } lastPipeline { id } inputs { name value }
      variables { key value variableType } }`;
    const created = await mutate(
      developer,
      'pipelineScheduleCreate',
      {
        ...{ projectPath: path, description: 'Nightly', cron: '0 1 * * *', ref: branch, cronTimezone: 'Berlin' },
        ...{ active: true, variables: [{ key: 'A', value: 'x', variableType: 'FILE' }] },
        inputs: [
          { name: 'n', value: '3' },
          { name: 'kind', value: 'full' },
        ],
      },
      fields,
    );
    const { id } = created.pipelineSchedule;
    expect(created.pipelineSchedule).toMatchObject({
      ...{ refForDisplay: branch, cronTimezone: 'Berlin', variables: [{ key: 'A', value: 'x', variableType: 'FILE' }] },
      inputs: [
        { name: 'n', value: '3' },
        { name: 'kind', value: '"full"' },
      ],
    });
    const changed = await mutate(
      developer,
      'pipelineScheduleUpdate',
      {
        ...{ id, description: 'Weekly', cron: '0 1 * * 1', ref: branch, cronTimezone: 'UTC', active: false },
        variables: [{ key: 'A', destroy: true }],
        inputs: [{ name: 'n', destroy: true }],
      },
      fields,
    );
    expect(changed.pipelineSchedule).toMatchObject({
      ...{ description: 'Weekly', active: false, variables: [], inputs: [{ name: 'kind', value: '"full"' }] },
    });
    const query = `{ project(fullPath: "${path}") {
      inactive: pipelineSchedules(status: INACTIVE, ids: ["${id}"]) { count nodes { id variables { key } } }
      active: pipelineSchedules(status: ACTIVE) { count }
    } }`;
    expect((await reporter.graphql(query)).data.project).toEqual({
      inactive: { count: 1, nodes: [{ id, variables: null }] },
      active: { count: 0 },
    });
    expect((await stranger.graphql(query)).data.project).toBeNull();
    const played = await mutate(owner, 'pipelineSchedulePlay', { id }, `pipeline { source } ${fields}`);
    expect(played.pipeline.source).toBe('schedule');
    expect(played.pipelineSchedule.lastPipeline).not.toBeNull();
    await mutate(owner, 'pipelineScheduleTakeOwnership', { id }, fields);
    const hidden = `mutation { pipelineScheduleDelete(input: { id: "${id}" }) { errors } }`;
    expect(JSON.stringify((await stranger.graphql(hidden)).errors)).toContain('NOT_FOUND');
    await mutate(owner, 'pipelineScheduleDelete', { id });
    expect((await reporter.graphql(query)).data.project.inactive.count).toBe(0);
  });
});
