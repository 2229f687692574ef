import { describe, expect, it } from 'vitest';
import { startBridge } from '#domains/ci/bridges.ts';
import { replaceDotenvVariables } from '#domains/ci/dotenv-variables.ts';
import { useApp } from '../support/app.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
const NO_RUN = { attempt: 1, lastAttempt: false };

const CHILD = 'inner: {script: [x]}';
const parent = (strategy: string) => `
before: {stage: build, script: [x]}
start: {stage: test, trigger: {include: child.yml${strategy}}, variables: {GIVEN: "to $CI_PROJECT_NAME"}}
after: {stage: deploy, script: [x]}
`;

const familyScene = async (strategy: string) => {
  const scene = await pipelineScene(app(), parent(strategy));
  await scene.commit({ 'child.yml': CHILD });
  const { id } = await scene.newest();
  await scene.finish(id, 'before');
  const children = await scene.pipelines('?source=parent_pipeline');
  return { ...scene, id, child: children[0]?.id ?? 0 };
};

describe('a bridge', () => {
  it('starts a child pipeline of the same commit, which is listed on request only, and goes on at once', async () => {
    const scene = await familyScene('');
    expect((await scene.pipelines()).map(({ id }) => id)).not.toContain(scene.child);
    expect(await scene.shown(scene.child)).toBe('inner pending');
    expect(await scene.shown(scene.id)).toBe('before success, start success, after pending');
    const { body } = await scene.client.get(`${scene.path}/pipelines/${scene.id}/bridges`);
    expect(body).toEqual([
      expect.objectContaining({ name: 'start', downstream_pipeline: expect.objectContaining({ id: scene.child }) }),
    ]);
    const variables = await scene.client.get(`${scene.path}/pipelines/${scene.child}/variables`);
    expect(variables.body).toEqual([expect.objectContaining({ key: 'GIVEN' })]);
    expect(variables.body[0].value).toMatch(/^to [^$]+$/);
    // The job may run twice, if its process dies after the pipeline was created.
    const bridge = await scene.jobId(scene.id, 'start');
    await app().hub.services.pool.query("update jobs set status = 'pending' where id = $1", [bridge]);
    await startBridge.run(app().context(), { id: bridge }, NO_RUN);
    expect(await scene.pipelines('?source=parent_pipeline')).toHaveLength(1);
  });

  it('leaves the reported statuses of its commit to the parent pipeline', async () => {
    const scene = await familyScene('');
    const { sha } = (await scene.client.get(`${scene.path}/pipelines/${scene.id}`)).body;
    const report = async (more: Record<string, unknown>) =>
      (await scene.client.post(`${scene.path}/statuses/${sha}`, { state: 'failed', name: 'outside', ...more })).body;
    expect(await report({})).toMatchObject({ pipeline_id: scene.id });
    expect(await report({ ref: 'main' })).toMatchObject({ pipeline_id: scene.id });
    expect(await report({ pipeline_id: scene.child })).toMatchObject({ pipeline_id: scene.child });
  });

  it('fails if its variables become too long by those of earlier jobs', async () => {
    const scene = await pipelineScene(
      app(),
      `
build: {script: [x]}
short: {needs: [build], trigger: {include: child.yml}, variables: {A: $PART}}
long: {needs: [build], trigger: {include: child.yml}, variables: {A: "${'$PART'.repeat(101)}"}}
`,
    );
    await scene.commit({ 'child.yml': CHILD });
    const { id } = await scene.newest();
    const job = await scene.run(id, 'build');
    await app()
      .context()
      .transaction((tx) => replaceDotenvVariables(tx, job, new Map([['PART', 'x'.repeat(10_000)]])));
    await scene.end(job);
    const { short, long } = await scene.jobs(id);
    expect(short?.status).toBe('success');
    expect(long).toMatchObject({ status: 'failed', failure_reason: 'downstream_pipeline_creation_failed' });
  });

  it('fails if the other project takes no variables', async () => {
    const closed = await pipelineScene(app(), CHILD);
    await closed.client.put(closed.path, { ci_pipeline_variables_minimum_override_role: 'no_one_allowed' });
    const scene = await pipelineScene(
      app(),
      `
refused: {variables: {A: a}, trigger: ${closed.project.path_with_namespace}}
plain: {trigger: ${closed.project.path_with_namespace}}
`,
      {},
      closed.owner,
    );
    const jobs = await scene.jobs((await scene.newest()).id);
    const failure_reason = 'downstream_pipeline_creation_failed';
    expect(jobs.refused).toMatchObject({ status: 'failed', failure_reason });
    expect(jobs.plain?.status).toBe('success');
  });

  it('tries again while the other project is imported, and fails in the end', async () => {
    const other = await pipelineScene(app(), CHILD);
    const { db } = app().hub.services;
    const importing = { project_id: other.project.id, import_type: 'gitlab_project', status: 'started' };
    await db.insertInto('project_imports').values(importing).execute();
    const to = other.project.path_with_namespace;
    const scene = await pipelineScene(app(), `one: {trigger: ${to}}\ntwo: {trigger: ${to}}`, {}, other.owner);
    const { id } = await scene.newest();
    expect(await scene.shown(id)).toBe('one pending, two pending');
    const start = async (name: string, lastAttempt: boolean) =>
      startBridge.run(app().context(), { id: await scene.jobId(id, name) }, { attempt: 8, lastAttempt });
    await start('two', true);
    await db.deleteFrom('project_imports').where('project_id', '=', other.project.id).execute();
    await start('one', false);
    expect(await scene.shown(id)).toBe('one success, two failed');
  });

  it('passes on variables that the jobs it depends on left in dotenv reports', async () => {
    const scene = await pipelineScene(
      app(),
      `
stages: [build, test]
build: {stage: build, script: [x]}
other: {stage: build, script: [x]}
all: {stage: test, trigger: {include: child.yml}, variables: {PASSED: "$VERSION $OTHER"}}
needy: {stage: test, needs: [build], trigger: {include: child.yml}, variables: {PASSED: "$VERSION $OTHER"}}
none:
  stage: test
  needs: [{job: build, artifacts: false}]
  trigger: {include: child.yml}
  variables: {PASSED: "$VERSION $OTHER"}
`,
    );
    await scene.commit({ 'child.yml': CHILD });
    const { id } = await scene.newest();
    for (const [name, key] of [
      ['other', 'OTHER'],
      ['build', 'VERSION'],
    ] as const) {
      const job = await scene.run(id, name);
      await app()
        .context()
        .transaction((tx) => replaceDotenvVariables(tx, job, new Map([[key, `of ${name}`]])));
      await scene.end(job);
    }
    const { body } = await scene.client.get(`${scene.path}/pipelines/${id}/bridges`);
    const passed = await Promise.all(
      body.map(async (bridge: { name: string; downstream_pipeline: { id: number } }) => {
        const path = `${scene.path}/pipelines/${bridge.downstream_pipeline.id}/variables`;
        const [{ value }] = (await scene.client.get(path)).body;
        return [bridge.name, value];
      }),
    );
    expect(Object.fromEntries(passed)).toEqual({
      all: 'of build of other',
      needy: 'of build $OTHER',
      none: '$VERSION $OTHER',
    });
  });

  it('waits for its pipeline with a strategy, and follows it when that is retried', async () => {
    const scene = await familyScene(', strategy: depend');
    expect(await scene.shown(scene.id)).toBe('before success, start running, after created');
    await scene.finish(scene.child, 'inner', 'failed');
    expect(await scene.shown(scene.id)).toBe('before success, start failed, after skipped');
    await scene.client.post(`${scene.path}/pipelines/${scene.child}/retry`);
    await app().settle();
    expect(await scene.shown(scene.id)).toBe('before success, start running, after created');
    await scene.finish(scene.child, 'inner');
    expect(await scene.shown(scene.id)).toBe('before success, start success, after pending');
  });

  it('is canceled if the pipeline that it waits for is deleted', async () => {
    const scene = await familyScene(', strategy: depend');
    expect((await scene.client.delete(`${scene.path}/pipelines/${scene.child}`)).status).toBe(204);
    await app().settle();
    expect(await scene.shown(scene.id)).toBe('before success, start canceled, after skipped');
  });

  it('is canceled with its pipeline, and takes the child along', async () => {
    const scene = await familyScene(', strategy: depend');
    await scene.client.post(`${scene.path}/pipelines/${scene.id}/cancel`);
    await app().settle();
    expect(await scene.statusOf(scene.child)).toBe('canceled');
    expect(await scene.shown(scene.id)).toBe('before success, start canceled, after canceled');
  });

  it('starts a pipeline of another project that its user may run, and fails otherwise', async () => {
    const target = await pipelineScene(app(), CHILD);
    const full = target.project.path_with_namespace;
    const file = `go: {trigger: {project: ${full}, branch: main, strategy: depend}}`;
    const scene = await pipelineScene(app(), file, {}, target.owner);
    const { id } = await scene.newest();
    const downstream = await target.newest();
    expect(downstream).toMatchObject({ source: 'pipeline', ref: 'main' });
    await target.finish(downstream.id, 'inner');
    expect(await scene.statusOf(id)).toBe('success');
    // Somebody else cannot see the project.
    const other = await pipelineScene(app(), file);
    expect((await other.jobs((await other.newest()).id)).go).toMatchObject({
      status: 'failed',
      failure_reason: 'downstream_bridge_project_not_found',
    });
    const guest = await app().make.user();
    await app().make.projectMember(target.project, guest, 20);
    const low = await pipelineScene(app(), file, {}, guest);
    expect((await low.jobs((await low.newest()).id)).go).toMatchObject({
      failure_reason: 'insufficient_bridge_permissions',
    });
  });

  it('fails if its pipeline cannot be created, or would be too deep', async () => {
    const broken = await pipelineScene(app(), 'go: {trigger: {include: none.yml}}');
    expect((await broken.jobs((await broken.newest()).id)).go).toMatchObject({
      status: 'failed',
      failure_reason: 'downstream_pipeline_creation_failed',
    });
    // A file that starts itself.
    const scene = await pipelineScene(app(), 'go: {trigger: {include: .gitlab-ci.yml}}');
    const children = await scene.pipelines('?source=parent_pipeline');
    expect(children).toHaveLength(2);
    expect((await scene.jobs(children[0]?.id ?? 0)).go).toMatchObject({
      failure_reason: 'reached_max_descendant_pipelines_depth',
    });
  });

  it('fails if its pipeline would start one above it again', async () => {
    const target = await pipelineScene(app(), null);
    const toTarget = `go: {trigger: {project: ${target.project.path_with_namespace}, branch: main}}`;
    const scene = await pipelineScene(app(), toTarget, {}, target.owner);
    const back = `go: {trigger: {project: ${scene.project.path_with_namespace}, branch: main}}`;
    await target.commit({ '.gitlab-ci.yml': back });
    const ofScene = await scene.pipelines('?source=pipeline');
    const [again, pushed, ...others] = await target.pipelines();
    expect([again?.source, pushed?.source, others.length, ofScene.length]).toEqual(['pipeline', 'push', 0, 1]);
    expect((await scene.jobs(ofScene[0]?.id ?? 0)).go?.status).toBe('success');
    expect((await target.jobs(again?.id ?? 0)).go).toMatchObject({
      ...{ status: 'failed', failure_reason: 'pipeline_loop_detected' },
    });
  });

  it('fails if its pipeline belongs to a family of a thousand', async () => {
    const scene = await pipelineScene(app(), parent(''));
    await scene.commit({ 'child.yml': CHILD });
    const { id } = await scene.newest();
    await app().hub.services.pool.query(
      `with bridges as (
         insert into jobs (project_id, pipeline_id, kind, name, status)
         select project_id, id, 'bridge', 'bridge ' || n, 'success' from pipelines, generate_series(1, 1000) n where id = $1
         returning id, project_id
       )
       insert into pipelines (project_id, iid, bridge_job_id, source, status)
       select project_id, 1000 + row_number() over (), id, 'parent_pipeline', 'success' from bridges`,
      [id],
    );
    await scene.finish(id, 'before');
    const start = (await scene.client.get(`${scene.path}/pipelines/${id}/bridges?scope[]=failed`)).body[0];
    expect(start).toMatchObject({ name: 'start', failure_reason: 'reached_max_pipeline_hierarchy_size' });
    await app().hub.services.pool.query('delete from pipelines where project_id = $1 and iid = 2000', [
      scene.project.id,
    ]);
    await scene.client.post(`${scene.path}/jobs/${start.id}/retry`);
    await app().settle();
    expect(await scene.statusOf(id)).toBe('running');
    const [child] = await scene.pipelines('?source=parent_pipeline');
    expect(await scene.shown(child?.id ?? 0)).toBe('inner pending');
  });
});
