import { createClient } from 'graphql-sse';
import { afterEach, describe, expect, it } from 'vitest';
import { encodeCursor } from '#platform/cursor.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { until } from '../support/until.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
const START = encodeCursor([0]);
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const FILE = `
spec:
  inputs:
    level:
      default: low
    depth:
      default: 1
      type: number
---
build:
  script:
    - echo $[[ inputs.level ]] $[[ inputs.depth ]]
ask:
  script: ["true"]
  when: manual
  allow_failure: true
later:
  script: ["true"]
  when: delayed
  start_in: 1 day
  allow_failure: true
`;

const scene = async () => {
  const made = await pipelineScene(app(), FILE);
  await app().settle();
  const { id } = await made.newest();
  const stranger = app().as(await app().make.user());
  return { ...made, id, gid: `gid://gitlab/Ci::Pipeline/${id}`, stranger };
};

const jobGid = (id: number) => `gid://gitlab/Ci::Build/${id}`;

describe('mutations of pipelines', () => {
  it('refuse variables with a wrong key, a long value, or too many of them', async () => {
    const { client, project, jobId, id } = await scene();
    const many = (count: number) => Array.from({ length: count }, (_, n) => ({ key: `K${n}`, value: '' }));
    const create = (variables: unknown) =>
      client.graphql(
        'mutation ($input: PipelineCreateInput!) { pipelineCreate(input: $input) { errors pipeline { id } } }',
        { input: { projectPath: project.path_with_namespace, ref: 'main', variables } },
      );
    for (const wrong of [[{ key: 'a-b', value: '' }], [{ key: 'A', value: 'x'.repeat(10_001) }], many(1_001)])
      expect((await create(wrong)).data.pipelineCreate).toMatchObject({
        errors: [expect.stringMatching(/variables/i)],
        pipeline: null,
      });
    const ask = jobGid(await jobId(id, 'ask'));
    for (const wrong of [[{ key: 'a-b', value: '' }], many(101)]) {
      const played = await client.graphql(
        'mutation ($input: JobPlayInput!) { jobPlay(input: $input) { errors job { id } } }',
        { input: { id: ask, variables: wrong } },
      );
      expect(played.data.jobPlay).toMatchObject({ errors: [expect.stringMatching(/variables/i)], job: null });
    }
  });

  it('create a pipeline with variables and inputs', async () => {
    const { client, project, path } = await scene();
    const payload = await mutate(
      client,
      'pipelineCreate',
      {
        ...{ projectPath: project.path_with_namespace, ref: 'main', async: false },
        variables: [{ key: 'A', value: 'x', variableType: 'FILE' }],
        inputs: [
          { name: 'level', value: 'high' },
          { name: 'depth', value: '3' },
        ],
      },
      'pipeline { id source ref user { username } }',
    );
    expect(payload.pipeline).toMatchObject({ source: 'web', ref: 'main' });
    const id = payload.pipeline.id.split('/').at(-1);
    expect((await client.get(`${path}/pipelines/${id}/variables`)).body).toMatchObject([
      { key: 'A', value: 'x', variable_type: 'file' },
    ]);
  });

  it('refuse impossible actions with the reason', async () => {
    const { client, project, gid, stranger } = await scene();
    const input = `projectPath: "${project.path_with_namespace}"`;
    const create = (given: string) =>
      client.graphql(`mutation { pipelineCreate(input: { ${input}, ${given} }) { errors } }`);
    expect((await create('ref: "nowhere"')).data.pipelineCreate.errors).toEqual(['Reference not found']);
    expect((await create('ref: "nowhere", async: true')).data.pipelineCreate.errors).toEqual(['Reference not found']);
    // Who may not create pipelines gets an error of the whole mutation, also before a request is stored.
    const reporter = await app().make.user();
    await app().make.projectMember(project, reporter, 20);
    for (const given of ['ref: "main"', 'ref: "main", async: true']) {
      const query = `mutation { pipelineCreate(input: { ${input}, ${given} }) { errors } }`;
      const refused = await app().as(reporter).graphql(query);
      expect([given, refused.errors?.[0]?.extensions?.code]).toEqual([given, 'FORBIDDEN']);
    }
    for (const name of ['pipelineCancel', 'pipelineRetry', 'pipelineDestroy']) {
      const hidden = await stranger.graphql(`mutation { ${name}(input: { id: "${gid}" }) { errors } }`);
      expect([name, hidden.errors?.[0]?.extensions?.code]).toEqual([name, 'NOT_FOUND']);
    }
  });

  it('cancel, retry and delete a pipeline', async () => {
    const { client, gid, id, path, statusOf } = await scene();
    const canceled = await mutate(client, 'pipelineCancel', { id: gid }, 'pipeline { status }');
    expect(canceled.pipeline.status).toBe('CANCELED');
    const retried = await mutate(client, 'pipelineRetry', { id: gid }, 'pipeline { status }');
    expect(retried.pipeline.status).not.toBe('CANCELED');
    await app().settle();
    expect(await statusOf(id)).not.toBe('canceled');
    await mutate(client, 'pipelineDestroy', { id: gid });
    expect((await client.get(`${path}/pipelines/${id}`)).status).toBe(404);
  });
});

describe('mutations of jobs', () => {
  it('play, retry, cancel and unschedule a job', async () => {
    const { client, id, jobId, finish } = await scene();
    const payload = 'job { id name status }';
    const variables = [{ key: 'A', value: 'x' }];
    const ask = jobGid(await jobId(id, 'ask'));
    expect((await mutate(client, 'jobPlay', { id: ask, variables }, payload)).job.status).toBe('PENDING');
    const { rows } = await app().hub.services.pool.query('select key from job_variables where job_id = $1', [
      await jobId(id, 'ask'),
    ]);
    expect(rows).toEqual([{ key: 'A' }]);
    expect((await mutate(client, 'jobCancel', { id: ask, force: false }, payload)).job.status).toBe('CANCELED');
    const build = jobGid(await finish(id, 'build', 'failed'));
    const again = await mutate(client, 'jobRetry', { id: build, variables }, payload);
    expect(again.job).toMatchObject({ name: 'build', status: 'PENDING' });
    expect(again.job.id).not.toBe(build);
    const later = jobGid(await jobId(id, 'later'));
    expect((await mutate(client, 'jobUnschedule', { id: later }, payload)).job.status).toBe('MANUAL');
  });

  it('refuse impossible actions with the reason', async () => {
    const { client, id, jobId, stranger } = await scene();
    const ask = jobGid(await jobId(id, 'ask'));
    const call = (by: typeof client, name: string, given = '') =>
      by.graphql(`mutation { ${name}(input: { id: "${ask}" ${given} }) { errors } }`);
    for (const name of ['jobPlay', 'jobRetry', 'jobCancel', 'jobUnschedule'])
      expect([name, (await call(stranger, name)).errors?.[0]?.extensions?.code]).toEqual([name, 'NOT_FOUND']);
    expect(JSON.stringify(await call(client, 'jobUnschedule'))).toContain('Job is not scheduled');
    expect(JSON.stringify(await call(client, 'jobRetry'))).toContain('FORBIDDEN');
    const typed = 'variables: [{ key: "A", value: "x", variableType: FILE }]';
    expect(JSON.stringify(await call(client, 'jobPlay', typed))).toContain('variableType is only for pipelines');
  });
});

describe('subscriptions', () => {
  it('follow jobs and pipelines, for those who may see them', async () => {
    const { owner, project, client, gid, id, jobId, finish, stranger } = await scene();
    const build = await jobId(id, 'build');
    const follow = async (field: string, args: string, after = START) => {
      const sse = createClient({
        url: `${app().url}/api/graphql`,
        headers: await app().as(owner).headers(),
        retryAttempts: 0,
      });
      const statuses: string[] = [];
      const cursors: unknown[] = [];
      sse.subscribe<Record<string, { id: string; status: string }>, { readonly cursor: string }>(
        { query: `subscription { ${field}(${args}, after: "${after}") { id status } }` },
        {
          next: ({ data, errors, extensions }) => {
            statuses.push(data?.[field]?.status ?? JSON.stringify(errors));
            cursors.push(extensions?.cursor);
          },
          error: (error) => {
            statuses.push(String(error));
          },
          complete: () => undefined,
        },
      );
      closing.push(() => sse.dispose());
      return { statuses, cursors };
    };
    const job = await follow('ciJobStatusUpdated', `jobId: "${jobGid(build)}"`);
    const pipeline = await follow('ciPipelineStatusUpdated', `pipelineId: "${gid}"`);
    const all = await follow('ciPipelineStatusesUpdated', `projectId: "gid://gitlab/Project/${project.id}"`);
    await finish(id, 'build');
    await until('the end of the job', () => job.statuses.at(-1) === 'SUCCESS');
    await mutate(client, 'pipelineCancel', { id: gid });
    await until('the end of the pipeline', () =>
      [pipeline, all].every(({ statuses }) => statuses.at(-1) === 'CANCELED' || statuses.at(-1) === 'SUCCESS'),
    );
    // The cursor of a result leads to those after it.
    const resumed = await follow('ciJobStatusUpdated', `jobId: "${jobGid(build)}"`, String(job.cursors[0]));
    await until('the later results', () => resumed.cursors.at(-1) === job.cursors.at(-1));
    expect([job.cursors.length > 1, resumed.cursors]).toEqual([true, job.cursors.slice(1)]);
    for (const field of [
      `ciJobStatusUpdated(jobId: "${jobGid(build)}")`,
      `ciPipelineStatusUpdated(pipelineId: "${gid}")`,
      `ciPipelineStatusesUpdated(projectId: "gid://gitlab/Project/${project.id}")`,
    ]) {
      const { status, body } = await stranger.post(
        '/api/graphql',
        { query: `subscription { ${field} { id status } }` },
        { accept: 'text/event-stream' },
      );
      expect([field, status < 500, JSON.stringify(body)]).toEqual([field, true, expect.stringContaining('NOT_FOUND')]);
    }
  });
});
