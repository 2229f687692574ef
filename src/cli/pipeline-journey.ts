import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { Runner } from '../../test/support/runner/runner.ts';
import { Api } from './api.ts';
import type { Step, Steps } from './progress.ts';
import { push } from './source-repository.ts';

export interface PipelineJourneyOptions {
  readonly url: string;
  readonly adminToken: string;
  /** A directory for the repository and the artifact. */
  readonly scratch: string;
  readonly steps: Steps;
}

const CI_FILE = `stages: [build, test]

compile:
  stage: build
  script:
    - mkdir out
    - echo "Built $CI_COMMIT_SHORT_SHA in job $CI_JOB_ID" > out/report.txt
  artifacts:
    paths: [out/]

check:
  stage: test
  script:
    - grep "$CI_COMMIT_SHORT_SHA" out/report.txt
`;

const REPORT = /^Built [0-9a-f]{8} in job \d+\n$/;
const POLL_MS = 100;
const TIMEOUT_MS = 120_000;

const project = z.object({ id: z.number(), path_with_namespace: z.string() });
const runner = z.object({ token: z.string() });
const pipeline = z.object({ id: z.number(), status: z.string(), web_url: z.string() });
const job = z.object({ id: z.number(), name: z.string(), stage: z.string(), status: z.string() });

const run = promisify(execFile);

/** Pushes a CI file with two stages, lets a runner of its own run the pipeline, and downloads an artifact. */
export class PipelineJourney {
  readonly #options: PipelineJourneyOptions;
  readonly #api: Api;
  #url = '';

  constructor(options: PipelineJourneyOptions) {
    this.#options = options;
    this.#api = new Api(options.url, options.adminToken);
  }

  async travel(): Promise<void> {
    const { steps, url, adminToken, scratch } = this.#options;
    const { id, path_with_namespace } = await steps.run('Create a project', () =>
      this.#api.rest(project, 'POST', '/projects', { name: 'pipelines' }),
    );
    const { token } = await steps.run('Create a runner and start it', () =>
      this.#api.rest(runner, 'POST', '/user/runners', { runner_type: 'instance_type', description: 'demo' }),
    );
    const demoRunner = new Runner({ url, token }).start();
    try {
      await steps.run('Push a CI file with two stages', async () => {
        const directory = await this.#commitFile(join(scratch, 'pipelines'));
        await push({ directory, commits: 1 }, `${url}/${path_with_namespace}.git`, adminToken, 'main');
      });
      const jobs = await steps.run(
        'Watch the pipeline',
        (step) => this.#watch(id, step),
        (ended) => ended.map(({ name, status }) => `${name} ${status}`).join(', '),
      );
      const compiled = jobs.find(({ name }) => name === 'compile');
      const file = join(scratch, 'report.txt');
      await steps.run(
        'Download an artifact',
        async () => {
          await this.#api.download(`/projects/${id}/jobs/${compiled?.id}/artifacts/out/report.txt`, file);
          const report = await readFile(file, 'utf8');
          if (!REPORT.test(report)) throw new Error(`the artifact is not what the job wrote: ${report}`);
          return report;
        },
        (report) => report.trim(),
      );
    } finally {
      await demoRunner.stop();
    }
  }

  /** Returns links to look at afterwards. */
  links(): [label: string, url: string][] {
    return [['Pipeline', this.#url]];
  }

  async #commitFile(directory: string): Promise<string> {
    await mkdir(directory);
    await writeFile(join(directory, '.gitlab-ci.yml'), CI_FILE);
    const git = (...args: string[]) => run('git', ['-C', directory, ...args]);
    await git('init', '--quiet', '--initial-branch=main');
    await git('add', '.');
    const author = ['-c', 'user.name=Ada Lovelace', '-c', 'user.email=ada@example.com'];
    await git(...author, 'commit', '--quiet', '-m', 'Build and check');
    return directory;
  }

  /** Shows the jobs until the pipeline has succeeded. */
  async #watch(projectId: number, step: Step): Promise<readonly z.output<typeof job>[]> {
    const deadline = performance.now() + TIMEOUT_MS;
    for (;;) {
      const [newest] = await this.#api.rest(z.array(pipeline), 'GET', `/projects/${projectId}/pipelines`);
      const jobs = newest
        ? await this.#api.rest(z.array(job), 'GET', `/projects/${projectId}/pipelines/${newest.id}/jobs`)
        : [];
      const ended = jobs.filter(({ status }) => status === 'success').length;
      step.progress(jobs.length === 0 ? null : (100 * ended) / jobs.length, shownJobs(jobs));
      if (newest?.status === 'success') {
        this.#url = `${this.#api.url}/api/v4/projects/${projectId}/pipelines/${newest.id}`;
        return jobs;
      }
      if (newest?.status === 'failed' || performance.now() > deadline) {
        throw new Error(`the pipeline did not succeed: ${shownJobs(jobs)}`);
      }
      await sleep(POLL_MS);
    }
  }
}

const shownJobs = (jobs: readonly z.output<typeof job>[]): string =>
  jobs.map(({ stage, name, status }) => `${stage}: ${name} ${status}`).join(', ');
