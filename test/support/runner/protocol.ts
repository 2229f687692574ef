import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** The features that the stock runner declares. */
const FEATURES = {
  variables: true,
  image: true,
  services: true,
  artifacts: true,
  cache: true,
  fallback_cache_keys: true,
  shared: true,
  upload_multiple_artifacts: true,
  upload_raw_artifacts: true,
  session: false,
  terminal: false,
  refspecs: true,
  masking: true,
  proxy: false,
  raw_variables: true,
  artifacts_exclude: true,
  multi_build_steps: true,
  trace_reset: true,
  trace_checksum: true,
  trace_size: true,
  vault_secrets: false,
  cancelable: true,
  return_exit_code: true,
  service_variables: true,
  service_multiple_aliases: true,
  image_executor_opts: true,
  service_executor_opts: true,
  cancel_gracefully: true,
  native_steps_integration: false,
  two_phase_job_commit: false,
};

export interface Variable {
  readonly key: string;
  readonly value: string;
  readonly public: boolean;
  readonly file: boolean;
  readonly masked: boolean;
  readonly raw: boolean;
}

export interface Step {
  readonly name: string;
  readonly script: readonly string[];
  readonly timeout: number;
  readonly when: 'on_success' | 'on_failure' | 'always';
  readonly allow_failure: boolean;
}

export interface ArtifactOrder {
  readonly name: string | null;
  readonly untracked: boolean;
  readonly paths: readonly string[];
  readonly exclude?: readonly string[];
  readonly when: 'on_success' | 'on_failure' | 'always';
  readonly expire_in: string | null;
  readonly artifact_type: string;
  readonly artifact_format: 'zip' | 'gzip' | 'raw';
}

export interface DependencyOrder {
  readonly id: number;
  readonly name: string;
  readonly token: string;
  readonly artifacts_file: { readonly filename: string; readonly size: number };
}

/** The part of a job's payload that this runner reads. */
export interface JobOrder {
  readonly id: number;
  readonly token: string;
  readonly git_info: {
    readonly repo_url: string;
    readonly ref: string;
    readonly sha: string;
    readonly before_sha: string;
    readonly refspecs: readonly string[];
    readonly depth: number;
  };
  readonly runner_info: { readonly timeout: number };
  readonly variables: readonly Variable[];
  readonly steps: readonly Step[];
  readonly artifacts: readonly ArtifactOrder[];
  readonly cache: readonly Readonly<Record<string, unknown>>[];
  readonly dependencies: readonly DependencyOrder[];
  readonly features: { readonly failure_reasons: readonly string[] };
  readonly [key: string]: unknown;
}

export interface RunnerOptions {
  readonly url: string;
  readonly token: string;
  readonly system_id?: string;
  readonly features?: Readonly<Record<string, boolean>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Answers after which the stock runner tries again. */
const RETRYABLE = new Set([408, 429, 500, 502, 503, 504]);
const MAX_TRIES = 5;

/** The calls of the runner protocol, as the stock runner makes them. */
export class Protocol {
  readonly options: RunnerOptions;
  lastUpdate = '';

  constructor(options: RunnerOptions) {
    this.options = options;
  }

  get info() {
    return {
      name: 'millrace-test-runner',
      version: '19.4.0',
      revision: 'abcdef01',
      platform: 'linux',
      architecture: 'amd64',
      executor: 'shell',
      shell: 'bash',
      features: { ...FEATURES, ...this.options.features },
      config: { gpus: '' },
    };
  }

  verify(): Promise<Reply> {
    return this.#json('POST', '/runners/verify', this.#ofRunner({ info: this.info }), {
      'runner-token': this.options.token,
    });
  }

  /** Asks once. Returns null if there is no job. */
  async request(signal?: AbortSignal): Promise<JobOrder | null> {
    const reply = await this.requestReply(signal);
    if (reply.status === 204) return null;
    if (reply.status !== 201) throw new Error(`the hub answered ${reply.status}: ${reply.text}`);
    if (reply.headers.get('content-type') !== 'application/json') throw new Error('the job would be lost: no JSON');
    return JSON.parse(reply.text);
  }

  async requestReply(signal?: AbortSignal): Promise<Reply> {
    const body = this.#ofRunner({ last_update: this.lastUpdate, info: this.info });
    const reply = await this.#json('POST', '/jobs/request', body, { 'runner-token': this.options.token }, signal);
    this.lastUpdate = reply.headers.get('x-gitlab-last-update') ?? this.lastUpdate;
    return reply;
  }

  update(job: Pick<JobOrder, 'id' | 'token'>, body: Readonly<Record<string, unknown>>): Promise<Reply> {
    return this.#json(
      'PUT',
      `/jobs/${job.id}`,
      { token: job.token, info: this.info, ...body },
      { 'job-token': job.token },
    );
  }

  /** Sends a part of the log. The range in the header has inclusive ends and no unit. */
  patch(
    job: Pick<JobOrder, 'id' | 'token'>,
    start: number,
    bytes: Uint8Array<ArrayBuffer>,
    { range = `${start}-${start + bytes.length - 1}`, debug = false } = {},
  ): Promise<Reply> {
    return this.send('PATCH', `/jobs/${job.id}/trace?debug_trace=${debug}`, () => bytes, {
      'job-token': job.token,
      'content-type': 'text/plain',
      'content-range': range,
    });
  }

  /** Sends a request, with a new body for each try, and waits as `RateLimit-ResetTime` or `Retry-After` say. */
  async send(
    method: string,
    path: string,
    body: () => BodyInit | null,
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<Reply> {
    for (let tries = 1; ; tries++) {
      const content = body();
      const response = await fetch(`${this.options.url}/api/v4${path}`, {
        method,
        headers: { 'x-request-id': randomUUID().replaceAll('-', ''), accept: 'application/json', ...headers },
        ...(content === null ? {} : { body: content }),
        ...(content instanceof ReadableStream ? { duplex: 'half' as const } : {}),
        ...(signal ? { signal } : {}),
      });
      const reply = { status: response.status, headers: response.headers, text: await response.text() };
      if (!RETRYABLE.has(reply.status) || tries >= MAX_TRIES) return reply;
      await sleep(waitOf(reply.headers));
    }
  }

  #ofRunner(rest: Readonly<Record<string, unknown>>) {
    const { token, system_id = 's_0123456789ab' } = this.options;
    return { token, system_id, ...rest };
  }

  #json(
    method: string,
    path: string,
    body: Readonly<Record<string, unknown>>,
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<Reply> {
    const type = { 'content-type': 'application/json' };
    return this.send(method, path, () => JSON.stringify(body), { ...type, ...headers }, signal);
  }
}

const waitOf = (headers: Headers): number => {
  const resetAt = Date.parse(headers.get('ratelimit-resettime') ?? '');
  if (!Number.isNaN(resetAt)) return Math.max(0, resetAt - Date.now());
  return Number(headers.get('retry-after') ?? '0.1') * 1_000;
};
