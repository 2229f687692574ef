import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { commitFiles, makeCiProject } from './support-hub.ts';

const app = useApp();

describe('lint over REST', () => {
  it('checks the file of the project, all of its jobs or those of a simulated pipeline', async () => {
    const { lint, project, sha } = await makeCiProject(app(), {
      '.gitlab-ci.yml': `
include: /ci/part.yml
test:
  script: x
  only: [main]
  except: [tags]
  environment: e
  tags: [t]
  needs: [{job: part, optional: true}]
  before_script: [a]
  after_script: [b]
`,
      'ci/part.yml': 'part: {script: part, stage: build, rules: [{if: $NONE}]}',
    });
    const url = `${app().url}/${project.path_with_namespace}/-`;
    const test = {
      name: 'test',
      stage: 'test',
      before_script: ['a'],
      script: ['x'],
      after_script: ['b'],
      tag_list: ['t'],
      only: { refs: ['main'] },
      except: { refs: ['tags'] },
      environment: 'e',
      when: 'on_success',
      allow_failure: false,
      needs: [{ name: 'part', artifacts: true, optional: true }],
    };
    const checked = await lint('include_jobs=true');
    expect(checked).toMatchObject({
      valid: true,
      errors: [],
      warnings: [],
      includes: [
        {
          type: 'local',
          location: '/ci/part.yml',
          blob: `${url}/blob/${sha}/ci/part.yml`,
          raw: `${url}/raw/${sha}/ci/part.yml`,
          extra: {},
          context_project: project.path_with_namespace,
          context_sha: sha,
        },
      ],
      jobs: [{ name: 'part', stage: 'build' }, test],
    });
    expect(checked.merged_yaml).toContain('script: part');
    expect((await lint('include_jobs=true&dry_run=true')).jobs).toEqual([test]);
    expect(await lint()).not.toHaveProperty('jobs');
  });

  it('reads files and simulates pipelines at other refs', async () => {
    const scene = await makeCiProject(app(), {
      '.gitlab-ci.yml': 'a: {script: x, rules: [{if: $CI_COMMIT_BRANCH == "main"}]}',
    });
    const { lint, owner, path, sha } = scene;
    await commitFiles(scene, { 'other.yml': 'x' }, 'feature');
    await owner.put(path, { ci_config_path: 'other.yml' });
    expect((await lint('content_ref=feature')).errors).toEqual(['Invalid configuration format']);
    expect((await lint('sha=feature')).errors).toEqual(['Invalid configuration format']);
    expect((await lint('content_ref=main')).errors).toEqual(['Please provide content of .gitlab-ci.yml']);
    expect((await lint(`content_ref=${sha}`)).errors).toEqual(['Please provide content of .gitlab-ci.yml']);
    expect((await lint('content_ref=none')).errors).toEqual(['Reference not found']);
    await owner.put(path, { ci_config_path: '' });
    expect((await lint('dry_run=true&dry_run_ref=main')).valid).toBe(true);
    for (const query of ['dry_run=true&dry_run_ref=feature', 'dry_run=true&ref=feature']) {
      expect((await lint(query)).errors).toEqual([
        'Pipeline will not run for the selected trigger. The rules configuration prevented any jobs from being added to the pipeline.',
      ]);
    }
    expect((await lint('dry_run=true&ref=none')).errors).toEqual(['Reference not found']);
  });

  it('checks other content', async () => {
    const { check, owner, path } = await makeCiProject(app(), { 'part.yml': 'a: {script: x}' });
    expect(await check('include: part.yml', { include_jobs: true })).toMatchObject({
      valid: true,
      jobs: [{ name: 'a' }],
    });
    expect(await check('a: {script: x, rules: [{when: never}]}', { dry_run: true, ref: 'main' })).toMatchObject({
      valid: false,
    });
    expect(await check('workflow: {rules: [{if: $NONE}]}\na: {script: x}', { dry_run: true })).toMatchObject({
      valid: false,
      errors: ['Pipeline filtered out by workflow rules.'],
    });
    expect(await check('a: {foo: 1}')).toEqual({
      valid: false,
      errors: ['jobs a config should implement the script:, run:, or trigger: keyword'],
      warnings: [],
      merged_yaml: 'a:\n  foo: 1\n',
      includes: [],
    });
    expect(await check('a: [')).toMatchObject({
      valid: false,
      merged_yaml: null,
      errors: [expect.stringContaining('line 1')],
    });
    expect(await check('')).toMatchObject({ errors: ['Please provide content of .gitlab-ci.yml'] });
    expect(await check('a: {script: x}\na: {script: y}')).toMatchObject({
      valid: true,
      warnings: ['the key a is given twice at line 2 column 1; the last one counts'],
    });
    expect((await owner.post(`${path}/ci/lint`, {})).status).toBe(400);
  });

  it('refuses small files that stand for very long ones', async () => {
    const { check } = await makeCiProject(app(), { README: 'x' });
    const lines = (line: (n: number) => string) =>
      Array.from({ length: 3_000 }, (_, n) => `    - ${line(n)}\n`).join('');
    const jobs = (name: string) =>
      Array.from({ length: 20 }, (_, n) => `j${n}: {script: x, parallel: 200, ${name}}`).join('\n');
    const long = `variables:\n  A0: ${'x'.repeat(9_000)}\n  A1: ${'$A0'.repeat(99)}\n`;
    const uses = Array.from({ length: 2_000 }, (_, n) => `  B${n}: ${n}$A1\n`).join('');
    const paths = Array.from({ length: 40 }, (_, n) => `"${n}$A1"`).join(', ');
    const files = {
      alias: `.x: &x ${'x'.repeat(99_000)}\na:\n  script:\n${lines(() => '*x')}`,
      extended: `.x: {script: [${'x'.repeat(99_000)}]}\na:\n  script:\n${lines(() => '!reference [.x, script]')}`,
      inputs: `spec: {inputs: {i: {default: ${'x'.repeat(99_000)}}}}\n---\na:\n  script:\n${lines((n) => `${n} $[[ inputs.i ]]`)}`,
      rules: `${long}${uses}a: {script: x, rules: [{if: $B1}]}`,
      names: `${long}${jobs('environment: e$A0')}`,
      globs: `${long}${jobs(`rules: [{exists: [${paths}]}]`)}`,
    };
    for (const [what, content] of Object.entries(files)) {
      expect(content.length).toBeLessThan(300_000);
      const { errors } = await check(content, { dry_run: true });
      expect([what, errors]).toEqual([what, [expect.stringMatching(/too big|too long/)]]);
    }
  });

  it('works in a project without a commit', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const { body } = await app().as(owner).post(`/projects/${project.id}/ci/lint`, { content: 'a: {script: x}' });
    expect(body).toMatchObject({ valid: true });
    expect((await app().as(owner).get(`/projects/${project.id}/ci/lint`)).body).toMatchObject({
      valid: false,
      errors: ['Please provide content of .gitlab-ci.yml'],
    });
  });

  it('is for those who read the code, and content and simulations for those who run pipelines', async () => {
    const scene = await makeCiProject(app(), { '.gitlab-ci.yml': 'a: {script: x}' });
    const { path, reporter, stranger, maintainer, guest } = scene;
    const content = 'a: {script: x}';
    expect((await reporter.get(`${path}/ci/lint`)).body).toMatchObject({ valid: true });
    expect((await reporter.get(`${path}/ci/lint?dry_run=true`)).status).toBe(403);
    expect((await reporter.post(`${path}/ci/lint`, { content })).status).toBe(403);
    expect((await guest.get(`${path}/ci/lint`)).status).toBe(403);
    expect((await stranger.get(`${path}/ci/lint`)).status).toBe(404);
    expect((await app().anonymous.get(`${path}/ci/lint`)).status).toBe(404);
    expect((await stranger.post(`${path}/ci/lint`, { content })).status).toBe(404);
    expect((await app().anonymous.post(`${path}/ci/lint`, { content })).status).toBe(401);
    expect((await maintainer.post(`${path}/ci/lint`, { content, dry_run: true })).body).toMatchObject({ valid: true });
  });

  it('shows values of variables only to those who can use them in a job', async () => {
    const scene = await makeCiProject(app(), {
      '.gitlab-ci.yml': 'include: {local: part.yml, inputs: {x: "$OPEN $CLOSED"}}',
      'part.yml': 'spec: {inputs: {x: {}}}\n---\na: {script: "$[[ inputs.x | expand_vars ]]"}',
    });
    const { path, owner, reporter } = scene;
    await owner.post(`${path}/variables`, { key: 'OPEN', value: 'open-value' });
    await owner.post(`${path}/variables`, { key: 'CLOSED', value: 'closed-value', protected: true });
    expect((await owner.get(`${path}/ci/lint`)).body.merged_yaml).toContain('open-value $CLOSED');
    expect((await reporter.get(`${path}/ci/lint`)).body.merged_yaml).toContain('$OPEN $CLOSED');
    expect((await owner.get(`${path}/ci/lint?dry_run=true`)).body.merged_yaml).toContain('open-value closed-value');
    // Neither masked values nor those that contain them are written into the file.
    await owner.put(`${path}/variables/OPEN`, { value: 'inner-$HIDDEN' });
    await owner.post(`${path}/variables`, { key: 'HIDDEN', value: 'hidden-value', masked: true });
    const refused = (await owner.get(`${path}/ci/lint`)).body;
    expect(refused.errors).toEqual([expect.stringContaining('masked variables cannot be expanded')]);
    expect(JSON.stringify(refused)).not.toContain('hidden-value');
  });
});

describe('lint over GraphQL', () => {
  const selection = `
    status errors warnings mergedYaml
    includes { type location blob raw extra contextProject contextSha }
    stages { nodes { name groups { nodes { name size jobs { nodes {
      name groupName stage when allowFailure environment beforeScript script afterScript tags
      only { refs } except { refs } needs { nodes { name } }
    } } } } } }`;

  it('groups the jobs of parallel below their stages', async () => {
    const { project, people } = await makeCiProject(app(), { 'part.yml': 'lint: {script: x}' });
    const content =
      'include: part.yml\ntest: {script: [x], parallel: 2, needs: [lint], only: [main]}\nship: {stage: deploy, script: x, rules: [{if: $NONE}]}';
    const input = { projectPath: project.path_with_namespace, content };
    const mutate = async (more: object) =>
      app()
        .as(people.owner)
        .graphql(`mutation ($input: CiLintInput!) { ciLint(input: $input) { errors config { ${selection} } } }`, {
          input: { ...input, ...more },
        });
    const { data, errors } = await mutate({});
    expect(errors).toBeUndefined();
    expect(data.ciLint.errors).toEqual([]);
    expect(data.ciLint.config).toMatchObject({
      status: 'VALID',
      errors: [],
      includes: [{ type: 'LOCAL', location: 'part.yml' }],
    });
    expect(
      data.ciLint.config.stages.nodes.map(
        (stage: { name: string; groups: { nodes: { name: string; size: number }[] } }) => [
          stage.name,
          ...stage.groups.nodes.map(({ name, size }) => `${name} ${size}`),
        ],
      ),
    ).toEqual([
      ['test', 'lint 1', 'test 2'],
      ['deploy', 'ship 1'],
    ]);
    const [first] = data.ciLint.config.stages.nodes[0].groups.nodes[1].jobs.nodes;
    expect(first).toMatchObject({
      name: 'test 1/2',
      groupName: 'test',
      only: { refs: ['main'] },
      needs: { nodes: [{ name: 'lint' }] },
    });
    const simulated = await mutate({ dryRun: true, ref: 'main' });
    expect(simulated.data.ciLint.config.stages.nodes.map(({ name }: { name: string }) => name)).toEqual(['test']);
  });

  it('answers the query ciConfig with the same', async () => {
    const { project, people, sha } = await makeCiProject(app(), { 'part.yml': 'a: {script: x}' });
    const ask = (as: typeof people.owner, variables: object) =>
      app()
        .as(as)
        .graphql(
          `query ($path: ID!, $content: String!, $sha: String, $dryRun: Boolean) {
          ciConfig(projectPath: $path, content: $content, sha: $sha, dryRun: $dryRun) { status errors stages { nodes { name } } }
        }`,
          { path: project.path_with_namespace, content: 'include: part.yml', ...variables },
        );
    expect((await ask(people.owner, { sha })).data.ciConfig).toEqual({
      status: 'VALID',
      errors: [],
      stages: { nodes: [{ name: 'test' }] },
    });
    const simulated = await ask(people.owner, { content: 'a: {script: x}', dryRun: true });
    expect(simulated.data.ciConfig).toMatchObject({ status: 'VALID', errors: [] });
    expect((await ask(people.owner, { content: 'a: {}', dryRun: true })).data.ciConfig).toMatchObject({
      status: 'INVALID',
    });
    expect((await ask(people.stranger, {})).data.ciConfig).toBeNull();
  });
});
