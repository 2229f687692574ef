import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { download, upload } from './files.ts';
import { JobLog } from './log.ts';
import { type JobOrder, Protocol, type RunnerOptions, type Step } from './protocol.ts';
import { environmentOf, run, scriptOf } from './shell.ts';

export interface RanJob {
  readonly job: JobOrder;
  readonly state: 'success' | 'failed' | 'aborted';
  readonly exit_code: number | null;
  /** The last answer to the report of the end. Null if the job was aborted. */
  readonly status: number | null;
}

interface Outcome {
  readonly state: 'success' | 'failed';
  readonly exit_code: number | null;
  readonly failure_reason: string | null;
}

const SUCCESS: Outcome = { state: 'success', exit_code: 0, failure_reason: null };
const systemFailure: Outcome = { state: 'failed', exit_code: null, failure_reason: 'runner_system_failure' };

/** How often the log is sent. The stock runner waits three seconds. */
const FLUSH_MS = 50;
const ALIVE_MS = 200;

/**
 * A runner with a shell. It does what the stock runner does (reference: ci §11): it asks for a job, clones the project
 * with the job's token, runs real scripts in a temporary folder, streams the log, and uploads artifacts.
 */
export class Runner {
  readonly protocol: Protocol;
  readonly ran: RanJob[] = [];
  readonly #abort = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: RunnerOptions) {
    this.protocol = new Protocol(options);
  }

  /** Asks for jobs and runs them, one after the other, until `stop`. */
  start(): this {
    this.#loop ??= this.#poll();
    return this;
  }

  /** Stops asking. A job in progress is killed. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#loop;
  }

  /** Runs jobs until the hub has none. Returns those that it ran. */
  async runAll(): Promise<RanJob[]> {
    const ran: RanJob[] = [];
    for (let one = await this.runOne(); one !== null; one = await this.runOne()) ran.push(one);
    return ran;
  }

  /** Asks once, without waiting for a job, and runs what it gets. */
  async runOne(): Promise<RanJob | null> {
    this.protocol.lastUpdate = '';
    const job = await this.protocol.request(this.#abort.signal);
    return job && this.run(job);
  }

  async #poll(): Promise<void> {
    while (!this.#abort.signal.aborted) {
      try {
        const job = await this.protocol.request(this.#abort.signal);
        if (job) await this.run(job);
      } catch (error) {
        if (!this.#abort.signal.aborted) throw error;
      }
    }
  }

  /** Runs a job that was handed out. */
  async run(job: JobOrder): Promise<RanJob> {
    const builds = await mkdtemp(join(tmpdir(), 'millrace-runner-'));
    const scripts = new AbortController();
    const everything = AbortSignal.any([scripts.signal, this.#abort.signal]);
    const log = new JobLog(this.protocol, job, () => scripts.abort());
    const flushing = setInterval(() => void log.flush(), FLUSH_MS);
    // A silent script is reported too. The stock runner does so every half minute.
    const alive = setInterval(() => void log.keepAlive(), ALIVE_MS);
    try {
      // Before anything else.
      await log.keepAlive();
      const outcome = await this.#execute(job, builds, log, everything);
      clearInterval(alive);
      const ran = await this.#report(job, log, outcome);
      this.ran.push(ran);
      return ran;
    } finally {
      clearInterval(flushing);
      clearInterval(alive);
      await rm(builds, { recursive: true, force: true });
    }
  }

  async #execute(job: JobOrder, builds: string, log: JobLog, signal: AbortSignal): Promise<Outcome> {
    const project = join(builds, 'project');
    await mkdir(project);
    const env = await environmentOf(job, { builds, project });
    const shell = { cwd: project, env, onOutput: (text: string) => log.write(text) };
    log.write('Running with millrace-test-runner 19.4.0\n');
    if (!(await this.#getSources(job, { ...shell, signal }, log))) return systemFailure;
    for (const dependency of job.dependencies) {
      const status = await download(this.protocol, dependency, project);
      log.write(`Downloading artifacts for ${dependency.name} (${dependency.id})... ${status}\n`);
      if (status !== 200) return systemFailure;
    }
    let outcome = SUCCESS;
    for (const step of job.steps.filter(({ name }) => name !== 'after_script')) {
      if (isDue(step, outcome)) outcome = await this.#step(job, step, { ...shell, signal }, outcome);
    }
    // It runs even after a cancellation that lets it, but not after an abort.
    const after = job.steps.find(({ name }) => name === 'after_script');
    if (after && log.stop !== 'aborted' && !this.#abort.signal.aborted) {
      const env = { ...shell.env, CI_JOB_STATUS: log.stop === 'canceling' ? 'canceled' : outcome.state };
      const own = AbortSignal.any([this.#abort.signal]);
      await run('bash', ['-c', scriptOf(after.script)], { ...shell, env, signal: own });
    }
    if (log.stop !== null || this.#abort.signal.aborted) return outcome;
    for (const order of job.artifacts) {
      if (order.when !== 'always' && order.when !== (outcome.state === 'success' ? 'on_success' : 'on_failure'))
        continue;
      const reply = await upload(this.protocol, job, project, order);
      log.write(`Uploading ${order.artifact_type}... ${reply?.status ?? 'no matching files'}\n`);
      if (reply && reply.status !== 201 && outcome.state === 'success') return systemFailure;
    }
    return outcome;
  }

  async #getSources(job: JobOrder, shell: Parameters<typeof run>[2], log: JobLog): Promise<boolean> {
    const strategy = shell.env.GIT_STRATEGY ?? 'fetch';
    if (strategy === 'none' || strategy === 'empty') return true;
    const { repo_url, refspecs, sha, depth } = job.git_info;
    log.write(`section_start:${Math.floor(Date.now() / 1_000)}:get_sources\r\u001b[0KFetching changes\n`);
    const steps = [
      ['init', '--quiet'],
      ['remote', 'add', 'origin', repo_url],
      ['fetch', '--quiet', ...(depth > 0 ? ['--depth', String(depth)] : []), 'origin', ...refspecs],
      ['checkout', '--quiet', '-f', sha],
    ];
    for (const args of steps) {
      // Nothing but the hub may answer git's questions.
      const env = { ...shell.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
      if ((await run('git', args, { ...shell, env })) !== 0) return false;
    }
    log.write(`section_end:${Math.floor(Date.now() / 1_000)}:get_sources\r\u001b[0K`);
    return true;
  }

  async #step(job: JobOrder, step: Step, shell: Parameters<typeof run>[2], before: Outcome): Promise<Outcome> {
    const timeout = AbortSignal.timeout(step.timeout * 1_000);
    const code = await run('bash', ['-c', scriptOf(step.script)], {
      ...shell,
      signal: AbortSignal.any([shell.signal, timeout]),
    });
    if (code === 0 || (step.allow_failure && code !== null)) return before;
    if (timeout.aborted) return { state: 'failed', exit_code: null, failure_reason: 'job_execution_timeout' };
    const reasons = job.features.failure_reasons;
    const failure_reason = reasons.includes('script_failure') ? 'script_failure' : null;
    return { state: 'failed', exit_code: code, failure_reason };
  }

  async #report(job: JobOrder, log: JobLog, outcome: Outcome): Promise<RanJob> {
    if (log.stop === 'aborted' || this.#abort.signal.aborted)
      return { job, state: 'aborted', exit_code: null, status: null };
    const canceled = log.stop === 'canceling';
    const { state, exit_code } = canceled ? { state: 'failed' as const, exit_code: null } : outcome;
    log.write(
      state === 'success'
        ? 'Job succeeded\n'
        : canceled
          ? 'ERROR: Job failed: canceled\n'
          : `ERROR: Job failed: exit code ${exit_code}\n`,
    );
    const failure_reason = canceled ? 'job_canceled' : outcome.failure_reason;
    const { status } = await log.finish({
      state,
      ...(exit_code === null ? {} : { exit_code }),
      ...(failure_reason === null ? {} : { failure_reason }),
    });
    return { job, state, exit_code, status };
  }
}

const isDue = ({ when }: Step, { state }: Outcome): boolean =>
  when === 'always' || when === (state === 'success' ? 'on_success' : 'on_failure');
