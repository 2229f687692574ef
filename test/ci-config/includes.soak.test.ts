import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TEMPLATES } from '#domains/ci-config/templates.ts';
import { useApp } from '../support/app.ts';
import { commitFiles, makeCiProject } from './support-hub.ts';

const app = useApp();

const REMOTE = 'remote: {script: remote}';
const server = createServer((request, response) => {
  if (request.url === '/redirect.yml') response.writeHead(302, { location: '/remote.yml' }).end();
  else if (request.url === '/loop.yml') response.writeHead(302, { location: '/loop.yml' }).end();
  else if (request.url === '/local.yml') response.end('include: {local: part.yml}');
  else if (request.url === '/large.yml') response.end('#'.repeat(3 * 1024 * 1024));
  else if (request.url === '/remote.yml') response.end(REMOTE);
  else response.writeHead(404).end();
});
let remote = '';

const change = (settings: Record<string, unknown>) => app().as(app().root).put('/application/settings', settings);

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  remote = `http://127.0.0.1:${port}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

const namesOf = ({ jobs }: { jobs: { name: string }[] }) => jobs.map(({ name }) => name);
const JOBS = { include_jobs: true };

describe('include', () => {
  it('merges files of the project in order, below the file itself', async () => {
    const { check } = await makeCiProject(app(), {
      'a.yml': 'include: nested/b.yml\nx: {script: a, tags: [a], variables: {A: 1}}',
      'nested/b.yml': 'x: {script: b, tags: [b], variables: {B: 1}}\nb: {script: b}',
      'c.yaml': 'x: {script: c}',
    });
    const merged = await check('include: [a.yml, {local: /c.yaml}]\nx: {variables: {C: 1}}', JOBS);
    expect(merged.merged_yaml).toBe(
      'x:\n  script: c\n  tags:\n    - a\n  variables:\n    B: 1\n    A: 1\n    C: 1\nb:\n  script: b\n',
    );
    expect(merged.includes.map(({ location }: { location: string }) => location)).toEqual([
      'a.yml',
      'nested/b.yml',
      '/c.yaml',
    ]);
    expect(namesOf(await check('include: {local: "nested/*.yml"}', JOBS))).toEqual(['x', 'b']);
    expect(namesOf(await check('include: {local: "**/*.yml"}', JOBS))).toEqual(['x', 'b']);
  });

  it('shows addresses as written, because variables in them may be secrets', async () => {
    const { owner, path, check } = await makeCiProject(app(), { 'hidden-name/a.yml': 'a: {script: a}' });
    await owner.post(`${path}/variables`, { key: 'SECRET', value: 'hidden-name', masked: true });
    const found = await check('include: $SECRET/a.yml', JOBS);
    expect([namesOf(found), found.includes[0].location]).toEqual([['a'], '$SECRET/a.yml']);
    for (const include of [
      '$SECRET/b.yml',
      '$SECRET',
      'https://127.0.0.1:1/$SECRET',
      '{remote: "$SECRET"}',
      '{project: $SECRET, file: a.yml}',
      '{template: $SECRET}',
      '{component: $SECRET/a/b@main}',
    ]) {
      const { errors } = await check(`include: ${include}`);
      expect(errors).toEqual([expect.stringContaining('$SECRET')]);
      expect(errors[0]).not.toContain('hidden-name');
    }
  });

  it('reads files of other projects that the caller can read', async () => {
    const scene = await makeCiProject(app(), { 'x.yml': 'x: {script: x}' });
    const other = await makeCiProject(app(), { 'o.yml': 'include: p.yml\no: {script: o}', 'p.yml': 'p: {script: p}' });
    await commitFiles(other, { 'q.yml': 'q: {script: q}' }, 'branch');
    const project = other.project.path_with_namespace;
    const { check, path, people } = scene;
    const content = `include: {project: ${project}, file: [/o.yml]}`;
    const denied = `Project \`${project}\` not found or access denied! Make sure any includes in the pipeline configuration are correctly defined.`;
    expect((await check(content)).errors).toEqual([denied]);
    await app().make.projectMember(other.project, people.owner, 20);
    const found = await check(content, JOBS);
    expect(namesOf(found)).toEqual(['p', 'o']);
    expect(found.includes).toMatchObject([
      {
        type: 'file',
        location: '/o.yml',
        extra: { project, ref: other.sha },
        context_project: scene.project.path_with_namespace,
      },
      { type: 'local', location: 'p.yml', context_project: project, context_sha: other.sha },
    ]);
    expect(namesOf(await check(`include: {project: ${project}, ref: branch, file: q.yml}`, JOBS))).toEqual(['q']);
    expect((await check(`include: {project: ${project}, ref: none, file: q.yml}`)).errors).toEqual([
      `Project \`${project}\` reference \`none\` does not exist!`,
    ]);
    expect((await check(`include: {project: ${project}, file: none.yml}`)).errors).toEqual([
      `Project \`${project}\` file \`none.yml\` does not exist!`,
    ]);
    expect((await app().as(people.maintainer).post(`${path}/ci/lint`, { content })).body.errors).toEqual([denied]);
    expect(
      namesOf(
        await check(`include: {component: ${new URL(app().url).host}/${project}/none@main}`, JOBS).then((each) => ({
          jobs: [],
          ...each,
        })),
      ),
    ).toEqual([]);
  });

  it('reads components of projects of this hub', async () => {
    const { check, project } = await makeCiProject(app(), {
      'templates/build.yml':
        'spec: {inputs: {stage: {default: test}}}\n---\nbuild: {script: x, stage: "$[[ inputs.stage ]]"}',
      'templates/deep/template.yml': 'deep: {script: x}',
    });
    const at = `${new URL(app().url).host}/${project.path_with_namespace}`;
    expect(await check(`include: {component: ${at}/build@main, inputs: {stage: deploy}}`, JOBS)).toMatchObject({
      jobs: [{ name: 'build', stage: 'deploy' }],
      includes: [{ type: 'component', location: `${at}/build@main` }],
    });
    expect(
      namesOf(await check(`include: {component: $CI_SERVER_FQDN/${project.path_with_namespace}/deep@main}`, JOBS)),
    ).toEqual(['deep']);
    expect((await check(`include: {component: ${at}/none@main}`)).errors).toEqual([
      `Component '${at}/none@main' - content not found`,
    ]);
    expect((await check(`include: {component: ${at}/build@~latest}`)).errors).toEqual([
      `Component '${at}/build@~latest' - the version ~latest is not supported`,
    ]);
    expect((await check('include: {component: git.example.org/a/b/c@1}')).errors).toEqual([
      "Component 'git.example.org/a/b/c@1' - only components of this hub are supported",
    ]);
    expect((await check('include: {component: x}')).errors).toEqual(["Component 'x' - address is not valid"]);
  });

  it('fetches remote files through the guarded client', async () => {
    const { check } = await makeCiProject(app(), { 'part.yml': 'x: {script: x}' });
    const get = async (path: string, more = '') => check(`include: {remote: "${remote}${path}"${more}}`, JOBS);
    expect((await get('/remote.yml')).errors[0]).toMatch(
      /^Remote file `.*` could not be fetched because: URL is blocked/,
    );
    await change({ allow_local_requests_from_web_hooks_and_services: true });
    expect(await get('/remote.yml')).toMatchObject({
      jobs: [{ name: 'remote' }],
      includes: [{ type: 'remote', location: `${remote}/remote.yml`, raw: `${remote}/remote.yml`, blob: null }],
    });
    expect(namesOf(await check(`include: ${remote}/redirect.yml`, JOBS))).toEqual(['remote']);
    expect((await get('/loop.yml')).errors[0]).toMatch(/too many redirects$/);
    expect((await get('/none.yml')).errors).toEqual([
      `Remote file \`${remote}/none.yml\` could not be fetched because of HTTP code \`404\` error!`,
    ]);
    expect((await get('/large.yml')).errors).toEqual([`Remote file \`${remote}/large.yml\` is too big`]);
    expect((await get('/local.yml')).errors).toEqual([
      `\`${remote}/local.yml\`: Local file \`part.yml\` does not have project!`,
    ]);
    const digest = createHash('sha256').update(REMOTE).digest('base64');
    expect((await get('/remote.yml', `, integrity: sha256-${digest}`)).valid).toBe(true);
    expect((await get('/remote.yml', ', integrity: sha256-x')).errors).toEqual([
      `Remote file \`${remote}/remote.yml\` failed the integrity check`,
    ]);
    expect((await check('include: {remote: "ftp://x/a.yml"}')).errors).toEqual([
      'Remote file `ftp://x/a.yml` address is not valid!',
    ]);
  });

  it('has templates of the hub, which run where their files are', async () => {
    const { check } = await makeCiProject(app(), {
      'package.json': '{}',
      'pyproject.toml': '',
      'go.mod': 'module x',
      'Cargo.toml': '',
    });
    expect(TEMPLATES.length).toBeGreaterThan(0);
    for (const template of TEMPLATES) {
      const own = template.startsWith('Workflows/') ? 'x: {script: x}' : '';
      const found = await check(`include: {template: ${template}}\n${own}`, { ...JOBS, dry_run: true });
      expect([template, found.errors, found.warnings, namesOf(found).length]).toEqual([template, [], [], 1]);
      expect(found.includes).toMatchObject([{ type: 'template', location: template }]);
    }
  });

  it.each([
    ['include: none.yml', 'Local file `none.yml` does not exist!'],
    ['include: "none/*.yml"', 'Local file `none/*.yml` does not exist!'],
    ['include: part.txt', 'Local file `part.txt` does not have a valid YAML extension!'],
    ['include: empty.yml', 'Included file `empty.yml` is empty or does not exist!'],
    ['include: broken.yml', '`broken.yml`: Invalid configuration format'],
    [
      'include: {template: Auto-DevOps.gitlab-ci.yml}',
      `Template file \`Auto-DevOps.gitlab-ci.yml\` does not exist! The templates are ${TEMPLATES.join(', ')}. Include other files with local, project or remote.`,
    ],
    [
      'include: {artifact: a.yml, job: b}',
      'Including configs from artifacts is only allowed when triggering child pipelines',
    ],
    ['include: {artifact: a.yml}', 'Job must be provided when including configs from artifacts'],
    [
      'include: {local: part.yml, remote: x}',
      'Each include must use only one of: `local`, `file`, `remote`, `template`, `component`, `artifact`',
    ],
    ['include: {local: part.yml, foo: x}', 'include config contains unknown keys: foo'],
    ['include: {file: part.yml}', 'include project should be a string'],
    ['include: {project: a/b, file: {}}', 'include file should be an array of strings or a string'],
    ['include: 1', 'include config should be a hash or a string'],
    ['include: {local: ../part.yml}', 'Local file `../part.yml` does not exist!'],
    ['include: {local: part.yml, rules: [{when: manual}]}', 'include:rules:rule when should be one of: always, never'],
    [
      'include: {local: part.yml, inputs: {a: 1}}',
      '`part.yml`: Given inputs not defined in the `spec` section of the included configuration file',
    ],
    ['include: loop.yml', 'Maximum of 150 nested includes are allowed!'],
  ])('names what is wrong: %s', async (content, message) => {
    const { check } = await makeCiProject(app(), {
      'part.yml': 'x: {script: x}',
      'part.txt': 'x',
      'empty.yml': '\n',
      'broken.yml': '- a',
      'loop.yml': 'include: loop.yml',
    });
    expect((await check(content)).errors).toEqual([message]);
  });

  it('has limits that operators set', async () => {
    const { check } = await makeCiProject(app(), { 'a.yml': 'a: {script: x}', 'b.yml': 'b: {script: x}' });
    await change({ ci_max_includes: 1 });
    expect((await check('include: [a.yml, b.yml]')).errors).toEqual(['Maximum of 1 nested includes are allowed!']);
    await change({ ci_max_includes: 150, ci_max_total_yaml_size_bytes: 30 });
    expect((await check('include: [a.yml, b.yml]')).errors[0]).toMatch(
      /^Total size of combined CI\/CD configuration is too big$/,
    );
    await change({ ci_max_total_yaml_size_bytes: 314_572_800 });
    expect((await check('include: [a.yml, b.yml]')).valid).toBe(true);
  });

  it('follows rules with variables, files and changes', async () => {
    const { check, owner, path } = await makeCiProject(app(), {
      'a.yml': 'a: {script: x}',
      'b.yml': 'b: {script: x}',
      '.x/Dockerfile': '',
    });
    await owner.post(`${path}/variables`, { key: 'NAME', value: 'b' });
    const include = async (rules: string) =>
      namesOf(await check(`include: [{local: a.yml, rules: [${rules}]}, {local: $NAME.yml}]`, JOBS));
    expect(await include('{if: $CI_COMMIT_BRANCH == "main"}')).toEqual(['a', 'b']);
    expect(await include('{if: $NONE}')).toEqual(['b']);
    expect(await include('{if: $CI_COMMIT_BRANCH, when: never}')).toEqual(['b']);
    expect(await include('{exists: ["**/Dockerfile"]}')).toEqual(['a', 'b']);
    expect(await include('{exists: [Dockerfile]}')).toEqual(['b']);
    expect(await include('{exists: [.x/Dockerfile]}')).toEqual(['a', 'b']);
    expect(await include('{changes: [none]}')).toEqual(['a', 'b']);
  });
});

describe('rules of jobs', () => {
  it('ask other projects, and compare with other branches', async () => {
    const scene = await makeCiProject(app(), { 'a.txt': 'a' });
    const { check, project } = scene;
    await commitFiles(scene, { 'docs/b.md': 'b' }, 'feature');
    const jobs = async (rule: string) =>
      (await check(`x: {script: x, rules: [${rule}]}`, { dry_run: true, ref: 'feature' })).errors;
    const none = [expect.stringMatching(/^Pipeline will not run/)];
    expect(await jobs('{changes: {paths: ["docs/*"], compare_to: main}}')).toEqual([]);
    expect(await jobs('{changes: {paths: [a.txt], compare_to: refs/heads/main}}')).toEqual([
      'rules:changes:compare_to is not a valid ref',
    ]);
    expect(await jobs('{changes: {paths: [a.txt], compare_to: main}}')).toEqual(none);
    expect(await jobs(`{exists: {paths: [a.txt], project: ${project.path_with_namespace}, ref: main}}`)).toEqual([]);
    expect(await jobs(`{exists: {paths: ["docs/*"], project: ${project.path_with_namespace}, ref: main}}`)).toEqual(
      none,
    );
    expect(await jobs('{exists: {paths: [x], project: no/project}}')).toEqual([
      'rules:exists:project `no/project` is not a valid project',
    ]);
    expect(await jobs(`{exists: {paths: [x], project: ${project.path_with_namespace}, ref: nope}}`)).toEqual([
      `rules:exists:ref \`nope\` is not a valid ref in project \`${project.path_with_namespace}\``,
    ]);
  });
});

describe('the path of the CI file', () => {
  it('is that of the project, else that of the instance', async () => {
    const { lint, owner, path, project } = await makeCiProject(app(), {
      '.gitlab-ci.yml': 'a: {script: x}',
      'ci/own.yml': 'b: {script: x}',
    });
    const name = async () => namesOf(await lint('include_jobs=true'));
    expect(await name()).toEqual(['a']);
    await change({ default_ci_config_path: 'ci/own.yml' });
    expect(await name()).toEqual(['b']);
    const { data } = await owner.graphql(
      `{ project(fullPath: "${project.path_with_namespace}") { ciConfigPathOrDefault } }`,
    );
    expect(data.project.ciConfigPathOrDefault).toBe('ci/own.yml');
    await change({ default_ci_config_path: null });
    await owner.put(path, { ci_config_path: 'ci/own.yml' });
    expect(await name()).toEqual(['b']);
  });

  it('may name another project, or a URL', async () => {
    const { lint, owner, path, people } = await makeCiProject(app(), { 'local.yml': 'wrong: {script: x}' });
    const other = await makeCiProject(app(), { 'ci.yml': 'include: local.yml', 'local.yml': 'right: {script: x}' });
    await app().make.projectMember(other.project, people.owner, 20);
    const name = async (ci_config_path: string) => {
      await owner.put(path, { ci_config_path });
      return namesOf(await lint('include_jobs=true'));
    };
    expect(await name(`ci.yml@${other.project.path_with_namespace}`)).toEqual(['right']);
    expect(await name(`ci.yml@${other.project.path_with_namespace}:main`)).toEqual(['right']);
    await change({ allow_local_requests_from_web_hooks_and_services: true });
    expect(await name(`${remote}/remote.yml`)).toEqual(['remote']);
    await owner.put(path, { ci_config_path: `ci.yml@${other.project.path_with_namespace}:none` });
    expect((await lint()).errors).toEqual([
      `Project \`${other.project.path_with_namespace}\` reference \`none\` does not exist!`,
    ]);
  });
});
