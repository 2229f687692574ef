import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { pipelineSample } from '#domains/hooks/samples/ci.ts';
import { sceneOf } from '#domains/hooks/samples/scene.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { EventRow } from '#platform/events.ts';
import { useApp } from '../support/app.ts';
import { pipelineScene, type Scene } from './pipeline-scene.ts';

const app = useApp();

const FILE = `
build: {stage: build, script: [x], tags: [docker]}
test: {stage: test, script: [x], needs: [build]}
gate: {stage: test, script: [x], needs: [], when: manual}
later: {stage: test, script: [x], needs: [], when: delayed, start_in: 1 day}
child: {stage: test, needs: [], trigger: {include: child.yml}}
`;

const familyScene = async () => {
  const scene = await pipelineScene(app(), null);
  await scene.commit({ 'child.yml': 'inner: {script: [x]}', '.gitlab-ci.yml': FILE });
  return { ...scene, id: (await scene.newest()).id };
};

const bodies = async ({ project }: Pick<Scene, 'project'>, kind: string) => {
  const { rows } = await app().hub.services.pool.query<EventRow>(
    'select * from events where project_id = $1 and kind = $2 order by id',
    [project.id, kind],
  );
  const definition = eventDefinitions.find((each) => each.kind === kind);
  const hooked = rows.filter((row) => definition?.trigger(row.payload) !== null);
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape.
  return Promise.all(hooked.map((row) => definition?.body(app().context(), row) as Promise<any>));
};

describe('GraphQL', () => {
  it('shows the actions on pipelines and jobs, and the dependencies between jobs', async () => {
    const scene = await familyScene();
    await scene.finish(scene.id, 'build', { status: 'failed', exit_code: 2 });
    const query = `query($path: ID!, $id: CiPipelineID!) { project(fullPath: $path) { pipeline(id: $id) {
      child refPath cancelable retryable sourceJob { name } upstream { id } triggeredByPath
      downstream(first: 5) { nodes { child sourceJob { name } upstream { id } triggeredByPath } }
      jobs { nodes { name cancelable retryable playable canPlayJob tags scheduledAt exitCode
        needs(first: 5) { nodes { name } } downstreamPipeline { child } } }
    } } }`;
    const variables = { path: scene.project.path_with_namespace, id: `gid://gitlab/Ci::Pipeline/${scene.id}` };
    const read = async (user: { id: number; username: string }) => {
      const { data, errors } = await app().as(user).graphql(query, variables);
      expect(errors).toBeUndefined();
      return data.project.pipeline;
    };
    const pipeline = await read(scene.owner);
    expect(pipeline).toMatchObject({
      child: false,
      refPath: 'refs/heads/main',
      cancelable: true,
      retryable: true,
      sourceJob: null,
      upstream: null,
      triggeredByPath: null,
      downstream: {
        nodes: [
          {
            child: true,
            sourceJob: { name: 'child' },
            upstream: { id: `gid://gitlab/Ci::Pipeline/${scene.id}` },
            triggeredByPath: `/${scene.project.path_with_namespace}/-/pipelines/${scene.id}`,
          },
        ],
      },
    });
    const jobs = Object.fromEntries(pipeline.jobs.nodes.map((job: { name: string }) => [job.name, job]));
    expect(jobs.build).toMatchObject({
      retryable: true,
      cancelable: false,
      playable: false,
      tags: ['docker'],
      exitCode: 2,
    });
    expect(jobs.test).toMatchObject({ retryable: false, needs: { nodes: [{ name: 'build' }] } });
    expect(jobs.gate).toMatchObject({ playable: true, canPlayJob: true, downstreamPipeline: null });
    expect(jobs.later).toMatchObject({ cancelable: true, scheduledAt: expect.any(String) });
    expect(jobs.child).toMatchObject({ downstreamPipeline: { child: true } });
    const detailed = `query($path: ID!, $id: CiPipelineID!) { project(fullPath: $path) { pipeline(id: $id) {
      latest usesNeeds commitPath downstream(first: 1) { nodes { latest usesNeeds } }
      jobs { nodes { name source refPath commitPath playPath retryPath previousStageJobs(first: 9) { nodes { name } } } }
    } } }`;
    const details = async () => {
      const { data, errors } = await app().as(scene.owner).graphql(detailed, variables);
      expect(errors).toBeUndefined();
      return data.project.pipeline;
    };
    const shown = await details();
    const at = `/${scene.project.path_with_namespace}/-`;
    expect(shown).toMatchObject({
      ...{ latest: true, usesNeeds: true, commitPath: expect.stringMatching(/\/-\/commit\/[0-9a-f]{40}$/) },
      downstream: { nodes: [{ latest: false, usesNeeds: false }] },
    });
    const found = Object.fromEntries(shown.jobs.nodes.map((job: { name: string }) => [job.name, job]));
    expect(found.build).toMatchObject({
      ...{ source: 'push', refPath: 'refs/heads/main', commitPath: shown.commitPath },
      previousStageJobs: { nodes: [] },
    });
    expect(found.build.playPath).toMatch(/\/jobs\/\d+\/play$/);
    expect(found.build.retryPath.startsWith(at)).toBe(true);
    expect(found.test.previousStageJobs.nodes).toEqual([{ name: 'build' }]);
    await scene.change();
    expect((await details()).latest).toBe(false);
    const reporter = await app().make.user();
    await app().make.projectMember(scene.project, reporter, 20);
    const seen = await read(reporter);
    expect(seen).toMatchObject({ cancelable: false, retryable: false });
    expect(seen.jobs.nodes.find(({ name }: { name: string }) => name === 'gate')).toMatchObject({ canPlayJob: false });
  });
});

describe('hooks', () => {
  it('get each status of a job that they know, with its runner, and a reason only of failed jobs', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x], retry: {max: 1}}\nm: {script: [x], when: manual}');
    const { id } = await scene.newest();
    await scene.finish(id, 'a', { status: 'failed', failure_reason: 'script_failure' });
    const sent = [...(await bodies(scene, 'job.created')), ...(await bodies(scene, 'job.updated'))];
    const ofA = sent.filter(({ build_name }) => build_name === 'a');
    expect(ofA.map(({ build_status }) => build_status)).toEqual([
      ...['created', 'created', 'pending', 'running', 'failed', 'pending'],
    ]);
    // The second job is the retry of the first.
    expect(ofA[1].build_id).not.toBe(ofA[0].build_id);
    expect(ofA[3]).toMatchObject({
      object_kind: 'build',
      pipeline_id: id,
      runner: { id: scene.runner.id, runner_type: 'instance_type', is_shared: true, active: true },
    });
    expect(ofA[3]).not.toHaveProperty('build_failure_reason');
    expect(ofA[4]).toMatchObject({ build_failure_reason: 'script_failure', retries_count: 0 });
    expect(ofA[5]).toMatchObject({ build_id: ofA[1].build_id, retries_count: 1 });
    expect(sent.filter(({ build_name }) => build_name === 'm').map(({ build_status }) => build_status)).toEqual([
      'created',
    ]);
  });

  it('get the stages in their order and warnings, also in tests and after a retry', async () => {
    const file = 'lint: {stage: build, script: [x], allow_failure: true}\nsend: {stage: deploy, script: [x]}';
    const scene = await pipelineScene(app(), file);
    const { id } = await scene.newest();
    const failure = { status: 'failed', failure_reason: 'script_failure' } as const;
    await scene.finish(id, 'lint', failure);
    await scene.finish(id, 'send');
    const lint = await scene.jobId(id, 'lint');
    expect((await scene.client.post(`${scene.path}/jobs/${lint}/retry`)).status).toBe(201);
    await app().settle();
    await scene.finish(id, 'lint', failure);
    const shown = (await scene.client.get(`${scene.path}/pipelines/${id}`)).body;
    expect(shown.detailed_status.label).toBe('passed with warnings');
    const { data } = await scene.client.graphql(
      `query($path: ID!, $id: CiPipelineID!) { project(fullPath: $path) { pipeline(id: $id) {
        stages { nodes { name detailedStatus { label } } } } } }`,
      { path: scene.project.path_with_namespace, id: `gid://gitlab/Ci::Pipeline/${id}` },
    );
    expect(data.project.pipeline.stages.nodes).toEqual([
      { name: 'build', detailedStatus: { label: 'passed with warnings' } },
      { name: 'deploy', detailedStatus: { label: 'passed' } },
    ]);
    const ctx = app().context();
    const project = await findProject(ctx, { id: scene.project.id });
    if (!project) throw new Error('no project');
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    const sample: any = await pipelineSample(await sceneOf(ctx, { kind: 'project', project }));
    for (const body of [(await bodies(scene, 'pipeline.updated')).at(-1), sample]) {
      expect(body.object_attributes).toMatchObject({
        ...{ status: 'success', detailed_status: 'passed with warnings', stages: ['build', 'deploy'] },
      });
      expect(body.builds.map(({ name }: { name: string }) => name)).toEqual(['send', 'lint']);
      expect(body.builds[0].runner).toMatchObject({ id: scene.runner.id });
    }
  });

  it('get no events of pipelines and jobs of blocked users', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x]}');
    const { id } = await scene.newest();
    await scene.finish(id, 'a');
    const states = { active: true, deactivated: true, blocked: false, ldap_blocked: false, banned: false };
    for (const [state, isSent] of Object.entries(states)) {
      const { db } = app().hub.services;
      await db.updateTable('users').set({ state }).where('id', '=', scene.owner.id).execute();
      for (const kind of ['pipeline.updated', 'job.updated']) {
        const sent = await bodies(scene, kind);
        expect(sent.length).toBeGreaterThan(0);
        expect([state, kind, new Set(sent.map((body) => body !== null))]).toEqual([state, kind, new Set([isSent])]);
      }
    }
  });

  it('get each status of a pipeline, with its variables, its source and its merge request', async () => {
    const scene = await familyScene();
    await scene.create({ variables: [{ key: 'A', value: '1' }] });
    const sent = await bodies(scene, 'pipeline.created');
    const given = sent.find(({ object_attributes }) => object_attributes.source === 'api');
    expect(given).toMatchObject({
      object_attributes: { ref: 'main', protected_ref: true, variables: [{ key: 'A', value: '1' }] },
      merge_request: null,
    });
    expect(given.builds.find(({ name }: { name: string }) => name === 'gate')).toMatchObject({
      when: 'manual',
      manual: true,
    });
    const child = sent.find(({ object_attributes }) => object_attributes.source === 'parent_pipeline');
    expect(child.source_pipeline).toMatchObject({
      project: { path_with_namespace: scene.project.path_with_namespace },
      pipeline_id: scene.id,
    });
    const review = await pipelineScene(app(), 'r: {script: [x], only: [merge_requests]}');
    await review.client.post(`${review.path}/repository/branches`, { branch: 'feature', ref: 'main' });
    await review.change({ branch: 'feature' });
    const { body } = await review.client.post(`${review.path}/merge_requests`, {
      source_branch: 'feature',
      target_branch: 'main',
      title: 'Feature',
    });
    await app().settle();
    const [ofMerge] = await bodies(review, 'pipeline.created');
    expect(ofMerge).toMatchObject({
      object_attributes: { ref: 'feature', source: 'merge_request_event' },
      merge_request: { iid: body.iid, target_branch: 'main', detailed_merge_status: expect.any(String) },
    });
  });
});
