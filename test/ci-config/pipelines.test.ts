import { describe, expect, it } from 'vitest';
import type { PipelineFacts } from '#domains/ci-config/build-pipeline.ts';
import { build, errorsOf, jobsOf } from './support.ts';

const names = async (text: string, facts?: Partial<PipelineFacts>): Promise<string[]> =>
  (await build(text, facts)).pipeline.jobs.map(({ name }) => name);

const MERGE_REQUEST: Partial<PipelineFacts> = {
  source: 'merge_request_event',
  merge_request: true,
  ref: 'feature',
  predefined: [
    { key: 'CI_PIPELINE_SOURCE', value: 'merge_request_event' },
    { key: 'CI_MERGE_REQUEST_IID', value: '1' },
  ],
};

describe('rules', () => {
  it('take the first that matches, and leave out jobs without one', async () => {
    const jobs = await jobsOf(`
      first: {script: x, rules: [{if: $NONE, when: never}, {if: $CI_COMMIT_BRANCH, when: always}, {when: manual}]}
      none: {script: x, rules: [{if: $NONE}]}
      never: {script: x, rules: [{when: never}]}
      empty: {script: x, rules: []}
    `);
    expect(Object.entries(jobs).map(([name, { when }]) => [name, when])).toEqual([['first', 'always']]);
  });

  it('change the content of the job', async () => {
    const jobs = await jobsOf(`
      variables: {A: root, B: root}
      job:
        script: x
        variables: {A: job}
        rules:
          - if: $A == "job" && $B == "root"
            variables: {A: rule, C: rule}
            when: delayed
            start_in: 1 hour
            allow_failure: {exit_codes: 2}
            interruptible: true
            needs: [{job: other, artifacts: false}]
      other: {script: x}
      manual: {script: x, rules: [{when: manual}]}
      open: {script: x, when: manual, rules: [{if: $A}]}
      lax: {script: x, allow_failure: true, rules: [{if: $A}]}
    `);
    expect(jobs.job).toMatchObject({
      when: 'delayed',
      start_in: 3_600,
      allow_failure: false,
      allow_failure_exit_codes: [2],
      interruptible: true,
      needs: [{ name: 'other', artifacts: false, optional: false }],
      variables: [
        { key: 'A', value: 'rule' },
        { key: 'B', value: 'root' },
        { key: 'C', value: 'rule' },
      ],
    });
    expect(jobs.manual).toMatchObject({ when: 'manual', allow_failure: false });
    expect(jobs.open).toMatchObject({ when: 'manual', allow_failure: true });
    expect(jobs.lax).toMatchObject({ when: 'on_success', allow_failure: true });
  });

  it('see variables of the project over those of the file, and those over predefined ones', async () => {
    const text = `
      variables: {CI_COMMIT_BRANCH: file, X: file}
      a: {script: x, rules: [{if: $CI_COMMIT_BRANCH == "file"}]}
      b: {script: x, rules: [{if: $X == "project"}]}
      c: {script: x, variables: {Y: "$X!"}, rules: [{if: $Y == "project!"}]}
      d: {script: x, parallel: 2, rules: [{if: $CI_NODE_INDEX == "2"}]}
      e: {script: x, rules: [{if: $CI_JOB_NAME =~ /^e$/}]}
    `;
    expect(await names(text, { variables: [{ key: 'X', value: 'project' }] })).toEqual(['a', 'b', 'c', 'd 2/2', 'e']);
  });

  it('are not needed for the variables of jobs to be free of circles', async () => {
    const circle = 'variables: {A: $B, B: $C, C: c}\njob: {script: x, variables: {C: $A}}\nother: {script: x}';
    expect(await errorsOf(circle)).toBe('job: circular variable reference detected: ["A","B","C"]');
    const given = (value: string) => ({ variables: [{ key: 'C', value }] });
    expect(await errorsOf(circle, given('fixed $$A'))).toBe('');
    expect(await errorsOf(circle, given('$B'))).toContain('circular');
    expect(await errorsOf('variables: {A: a}\njob: {script: x, variables: {A: $A, B: $A$CI_COMMIT_BRANCH}}')).toBe('');
  });

  it('ask for changes and files with variables in paths', async () => {
    const asked: unknown[] = [];
    const conditions: PipelineFacts['conditions'] = {
      changes: async (clause) => {
        asked.push(clause);
        return clause.paths.includes('docs/main/*');
      },
      exists: async (clause) => {
        asked.push(clause);
        return clause.paths.includes('Dockerfile');
      },
    };
    expect(
      await names(
        `
        a: {script: x, rules: [{changes: ["docs/$CI_COMMIT_BRANCH/*"]}]}
        b: {script: x, rules: [{changes: {paths: [src], compare_to: main}}]}
        c: {script: x, rules: [{exists: [Dockerfile]}]}
        d: {script: x, rules: [{exists: {paths: [x], project: g/p, ref: v1}}]}
        e: {script: x, only: {changes: ["docs/main/*"]}}
        f: {script: x, except: {changes: ["docs/main/*"]}}
      `,
        { conditions },
      ),
    ).toEqual(['a', 'c', 'e']);
    expect(asked).toContainEqual({ paths: ['src'], compare_to: 'main' });
    expect(asked).toContainEqual({ paths: ['x'], project: 'g/p', ref: 'v1' });
  });
});

describe('workflow', () => {
  it('decides whether there is a pipeline', async () => {
    const text = 'workflow: {rules: [{if: $CI_COMMIT_BRANCH == "x"}]}\na: {script: x}';
    expect((await build(text)).excluded_by).toBe('workflow');
    const { pipeline, excluded_by } = await build(
      `
      workflow:
        name: 'Pipeline for $CI_COMMIT_BRANCH $NONE'
        auto_cancel: {on_new_commit: interruptible}
        rules: [{if: $CI_COMMIT_BRANCH, variables: {A: workflow}, auto_cancel: {on_job_failure: all}}]
      variables: {A: root}
      a: {script: x, rules: [{if: $A == "workflow"}]}
    `,
    );
    expect(excluded_by).toBeNull();
    expect(pipeline).toMatchObject({
      name: 'Pipeline for main',
      auto_cancel: { on_new_commit: 'interruptible', on_job_failure: 'all' },
      jobs: [{ name: 'a', variables: [{ key: 'A', value: 'workflow' }] }],
    });
  });

  it('has no pipeline if only .pre and .post would have jobs', async () => {
    expect((await build('a: {script: x, stage: .pre}\nb: {script: x, stage: .post}')).excluded_by).toBe('rules');
    expect(await names('a: {script: x, stage: .pre}\nb: {script: x}')).toEqual(['a', 'b']);
  });

  it('warns about rules that may start two pipelines for one push', async () => {
    const { readFile } = await import('#domains/ci-config/keywords/file.ts');
    const { parseYaml } = await import('#domains/ci-config/yaml.ts');
    const { isMapping } = await import('#domains/ci-config/values.ts');
    const [root] = parseYaml('a: {script: x, rules: [{when: always}]}').documents;
    if (!isMapping(root)) throw new Error('not a mapping');
    const read = readFile(root);
    expect(read.errors === null && read.file.warnings).toEqual([
      'jobs:a may allow multiple pipelines to run for a single action due to `rules:when` clause with no `workflow:rules`',
    ]);
  });
});

describe('only and except', () => {
  const text = `
    plain: {script: x}
    main: {script: x, only: [main]}
    regex: {script: x, only: ["/^feat/i"]}
    tags: {script: x, only: [tags]}
    branches: {script: x, only: {refs: [branches]}}
    requests: {script: x, only: [merge_requests]}
    schedules: {script: x, only: [schedules]}
    noMain: {script: x, except: [main]}
    ours: {script: x, only: [main@group/project]}
    theirs: {script: x, only: [main@group/other]}
    variable: {script: x, only: {variables: [$X == "1"]}}
    unless: {script: x, except: {variables: [$X]}}
  `;
  it.each<[string, Partial<PipelineFacts>, string[]]>([
    ['a branch', {}, ['plain', 'main', 'branches', 'ours', 'unless']],
    ['another branch', { ref: 'Feature' }, ['plain', 'regex', 'branches', 'noMain', 'unless']],
    ['a tag', { ref: 'v1', tag: true }, ['plain', 'tags', 'noMain', 'unless']],
    ['a schedule', { source: 'schedule' }, ['plain', 'main', 'branches', 'schedules', 'ours', 'unless']],
    ['a merge request', MERGE_REQUEST, ['requests']],
    ['a variable', { variables: [{ key: 'X', value: '1' }] }, ['plain', 'main', 'branches', 'ours', 'variable']],
  ])('select jobs for %s', async (_, facts, expected) => {
    expect(await names(text, facts)).toEqual(expected);
  });

  it('have no default if the workflow has rules', async () => {
    expect(await names('workflow: {rules: [{when: always}]}\na: {script: x}', MERGE_REQUEST)).toEqual(['a']);
  });
});
