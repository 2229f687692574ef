import { describe, expect, it } from 'vitest';
import { remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
const folder = useFolder();

const TWO_STAGES = `
stages: [build, test]
compile: {stage: build, script: [make]}
check: {stage: test, script: [make check]}
lint: {stage: test, script: [make lint], needs: []}
`;

describe('a push', () => {
  it('creates a pipeline of its branch with the jobs of the CI file, and keeps its commit fetchable', async () => {
    const scene = await pipelineScene(app(), TWO_STAGES);
    const [pipeline, ...others] = await scene.pipelines();
    expect(others).toEqual([]);
    expect(pipeline).toMatchObject({ sha: scene.sha, ref: 'main', source: 'push', status: 'pending', iid: 1 });
    const id = pipeline?.id ?? 0;
    expect(await scene.shown(id)).toBe('compile pending, check created, lint pending');
    const { git, db } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', scene.project.id)
      .executeTakeFirstOrThrow();
    expect(await git.resolve(disk_path, `refs/pipelines/${id}`)).toBe(scene.sha);
    await scene.finish(id, 'compile');
    await scene.finish(id, 'lint');
    expect(await scene.shown(id)).toBe('compile success, check pending, lint success');
    await scene.finish(id, 'check');
    expect(await scene.statusOf(id)).toBe('success');
    await app().settle();
    expect(await git.resolve(disk_path, `refs/pipelines/${id}`)).toBeNull();
  });

  it('has the user who pushed in its rules and its name', async () => {
    const owner = await app().make.user();
    const file = `workflow: {name: "By $GITLAB_USER_LOGIN"}
a: {script: [x], rules: [{if: $GITLAB_USER_LOGIN == "${owner.username}"}]}
b: {script: [x], rules: [{if: $GITLAB_USER_LOGIN != "${owner.username}"}]}`;
    const scene = await pipelineScene(app(), file, {}, owner);
    const { id, name } = await scene.newest();
    expect([name, await scene.shown(id)]).toEqual([`By ${owner.username}`, 'a pending']);
  });

  it('creates none without a CI file, without matching jobs, and while pipelines are disabled', async () => {
    const scene = await pipelineScene(app(), null);
    expect(await scene.pipelines()).toEqual([]);
    const never = await pipelineScene(app(), 'a: {script: [x], rules: [{if: $NO, when: always}]}');
    expect(await never.pipelines()).toEqual([]);
    const off = await pipelineScene(app(), TWO_STAGES, { builds_access_level: 'disabled' });
    const { rows } = await app().hub.services.pool.query('select 1 from pipelines where project_id = $1', [
      off.project.id,
    ]);
    expect(rows).toEqual([]);
  });

  it('stores a failed pipeline with the errors of the CI file', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x], stage: none}');
    const { id } = await scene.newest();
    const { body } = await scene.client.get(`${scene.path}/pipelines/${id}`);
    expect(body).toMatchObject({
      status: 'failed',
      yaml_errors: expect.stringContaining('chosen stage none does not exist'),
    });
    expect(await scene.shown(id)).toBe('');
    const retried = await scene.client.post(`${scene.path}/pipelines/${id}/retry`);
    expect([retried.status, retried.body.status]).toEqual([201, 'failed']);
  });

  it.each(['[skip ci]', '[CI skip]', '[ci-skip]', '[skip_ci]'])('with %s creates a skipped pipeline', async (mark) => {
    const scene = await pipelineScene(app(), TWO_STAGES);
    await scene.change({ message: `Docs only ${mark}` });
    const { id, status } = await scene.newest();
    expect(status).toBe('skipped');
    expect(await scene.shown(id)).toBe('');
    // The API ignores the mark.
    expect((await scene.create()).body.status).toBe('pending');
  });

  it('creates nothing without a CI file, except a skipped pipeline if the message asks for it', async () => {
    const scene = await pipelineScene(app(), null);
    await scene.change();
    await scene.client.post(`${scene.path}/repository/tags`, { tag_name: 'v1', ref: 'main', message: 'One' });
    await app().settle();
    expect(await scene.pipelines()).toEqual([]);
    await scene.change({ message: 'Docs only [skip ci]' });
    expect(await scene.pipelines()).toEqual([expect.objectContaining({ status: 'skipped', ref: 'main' })]);
  });

  it('carries variables, inputs and a skip in its options, and creates pipelines for four refs', async () => {
    const header = 'spec: {inputs: {job-count: {type: number, default: 1}}}\n---\n';
    const scene = await pipelineScene(
      app(),
      `${header}"a $[[ inputs.job-count ]]": {script: [x], rules: [{if: $GO == "1"}]}`,
    );
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), scene.project, scene.owner);
    await runGit(tree, 'pull', '-q', '--rebase', '-X', 'theirs', remote, 'main');
    const options = ['-o', 'ci.variable=GO=1', '-o', 'ci.variable=no-name=1', '-o', 'ci.input=job-count=2'];
    await runGit(tree, 'push', '-q', ...options, remote, 'HEAD:refs/heads/one');
    await app().settle();
    const pipeline = await scene.newest();
    expect(pipeline).toMatchObject({ ref: 'one', status: 'pending' });
    expect(await scene.shown(pipeline.id)).toBe('a 2 pending');
    const variables = await scene.client.get(`${scene.path}/pipelines/${pipeline.id}/variables`);
    expect(variables.body).toEqual([{ key: 'GO', value: '1', variable_type: 'env_var', raw: false }]);
    const refs = ['a', 'b', 'c', 'd', 'e'].map((name) => `HEAD:refs/heads/many-${name}`);
    await runGit(tree, 'push', '-q', '-o', 'ci.variable=GO=1', remote, ...refs);
    await runGit(tree, 'push', '-q', '-o', 'ci.skip', remote, 'HEAD:refs/tags/v1');
    await app().settle();
    const all = await scene.pipelines();
    expect(all.filter(({ ref }) => String(ref).startsWith('many-'))).toHaveLength(4);
    expect(all.find(({ ref }) => ref === 'v1')?.status).toBe('skipped');
  });

  it('reads changes since the commit before it, and runs tags without branch jobs', async () => {
    const scene = await pipelineScene(
      app(),
      `
docs: {script: [x], rules: [{if: $CI_COMMIT_TAG, when: never}, {changes: ["docs/*"]}]}
code: {script: [x], rules: [{if: $CI_COMMIT_TAG, when: never}, {changes: ["src/*"]}]}
release: {script: [x], only: [tags]}
`,
    );
    await scene.commit({ 'docs/a.md': 'x' });
    expect(await scene.shown((await scene.newest()).id)).toBe('docs pending');
    await scene.client.post(`${scene.path}/repository/tags`, { tag_name: 'v1', ref: 'main', message: 'One' });
    await app().settle();
    const tagged = await scene.newest();
    expect(tagged).toMatchObject({ ref: 'v1' });
    expect(await scene.shown(tagged.id)).toBe('release pending');
  });
});

describe('POST pipeline', () => {
  it('creates a pipeline with variables and inputs', async () => {
    const scene = await pipelineScene(
      app(),
      `spec: {inputs: {name: {default: none}}}
---
"say $[[ inputs.name ]]": {script: [x], variables: {A: "1"}}
`,
    );
    const { status, body } = await scene.create({
      variables: [{ key: 'B', value: 'two', variable_type: 'file' }],
      inputs: { name: 'hi' },
    });
    expect([status, body.source, body.ref, body.status, body.user.id]).toEqual([
      201,
      'api',
      'main',
      'pending',
      scene.owner.id,
    ]);
    expect(await scene.shown(body.id)).toBe('say hi pending');
    expect((await scene.client.get(`${scene.path}/pipelines/${body.id}/variables`)).body).toEqual([
      { key: 'B', value: 'two', variable_type: 'file', raw: false },
    ]);
  });

  it('says why it creates none', async () => {
    const scene = await pipelineScene(app(), 'workflow: {rules: [{if: $GO}]}\na: {script: [x], rules: [{if: $ALSO}]}');
    const refusal = async (body: Record<string, unknown> = {}) => {
      const answer = await scene.create(body);
      expect(answer.status).toBe(400);
      return answer.body.message.base;
    };
    expect(await refusal()).toEqual(['Pipeline filtered out by workflow rules.']);
    expect(await refusal({ variables: [{ key: 'GO', value: '1' }] })).toEqual([
      'Pipeline will not run for the selected trigger. The rules configuration prevented any jobs from being added to the pipeline.',
    ]);
    expect(await refusal({ ref: 'nowhere' })).toEqual(['Reference not found']);
    await scene.client.put(scene.path, { ci_config_path: 'none.yml' });
    expect(await refusal()).toEqual(['Missing CI config file']);
    const broken = await pipelineScene(app(), 'a: {stage: test}');
    expect((await broken.create()).body.message.base[0]).toContain('jobs a config should implement');
    expect(await scene.pipelines()).toEqual([]);
  });

  it('requires the Developer role, the right to run on a protected branch, and the role for variables', async () => {
    const scene = await pipelineScene(app(), 'a: {script: [x]}');
    const [developer, reporter, stranger] = await Promise.all([
      app().make.user(),
      app().make.user(),
      app().make.user(),
    ]);
    await app().make.projectMember(scene.project, developer, 30);
    await app().make.projectMember(scene.project, reporter, 20);
    const post = async (user: typeof developer, body: Record<string, unknown> = {}) =>
      app()
        .as(user)
        .post(`${scene.path}/pipeline`, { ref: 'main', ...body });
    expect((await post(stranger)).status).toBe(404);
    expect((await post(reporter)).status).toBe(403);
    expect((await app().anonymous.post(`${scene.path}/pipeline`, { ref: 'main' })).status).toBe(401);
    expect((await post(developer)).body.message.base[0]).toContain("permission to run a pipeline on 'main'");
    await scene.client.post(`${scene.path}/repository/branches`, { branch: 'free', ref: 'main' });
    expect((await post(developer, { ref: 'free' })).status).toBe(201);
    await scene.client.put(scene.path, { restrict_user_defined_variables: true });
    const variables = [{ key: 'A', value: '1' }];
    const { body: trigger } = await scene.client.post(`${scene.path}/triggers`, { description: 'x' });
    const fire = () =>
      app().anonymous.post(`${scene.path}/trigger/pipeline`, {
        token: trigger.token,
        ref: 'main',
        variables: { A: '1' },
      });
    expect((await fire()).status).toBe(201);
    await scene.client.put(scene.path, { ci_pipeline_variables_minimum_override_role: 'no_one_allowed' });
    expect((await fire()).body.message.base).toEqual(['Insufficient permissions to set pipeline variables']);
    await scene.client.put(scene.path, { ci_pipeline_variables_minimum_override_role: 'maintainer' });
    expect((await post(developer, { ref: 'free', variables })).body.message.base).toEqual([
      'Insufficient permissions to set pipeline variables',
    ]);
    expect((await post(scene.owner, { variables })).status).toBe(201);
    expect((await app().as(reporter).get(`${scene.path}/pipelines/1/variables`)).status).toBe(404);
    await scene.client.post(`${scene.path}/archive`);
    expect((await post(scene.owner)).status).toBe(403);
  });

  it('is refused with the reason if its variables cannot be expanded', async () => {
    const scene = await pipelineScene(app(), `a: {script: [x], environment: "${'$L'.repeat(127)}"}`);
    const variables = (values: Record<string, string>) =>
      Object.entries(values).map(([key, value]) => ({ key, value }));
    const reasonFor = async (values: Record<string, string>) =>
      (await scene.create({ variables: variables(values) })).body.message;
    expect(await reasonFor({ L: 'x'.repeat(10_000) })).toEqual({
      base: ['variables expand to a text that is too long'],
    });
    expect(await reasonFor({ A: '$B', B: '$A' })).toEqual({
      base: ['circular variable reference detected: ["A","B"]'],
    });
  });
});
