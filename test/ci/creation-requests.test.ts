import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createRequestedPipeline, forgetCreationRequests } from '#domains/ci/creation/requests.ts';
import { sealGivenValue } from '#domains/ci/sealed-values.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();

const FILE = `
spec:
  inputs:
    level:
      default: low
---
build:
  script: ["echo $[[ inputs.level ]]"]
  rules:
    - if: $CI_PIPELINE_SOURCE == "web"
`;

const scene = async (file = FILE) => {
  const made = await pipelineScene(app(), file);
  const { client, project } = made;
  const at = `project(fullPath: "${project.path_with_namespace}")`;
  const ask = async (input: Record<string, unknown> = {}) => {
    const given = { projectPath: project.path_with_namespace, ref: 'main', async: true, ...input };
    const payload = await mutate(client, 'pipelineCreate', given, 'requestId pipeline { id }');
    expect(payload.pipeline).toBeNull();
    return String(payload.requestId);
  };
  const outcome = async (requestId: string, as = client) => {
    const { data } = await as.graphql(`{ ${at} { ciPipelineCreationRequest(requestId: "${requestId}") {
      id status error pipelineId pipeline { id source ref } } } }`);
    return data.project?.ciPipelineCreationRequest ?? null;
  };
  return { ...made, ask, outcome };
};

const rowsOf = async (sql: string, ...values: unknown[]) =>
  (await app().hub.services.pool.query(sql, values)).rows.map((row) => row);

const run = (id: string, lastAttempt = false) =>
  createRequestedPipeline.run(app().context(), { id }, { attempt: 1, lastAttempt });

describe('a pipeline that is created in the background', () => {
  it('has the ref, variables and inputs that were asked for', async () => {
    const { ask, outcome, client, path } = await scene();
    const id = await ask({
      variables: [{ key: 'A', value: 'x', variableType: 'FILE' }],
      inputs: [{ name: 'level', value: 'high' }],
    });
    await app().settle();
    const found = await outcome(id);
    expect(found).toMatchObject({ id, status: 'SUCCEEDED', error: null, pipeline: { source: 'web', ref: 'main' } });
    expect(found.pipelineId).toBe(found.pipeline.id);
    const number = found.pipelineId.split('/').at(-1);
    expect((await client.get(`${path}/pipelines/${number}/variables`)).body).toMatchObject([
      { key: 'A', value: 'x', variable_type: 'file' },
    ]);
    // The request may be secret, and is not kept.
    expect(await rowsOf('select sealed_input from pipeline_creation_requests where id = $1', id)).toEqual([
      { sealed_input: null },
    ]);
  });

  it('is created once, although processes die', async () => {
    const { outcome, pipelines, project, owner } = await scene();
    const id = randomUUID();
    const sealed = sealGivenValue(app().hub, JSON.stringify({ ref: 'main', variables: [], inputs: {} }));
    await rowsOf(
      'insert into pipeline_creation_requests (id, project_id, user_id, sealed_input) values ($1, $2, $3, $4)',
      ...[id, project.id, owner.id, sealed],
    );
    expect(await outcome(id)).toEqual({ id, status: 'IN_PROGRESS', error: null, pipelineId: null, pipeline: null });
    await run(id);
    const { pipelineId } = await outcome(id);
    expect(pipelineId).toMatch(/^gid:/);
    // The process died before it stored what became of the request.
    await rowsOf(
      `update pipeline_creation_requests set status = 'in_progress', pipeline_id = null, sealed_input = $2 where id = $1`,
      ...[id, sealed],
    );
    await run(id);
    expect(await outcome(id)).toMatchObject({ status: 'SUCCEEDED', pipelineId });
    expect(await pipelines('?source=web')).toHaveLength(1);
  });

  it('is refused at once on a ref that does not exist, and later for mistakes in the CI file', async () => {
    const { ask, outcome, client, project } = await scene('build: {script: [x], rules: [{if: $NEVER}]}');
    const refused = await client.graphql(
      'mutation ($input: PipelineCreateInput!) { pipelineCreate(input: $input) { requestId errors } }',
      { input: { projectPath: project.path_with_namespace, ref: 'nowhere', async: true } },
    );
    expect(refused.data.pipelineCreate).toEqual({ requestId: null, errors: ['Reference not found'] });
    expect(await rowsOf('select from pipeline_creation_requests where project_id = $1', project.id)).toEqual([]);
    const id = await ask();
    await app().settle();
    expect(await outcome(id)).toMatchObject({
      status: 'FAILED',
      error: expect.stringContaining('Pipeline will not run for the selected trigger.'),
      pipelineId: null,
    });
  });

  it('fails if its user may not create pipelines any more, or the hub cannot create it', async () => {
    const { outcome, project, owner } = await scene();
    const [reporter, other, broken, lost] = [await app().make.user(), randomUUID(), randomUUID(), randomUUID()];
    const sealed = sealGivenValue(app().hub, JSON.stringify({ ref: 'main', variables: [], inputs: {} }));
    await rowsOf(
      `insert into pipeline_creation_requests (id, project_id, user_id, sealed_input)
       values ($1, $4, $5, $7), ($2, $4, $6, $8), ($3, $4, $6, 'sealed with another key')`,
      ...[other, broken, lost, project.id, reporter.id, owner.id, sealed, sealGivenValue(app().hub, 'no JSON')],
    );
    await run(other);
    const error = 'Insufficient permissions to create a new pipeline';
    expect(await outcome(other)).toMatchObject({ status: 'FAILED', error });
    await run(lost);
    expect(await outcome(lost)).toMatchObject({
      status: 'FAILED',
      error: expect.stringContaining('A stored secret cannot be read'),
    });
    await expect(run(broken)).rejects.toThrow();
    expect(await outcome(broken)).toMatchObject({ status: 'IN_PROGRESS' });
    await expect(run(broken, true)).rejects.toThrow();
    expect(await outcome(broken)).toMatchObject({
      status: 'FAILED',
      error: expect.stringContaining('Try again later'),
    });
  });

  it('is shown to those who may create pipelines in its project, for a day', async () => {
    const { ask, outcome, client, project } = await scene();
    const id = await ask();
    const [developer, reporter] = [await app().make.user(), await app().make.user()];
    await client.post(`/projects/${project.id}/members`, { user_id: developer.id, access_level: 30 });
    await client.post(`/projects/${project.id}/members`, { user_id: reporter.id, access_level: 20 });
    expect(await outcome(id, app().as(developer))).toMatchObject({ id });
    expect(await outcome(id, app().as(reporter))).toBeNull();
    expect(await outcome(id, app().as(await app().make.user()))).toBeNull();
    expect(await outcome(randomUUID())).toBeNull();
    expect(await outcome('none')).toBeNull();
    const other = await scene();
    expect(await other.outcome(id)).toBeNull();

    const forget = () => forgetCreationRequests.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    await forget();
    expect(await outcome(id)).toMatchObject({ id });
    await rowsOf(`update pipeline_creation_requests set created_at = now() - interval '25 hours' where id = $1`, id);
    await forget();
    expect(await outcome(id)).toBeNull();
  });
});
