import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
let service: Server;
let address = '';
/** The status of the next answers. Null means that the service never answers. */
let status: number | null = 200;
const asked: { readonly headers: IncomingHttpHeaders; readonly body: Record<string, unknown> }[] = [];

beforeAll(async () => {
  service = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += String(chunk);
    asked.push({ headers: request.headers, body: JSON.parse(text) });
    if (status === null) return;
    response.statusCode = status;
    response.end();
  });
  await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve));
  const bound = service.address();
  address = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}/check`;
});
afterAll(() => {
  service.closeAllConnections();
  service.close();
});

const set = async (settings: Record<string, unknown>) =>
  expect(await app().as(app().root).put('/application/settings', settings)).toMatchObject({ status: 200 });

const FILE = `
default: {before_script: [prepare]}
a: {stage: build, image: node, services: [postgres], tags: [linux], script: [x], after_script: [y]}
b: {script: [z]}`;

it('creates no pipeline with jobs that the validation service rejects', async () => {
  const scene = await pipelineScene(app(), FILE);
  await scene.create();
  expect(asked).toEqual([]);
  await set({
    external_pipeline_validation_service_url: address,
    external_pipeline_validation_service_token: 'shared',
    external_pipeline_validation_service_timeout: 1,
    allow_local_requests_from_web_hooks_and_services: true,
  });

  expect((await scene.create()).status).toBe(201);
  expect(asked).toHaveLength(1);
  expect(asked[0]?.headers).toMatchObject({ 'x-gitlab-token': 'shared', 'content-type': 'application/json' });
  const { id, path_with_namespace: path } = scene.project;
  expect(asked[0]?.body).toEqual({
    project: {
      id,
      path,
      created_at: expect.any(String),
      shared_runners_enabled: true,
      group_runners_enabled: true,
    },
    user: {
      id: scene.owner.id,
      username: scene.owner.username,
      email: expect.stringContaining('@'),
      created_at: expect.any(String),
    },
    pipeline: { sha: scene.sha, ref: 'main', type: 'api' },
    builds: [
      {
        name: 'a',
        stage: 'build',
        image: 'node',
        services: ['postgres'],
        tag_list: ['linux'],
        script: ['prepare', 'x', 'y'],
      },
      { name: 'b', stage: 'test', image: null, services: [], tag_list: [], script: ['prepare', 'z'] },
    ],
    // Those of the push and of the first request.
    total_builds_count: 4,
  });

  status = 406;
  const before = await scene.pipelines();
  expect(await scene.create()).toMatchObject({
    status: 400,
    body: { message: { base: ['External validation failed'] } },
  });
  expect(await scene.pipelines()).toEqual(before);
  // A push has nobody to answer, so its pipeline is stored, as with errors of the CI file.
  await scene.change();
  const { id: failed, status: shown } = await scene.newest();
  expect([shown, await scene.jobs(failed)]).toEqual(['failed', {}]);
  const query = `{ project(fullPath: "${path}") { pipelines(first: 1) { nodes { failureReason yamlErrors } } } }`;
  expect((await scene.client.graphql(query)).data.project.pipelines.nodes).toEqual([
    { failureReason: 'external_validation_failure', yamlErrors: false },
  ]);

  // A broken service does not stop pipelines.
  for (const broken of [500, 302, null]) {
    status = broken;
    expect((await scene.create()).status).toBe(201);
  }

  status = 406;
  const calls = asked.length;
  await set({ allow_local_requests_from_web_hooks_and_services: false });
  expect((await scene.create()).status).toBe(201);
  await set({ allow_local_requests_from_web_hooks_and_services: true, external_pipeline_validation_service_url: '' });
  expect((await scene.create()).status).toBe(201);
  expect(asked).toHaveLength(calls);
});
