import { describe, expect, it } from 'vitest';
import { resolveExtends } from '#domains/ci-config/extends.ts';
import { isMapping } from '#domains/ci-config/values.ts';
import { parseYaml } from '#domains/ci-config/yaml.ts';
import { build, errorsOf, jobsOf, thrownBy } from './support.ts';

describe('keywords of a job', () => {
  it('become the job that the runner gets', async () => {
    const jobs = await jobsOf(`
      default:
        tags: [docker]
        retry: 1
        timeout: 2h
        hooks: {pre_get_sources_script: [date]}
      image: ruby
      before_script: [setup]
      after_script: [[teardown], [more]]
      variables: {GLOBAL: 1, OTHER: 2}
      build:
        stage: build
        image: {name: node, entrypoint: [sh], pull_policy: always, docker: {platform: arm64, user: dave}}
        services:
          - postgres
          - {name: redis, alias: r, command: [redis-server], variables: {X: 1}}
        script:
          - make
          - [test, [deep]]
        coverage: '/total: (\\d+)%/'
        resource_group: production
        interruptible: true
        allow_failure: {exit_codes: [3, 4]}
        retry: {max: 2, when: [script_failure, api_failure], exit_codes: 137}
        environment: {name: review/$CI_COMMIT_REF_SLUG, url: https://x, on_stop: stop, auto_stop_in: 1 day, deployment_tier: testing}
        artifacts:
          name: out
          paths: [bin/]
          exclude: [bin/*.o]
          untracked: true
          when: always
          expire_in: never
          public: false
          reports: {junit: report.xml, dotenv: [a.env, b.env], coverage_report: {coverage_format: cobertura, path: c.xml}}
        cache:
          - {key: {files: [Gemfile.lock], prefix: $CI_JOB_NAME}, paths: [vendor], policy: pull, when: always, fallback_keys: [a]}
          - {paths: [x], untracked: true, unprotect: true, policy: $POLICY}
        id_tokens: {TOKEN: {aud: https://vault}, OTHER: {aud: [a, b]}}
        inherit: {variables: [GLOBAL]}
      stop: {script: x, stage: build, when: manual, environment: {name: review/$CI_COMMIT_REF_SLUG, action: stop}}
      later: {script: x, when: delayed, start_in: 30 minutes, release: {tag_name: v1, description: text, assets: {links: [{name: a, url: https://a}]}}}
    `);
    expect(jobs.build).toEqual({
      name: 'build',
      stage: 'build',
      kind: 'build',
      when: 'on_success',
      start_in: null,
      allow_failure: false,
      allow_failure_exit_codes: [3, 4],
      needs: null,
      cross_needs: [],
      dependencies: null,
      script: ['setup', 'make', 'test', 'deep'],
      after_script: ['teardown', 'more'],
      image: {
        name: 'node',
        entrypoint: ['sh'],
        pull_policy: ['always'],
        executor_opts: { docker: { platform: 'arm64', user: 'dave' } },
      },
      services: [
        {
          name: 'postgres',
          entrypoint: null,
          pull_policy: null,
          executor_opts: {},
          alias: null,
          command: null,
          variables: [],
        },
        {
          name: 'redis',
          entrypoint: null,
          pull_policy: null,
          executor_opts: {},
          alias: 'r',
          command: ['redis-server'],
          variables: [{ key: 'X', value: '1', raw: false }],
        },
      ],
      variables: [{ key: 'GLOBAL', value: '1', raw: false }],
      tags: ['docker'],
      timeout: 7_200,
      retry: { max: 2, when: ['script_failure', 'api_failure'], exit_codes: [137] },
      interruptible: true,
      resource_group: 'production',
      environment: {
        name: 'review/$CI_COMMIT_REF_SLUG',
        url: 'https://x',
        on_stop: 'stop',
        action: 'start',
        auto_stop_in: 86_400,
        deployment_tier: 'testing',
      },
      trigger: null,
      release: null,
      coverage: 'total: (\\d+)%',
      artifacts: {
        name: 'out',
        paths: ['bin/'],
        exclude: ['bin/*.o'],
        untracked: true,
        when: 'always',
        expire_in: 'never',
        expose_as: null,
        access: 'developer',
        reports: { junit: ['report.xml'], dotenv: ['a.env', 'b.env'], cobertura: ['c.xml'] },
      },
      caches: [
        {
          key: { files: ['Gemfile.lock'], prefix: '$CI_JOB_NAME' },
          paths: ['vendor'],
          untracked: false,
          policy: 'pull',
          when: 'always',
          unprotect: false,
          fallback_keys: ['a'],
        },
        {
          key: 'default',
          paths: ['x'],
          untracked: true,
          policy: '$POLICY',
          when: 'on_success',
          unprotect: true,
          fallback_keys: [],
        },
      ],
      id_tokens: { TOKEN: { aud: ['https://vault'] }, OTHER: { aud: ['a', 'b'] } },
      hooks: { pre_get_sources_script: ['date'] },
      parallel: null,
    });
    expect(jobs.stop).toMatchObject({ when: 'manual', allow_failure: true, retry: { max: 1, when: ['always'] } });
    expect(jobs.later).toMatchObject({
      when: 'delayed',
      start_in: 1_800,
      release: { tag_name: 'v1', description: 'text' },
    });
  });

  it('make bridges of trigger', async () => {
    const jobs = await jobsOf(`
      down: {trigger: {project: group/other, branch: main, strategy: depend, forward: {pipeline_variables: true}, inputs: {a: 1}}}
      short: {trigger: group/other}
      child: {trigger: {include: [{local: child.yml, inputs: {x: y}}, other.yml], strategy: mirror}, variables: {A: b}}
    `);
    expect(jobs.down).toMatchObject({
      kind: 'bridge',
      trigger: {
        project: 'group/other',
        branch: 'main',
        strategy: 'depend',
        include: [],
        forward: { yaml_variables: true, pipeline_variables: true },
        inputs: { a: 1 },
      },
    });
    expect(jobs.short?.trigger).toMatchObject({ project: 'group/other', branch: null, strategy: null });
    expect(jobs.child?.trigger).toMatchObject({
      project: null,
      strategy: 'mirror',
      include: [{ local: 'child.yml', inputs: { x: 'y' } }, 'other.yml'],
    });
  });

  it('make several jobs of parallel and matrix, which needs and dependencies name together', async () => {
    const jobs = await jobsOf(`
      test: {script: x, parallel: 2}
      deploy:
        script: x
        parallel: {matrix: [{OS: [linux, mac], ARCH: [a, b]}, {OS: win}]}
      all: {script: x, needs: [test, {job: deploy, parallel: {matrix: [{OS: mac, ARCH: b}]}}], dependencies: [test]}
    `);
    expect(Object.keys(jobs)).toEqual([
      'test 1/2',
      'test 2/2',
      'deploy: [linux, a]',
      'deploy: [linux, b]',
      'deploy: [mac, a]',
      'deploy: [mac, b]',
      'deploy: [win]',
      'all',
    ]);
    expect(jobs['test 2/2']?.parallel).toEqual({ index: 2, total: 2 });
    expect(jobs['deploy: [mac, b]']?.variables).toEqual([
      { key: 'OS', value: 'mac', raw: false },
      { key: 'ARCH', value: 'b', raw: false },
    ]);
    expect(jobs.all?.needs?.map(({ name }) => name)).toEqual(['test 1/2', 'test 2/2', 'deploy: [mac, b]']);
    expect(jobs.all?.dependencies).toEqual(['test 1/2', 'test 2/2']);
  });

  it('are merged by extends and copied by !reference', async () => {
    const jobs = await jobsOf(`
      .a: {variables: {X: 1, Y: 1}, script: [a], tags: [one]}
      .b: {extends: .a, variables: {Y: 2}, tags: [two]}
      .rules: {rules: [{if: $CI_COMMIT_BRANCH}]}
      job:
        extends: [.a, .b]
        variables: {Z: 3}
        script: [!reference [.a, script], b]
        rules: [!reference [.rules, rules], {when: never}]
    `);
    expect(jobs.job).toMatchObject({
      script: ['a', 'b'],
      tags: ['two'],
      variables: [
        { key: 'X', value: '1' },
        { key: 'Y', value: '2' },
        { key: 'Z', value: '3' },
      ],
    });
  });

  it('default to the values of the reference', async () => {
    const { pipeline } = await build('job: {script: x}');
    expect(pipeline.stages).toEqual(['.pre', 'build', 'test', 'deploy', '.post']);
    expect(pipeline.auto_cancel).toEqual({ on_new_commit: 'conservative', on_job_failure: 'none' });
    expect(pipeline.jobs[0]).toMatchObject({
      stage: 'test',
      when: 'on_success',
      allow_failure: false,
      artifacts: null,
      caches: [],
    });
  });
});

describe('a mistake', () => {
  it.each([
    ['a: {script: x, foo: 1, bar: 2}', 'jobs:a config contains unknown keys: foo, bar'],
    ['A: {stage: test}', 'jobs a config should implement the script:, run:, or trigger: keyword'],
    ['a: 1', 'jobs a config should implement the script:, run:, or trigger: keyword'],
    ['.a: {script: x}', 'jobs config should contain at least one visible job'],
    ['a: {script: x, trigger: b}', 'jobs:a config these keys cannot be used together: script, trigger'],
    ['a: {script: {}}', 'jobs:a:script config should be a string or a nested array of strings up to 10 levels deep'],
    ['a: {script: []}', "jobs:a script can't be blank"],
    [
      'a: {script: x, when: sometimes}',
      'jobs:a when should be one of: on_success, on_failure, always, manual, delayed',
    ],
    ['a: {script: x, when: delayed}', 'jobs:a start in should be a duration'],
    ['a: {script: x, when: delayed, start_in: 8 days}', 'jobs:a start in should not exceed the limit'],
    ['a: {script: x, start_in: 1 day}', 'jobs:a start in must be blank'],
    [
      'a: {script: x, stage: nope}',
      'a job: chosen stage nope does not exist; available stages are .pre, build, test, deploy, .post',
    ],
    ['stages: a\nb: {script: x}', 'stages config should be an array of strings'],
    ['a: {script: x, rules: [{if: $A}], only: [main]}', 'jobs:a config key may not be used with `rules`: only'],
    ['a: {script: x, rules: [{if: "$A =="}]}', 'jobs:a:rules:rule if invalid expression syntax'],
    [
      'a: {script: x, rules: [{when: x}]}',
      'jobs:a:rules:rule when should be one of: on_success, on_failure, always, never, manual, delayed',
    ],
    ['a: {script: x, rules: {if: x}}', 'jobs:a:rules config should be an array containing hashes and arrays of hashes'],
    [
      'a: {script: x, only: ["/(/"]}',
      'jobs:a:only config should be an array of strings or regular expressions using re2 syntax',
    ],
    ['a: {script: x, only: {variables: ["$"]}}', 'jobs:a:only variables invalid expression syntax'],
    ['a: {script: x, needs: [b]}', 'a job: undefined need: b'],
    [
      'a: {script: x, stage: build, needs: [b]}\nb: {script: x, stage: test}',
      'a job: need b is not defined in current or prior stages',
    ],
    [
      'a: {script: x, needs: [b]}\nb: {script: x, needs: [c]}\nc: {script: x, needs: [a]}',
      'The pipeline has circular dependencies: a, b, c, a',
    ],
    ['a: {script: x, needs: [a]}', 'The pipeline has circular dependencies: a, a'],
    ['a: {script: x, needs: [{job: b, x: 1}]}', 'jobs:a:needs:need config contains unknown keys: x'],
    ['a: {script: x, dependencies: [b]}', 'a job: undefined dependency: b'],
    [
      'a: {script: x, needs: [b], dependencies: [c]}\nb: {script: x}\nc: {script: x}',
      'jobs:a dependencies the c should be part of needs',
    ],
    [
      'a: {script: x, needs: [b]}\nb: {script: x, rules: [{when: never}]}',
      "'a' job needs 'b' job, but 'b' does not exist in the pipeline. This might be because of the only, except, or rules keywords. To need a job that sometimes does not exist in the pipeline, use needs:optional.",
    ],
    ['a: {script: x, parallel: 201}', 'jobs:a:parallel config must be less than or equal to 200'],
    [
      `a: {script: x, parallel: {matrix: [{A: [${Array(15).fill('x')}], B: [${Array(15).fill('y')}]}]}}`,
      'jobs:a:parallel:matrix config generates too many jobs (maximum is 200)',
    ],
    ['a: {script: x, retry: 3}', 'jobs:a:retry config must be less than or equal to 2'],
    ['a: {script: x, retry: {when: luck}}', 'jobs:a:retry when contains unknown values: luck'],
    ['a: {script: x, timeout: 40 days}', 'jobs:a:timeout config should not exceed the limit'],
    ['a: {script: x, coverage: "(a)"}', 'jobs:a:coverage config must be a regular expression with re2 syntax'],
    ['a: {script: x, artifacts: {expire_in: soon}}', 'jobs:a:artifacts expire in should be a duration'],
    [
      'a: {script: x, artifacts: {public: true, access: all}}',
      'jobs:a:artifacts config these keys cannot be used together: public, access',
    ],
    ['a: {script: x, artifacts: {reports: {x: y}}}', 'jobs:a:artifacts:reports config contains unknown keys: x'],
    [
      'a: {script: x, artifacts: {expose_as: "!", paths: [x]}}',
      'jobs:a:artifacts expose as can contain only letters, digits, `-`, `_` and spaces',
    ],
    ['a: {script: x, cache: {key: a/b}}', 'jobs:a:cache:key config cannot contain the "/" character'],
    ['a: {script: x, cache: [{}, {}, {}, {}, {}]}', 'jobs:a:cache config no more than 4 caches can be created'],
    ['a: {script: x, environment: {url: x}}', "jobs:a:environment name can't be blank"],
    ['a: {script: x, environment: {name: x, on_stop: b}}', 'a job: on_stop job b is not defined'],
    ['a: {trigger: {branch: x}}', 'jobs:a:trigger config should contain either a project or an include'],
    ['a: {script: x, image: {}}', 'jobs:a:image name should be a string'],
    ['a: {script: x, services: x}', 'jobs:a:services config should be a array'],
    ['a: {script: x, release: {description: x}}', "jobs:a:release tag name can't be blank"],
    ['variables: {A: {value: a, options: [b]}}\na: {script: x}', 'variables:a config value must be present in options'],
    ['variables: {A: [b]}\na: {script: x}', 'variables config should be a hash of key value pairs'],
    [
      'a: {script: x, variables: {A: {value: 1, options: [1]}}}',
      'jobs:a:variables:a config uses invalid data keys: options',
    ],
    ['workflow: {rules: [{when: manual}]}\na: {script: x}', 'workflow:rules:rule when should be one of: always, never'],
    ['workflow: x\na: {script: x}', 'workflow config should be a hash'],
    ['default: {script: x}\na: {script: x}', 'default config contains unknown keys: script'],
    ['a: {script: x, inherit: {default: [foo]}}', 'jobs:a:inherit:default config contains unknown values: foo'],
    ['a: {script: x, extends: b}', 'a: unknown keys in `extends` (b)'],
    ['a: {script: x, extends: b}\nb: {extends: a}', 'a: circular dependency detected in `extends`'],
    ['a: {script: !reference [b, c]}', '!reference ["b", "c"] could not be found'],
    [
      '.a: {script: [!reference [.b, script]]}\n.b: {script: [!reference [.a, script]]}\nc: {script: !reference [.a, script]}',
      '!reference [".b", "script"] is part of a circular chain',
    ],
    [`${'x'.repeat(256)}: {script: x}`, `jobs:${'x'.repeat(256)} name is too long (maximum is 255 characters)`],
    [`a: {script: x, tags: [${Array(50).fill('t')}]}`, 'jobs:a:tags config must be less than the limit of 50 tags'],
  ])('is named with its place: %s', async (text, message) => {
    expect((await errorsOf(text)).split('\n')).toContain(message);
  });

  it.each(['secrets', 'identity', 'publish', 'pages', 'run', 'manual_confirmation'])(
    'is to use what this hub does not have: %s',
    async (keyword) => {
      expect(await errorsOf(`a: {script: x, ${keyword}: {}}`)).toBe(`jobs:a:${keyword} is not supported`);
    },
  );

  it('does not hide the next one', async () => {
    expect((await errorsOf('a: {script: x, foo: 1, retry: 9}\nb: {script: 1}')).split('\n')).toEqual([
      'jobs:a config contains unknown keys: foo',
      'jobs:a:retry config must be less than or equal to 2',
      'jobs:b:script config should be a string or a nested array of strings up to 10 levels deep',
      "jobs:b script can't be blank",
    ]);
  });

  it('is to make more jobs, needs or dependencies with parallel than the hub can hold, or larger ones', async () => {
    const many = (count: number, keywords: string) =>
      Array.from({ length: count }, (_, n) => `j${n}: {script: x, parallel: 200${keywords}}`).join('\n');
    expect(await errorsOf(many(51, ''))).toBe(
      'The number of jobs has exceeded the limit of 10000. Try splitting the configuration with parent-child-pipelines',
    );
    const message = 'The jobs have more than 500000 needs and dependencies';
    expect(await errorsOf(many(50, ', dependencies: [j0]'))).toBe(message);
    expect(await errorsOf(`${many(14, ', needs: [first]')}\nfirst: {script: x, parallel: 190}`)).toBe(message);
    const large = 'The jobs are larger than 52428800 bytes together';
    const text = 'x'.repeat(6_000);
    expect(await errorsOf(`.a: {script: &s ${text}}\n${many(50, '').replaceAll('script: x', 'script: *s')}`)).toBe(
      large,
    );
    expect(await errorsOf(`variables: {A: ${text}}\n${many(50, '')}`)).toBe(large);
  });

  it('is to extend a large job too often', () => {
    const variables = Array.from({ length: 1_000 }, (_, n) => `V${n}: x`).join(', ');
    const jobs = Array.from({ length: 1_000 }, (_, n) => `j${n}: {extends: .a, variables: {A: x}}`).join('\n');
    const [file] = parseYaml(`.a: {script: x, variables: {${variables}}}\n${jobs}`).documents;
    const root = isMapping(file) ? file : new Map();
    expect(root.size).toBe(1_001);
    expect(thrownBy(() => resolveExtends(root))).toBe('The parsed YAML is too big');
  });

  it('is to need more than 50 jobs', async () => {
    const names = Array.from({ length: 51 }, (_, n) => `j${n}`);
    expect(
      await errorsOf(`${names.map((name) => `${name}: {script: x}`).join('\n')}\na: {script: x, needs: [${names}]}`),
    ).toBe(
      'a: one job can only need 50 others, but you have listed 51. See needs keyword documentation for more details',
    );
  });
});
