import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { toJson } from '#domains/ci-config/values.ts';
import { parseYaml } from '#domains/ci-config/yaml.ts';
import { remoteOf } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import type { Answer } from '../support/client.ts';
import { runGit } from '../support/git.ts';

/**
 * Compares what this hub makes of CI files with gitlab-ci-local, an interpreter that others wrote. It differs on purpose
 * in these points, where the hub follows the reference (ci §1):
 *
 * - It names jobs of `parallel` differently, and a need of such jobs once for all of them.
 * - It gives `when: never` for jobs that rules leave out, and ignores `only` and `except`.
 * - It counts `before_script: []` of a job as absent.
 * - It does not let manual jobs outside rules fail.
 * - It lists `allow_failure:exit_codes` as written. Without such a code, the job must not fail.
 * - It turns numbers in variables into texts when it merges, the hub when it makes jobs.
 *
 * Everything else must be equal: jobs, stages, when, allow_failure, needs, scripts, variables.
 */
const app = useApp();
const run = promisify(execFile);
const CORPUS = join(import.meta.dirname, 'corpus');
const program = join(dirname(createRequire(import.meta.url).resolve('gitlab-ci-local/package.json')), 'dist/index.js');
const files = (await readdir(CORPUS)).filter((name) => name.endsWith('.yml'));
const OPTIONS = ['--list-json', '--preview'] as const;
type Option = (typeof OPTIONS)[number];

const listed = z.array(
  z.object({
    name: z.string(),
    stage: z.string(),
    when: z.string(),
    allow_failure: z.union([z.boolean(), z.unknown()]),
    needs: z.array(z.object({ job: z.string(), artifacts: z.boolean(), optional: z.boolean() })).nullish(),
  }),
);
const script = z.union([z.string(), z.array(z.unknown())]).optional();
const previewed = z.record(z.string(), z.unknown());
const previewedJob = z.object({
  script,
  before_script: script,
  after_script: script,
  variables: z.record(z.string(), z.unknown()).optional(),
});

let folder = '';
let tree = '';
let lint: (options: object) => Promise<Answer>;
/** What gitlab-ci-local makes of each file, by file and option. */
const interpreted = new Map<string, z.output<typeof ended>>();
const ended = z.object({ code: z.number(), stdout: z.string(), stderr: z.string() });
// One project for all files: a push of each costs more than comparing it.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-corpus-'));
  tree = join(folder, 'tree');
  await mkdir(tree);
  await cp(CORPUS, tree, { recursive: true });
  await runGit(tree, 'init', '-q', '-b', 'main');
  await runGit(tree, 'add', '.');
  await runGit(tree, 'commit', '-qm', 'Add CI files');
  const owner = await app().make.user();
  const project = await app().make.project({}, owner);
  await runGit(tree, 'push', '-q', await remoteOf(app(), project, owner), 'main');
  await runGit(tree, 'remote', 'add', 'origin', 'git@git.example.org:group/project.git');
  lint = (options) =>
    app()
      .as(owner)
      .post(`/projects/${project.id}/ci/lint`, { include_jobs: true, ...options });
  await interpret();
});

/** Lets gitlab-ci-local interpret all files, in one process. */
const interpret = async (): Promise<void> => {
  const runs = files.flatMap((file) => OPTIONS.map((option) => ({ file, option })));
  const options = runs.map(({ file, option }) => {
    const state = join(folder, `state-${file}`);
    return JSON.stringify([option, '--file', file, '--state-dir', state, '--json-schema-validation=false']);
  });
  const script = join(import.meta.dirname, 'interpret.ts');
  const { stdout } = await run(process.execPath, ['--experimental-vm-modules', script, program, ...options], {
    cwd: tree,
    maxBuffer: 16 * 1024 * 1024,
  });
  const results = z.array(ended).length(runs.length).parse(JSON.parse(stdout));
  for (const [n, { file, option }] of runs.entries()) {
    const result = results[n];
    if (result) interpreted.set(`${file} ${option}`, result);
  }
};
afterAll(() => rm(folder, { recursive: true, force: true }));

/** `test: [1/3]` is `test 1/3` here, and `test: [a,b]` is `test: [a, b]`. */
const nameHere = (name: string): string =>
  name
    .replace(/: \[(\d+\/\d+)\]$/, ' $1')
    .replace(/: \[(.*)\]$/, (_, values: string) => `: [${values.replaceAll(',', ', ')}]`);
/** The name in the file of a job that may be one of several. */
const nameInFile = (name: string): string => name.replace(/ \d+\/\d+$|: \[.*\]$/, '');

const need = z.object({ name: z.string(), artifacts: z.boolean(), optional: z.boolean() });

/** The compared fields of a listed job. */
const compared = (job: {
  readonly name: string;
  readonly stage: string;
  readonly when: string;
  readonly allow_failure?: unknown;
  readonly needs: readonly z.output<typeof need>[] | null;
}) => ({
  name: job.name,
  stage: job.stage,
  when: job.when,
  allow_failure: job.when === 'manual' ? null : job.allow_failure === true,
  needs: job.needs && Object.fromEntries(job.needs.map(({ name, ...rest }) => [nameInFile(name), rest])),
});
const simulatedJobs = z.array(listed.element.extend({ needs: z.array(need).nullish() }));
const asTexts = (variables: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(variables).map(([key, value]) => [key, String(value)]));
const lines = (value: z.output<typeof script>): string[] => [value ?? []].flat(10).map(String);

describe('a CI file means the same as to gitlab-ci-local', () => {
  it.each(files)('%s', async (file) => {
    const theirs = (option: Option): string => {
      const result = interpreted.get(`${file} ${option}`);
      expect(result).toMatchObject({ code: 0 });
      // Warnings come first.
      const start = option === '--preview' ? '---' : '[';
      const lines = (result?.stdout ?? '').split('\n');
      return lines.slice(lines.findIndex((line) => line.startsWith(start))).join('\n');
    };
    const content = await readFile(join(tree, file), 'utf8');
    const { body: simulated } = await lint({ content, dry_run: true });
    expect(simulated.errors).toEqual([]);

    const expected = listed.parse(JSON.parse(theirs('--list-json'))).filter(({ when }) => when !== 'never');
    const byName = (jobs: readonly { name: string }[]) => Object.fromEntries(jobs.map((job) => [job.name, job]));
    expect(
      byName(simulatedJobs.parse(simulated.jobs).map((job) => compared({ ...job, needs: job.needs ?? null }))),
    ).toEqual(
      byName(
        expected.map((job) =>
          compared({
            ...job,
            name: nameHere(job.name),
            needs: job.needs?.map(({ job: name, ...rest }) => ({ name: nameHere(name), ...rest })) ?? null,
          }),
        ),
      ),
    );

    const preview = previewed.parse(toJson(parseYaml(theirs('--preview')).documents[0] ?? null));
    const { body: checked } = await lint({ content });
    const merged = previewed.parse(toJson(parseYaml(checked.merged_yaml).documents[0] ?? null));
    for (const job of checked.jobs) {
      const base = nameInFile(job.name);
      const other = previewedJob.parse(preview[base]);
      expect([base, [...job.before_script, ...job.script], job.after_script]).toEqual([
        base,
        [...lines(other.before_script), ...lines(other.script)],
        lines(other.after_script),
      ]);
      const own = previewedJob.parse(merged[base]).variables ?? {};
      expect([base, asTexts(own)]).toEqual([base, asTexts(other.variables ?? {})]);
    }
  });
});
