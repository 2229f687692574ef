import { formatOf, isFileType } from '#domains/artifacts/model.ts';
import { FAILURE_REASONS } from '#domains/ci/failures.ts';
import { secondsBetween } from '#domains/ci/model.ts';
import type { Cache, CompiledJob, FileVariable, Image, JobArtifacts, Service } from '#domains/ci-config/model.ts';
import { httpUrlToRepo } from '#domains/projects/model.ts';
import type { RunnerFacts } from '#domains/runners/tokens.ts';
import type { Context } from '#platform/context.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { cacheKeys } from './cache-keys.ts';
import type { JobToRun } from './job-to-run.ts';
import { releaseScript } from './release-step.ts';
import { type PayloadVariable, variablesOfJob, withCredential } from './variables.ts';

/** Seconds. The default of a runner if the job names none. */
const SHORTEST_TIMEOUT = 1;

/** Returns how long the job may run, in seconds: the job's own limit or the project's, but at most the runner's. */
export const timeoutOf = ({ project, options }: JobToRun, facts: RunnerFacts): number =>
  Math.max(
    SHORTEST_TIMEOUT,
    Math.min(options.timeout ?? project.build_timeout, facts.maximum_timeout ?? Number.POSITIVE_INFINITY),
  );

/** The prefixes of tokens, which runners hide in logs. */
const TOKEN_PREFIXES = ['glpat-', 'glrt-', 'glcbt-', 'gloas-', 'glft-', 'gldt-', 'glptt-'];

export type JobPayload = Readonly<Record<string, unknown>> & {
  readonly id: number;
  readonly token: string;
  readonly variables: readonly PayloadVariable[];
};

/** Returns all that a runner needs to run the job (reference: ci §4, neighbours G). */
export const payloadOf = async (
  ctx: Context,
  run: JobToRun,
  hand: {
    readonly facts: RunnerFacts;
    readonly token: string;
    readonly timeout: number;
    /** The platform of the machine: `linux`, `windows`. */
    readonly platform: string | undefined;
  },
): Promise<JobPayload> => {
  const { job, options, project, dependencies } = run;
  const variables = await variablesOfJob(ctx, run, hand);
  const read = (key: string) => variables.findLast((variable) => variable.key === key)?.value;
  return {
    id: job.id,
    token: hand.token,
    allow_git_fetch: project.build_git_strategy === 'fetch',
    job_info: {
      id: job.id,
      name: job.name,
      stage: job.stage ?? options.stage,
      project_id: project.id,
      project_name: project.name,
      project_full_path: project.full_path,
      pipeline_id: run.pipeline.id,
      user_id: job.user_id,
      // Runners report it in their metrics.
      time_in_queue_seconds: secondsBetween(job.queued_at, ctx.clock.now().toISOString()) ?? 0,
    },
    git_info: gitInfo(ctx, run, hand.token, read),
    runner_info: { timeout: hand.timeout, runner_session_url: null },
    inputs: [],
    variables,
    steps: stepsOf(options, hand.timeout, hand.platform),
    hooks:
      options.hooks.pre_get_sources_script.length === 0
        ? []
        : [{ name: 'pre_get_sources_script', script: options.hooks.pre_get_sources_script }],
    image: options.image ? imageOf(options.image) : null,
    services: options.services.map(serviceOf),
    artifacts: options.artifacts ? artifactsOf(options.artifacts) : [],
    cache: await Promise.all(options.caches.map((cache) => cacheOf(ctx, run, cache))),
    credentials: [],
    dependencies: dependencies.flatMap(({ id, name, archive }) =>
      archive === null ? [] : [{ id, name, token: hand.token, artifacts_file: archive }],
    ),
    features: {
      trace_sections: true,
      token_mask_prefixes: TOKEN_PREFIXES,
      failure_reasons: FAILURE_REASONS,
    },
  };
};

const DEPTH_OF_ALL = 0;

const gitInfo = (
  ctx: Context,
  { job, project, pipeline, checkout }: JobToRun,
  token: string,
  read: (key: string) => string | undefined,
) => {
  const ref = pipeline.ref ?? job.ref ?? '';
  const wanted = read('GIT_DEPTH');
  const depth = wanted && /^\d{1,9}$/.test(wanted) ? Number(wanted) : (project.ci_default_git_depth ?? DEPTH_OF_ALL);
  const { ref: full, own_ref: own, existing } = checkout;
  const ofRef = full.startsWith('refs/heads/') ? [`+${full}:refs/remotes/origin/${ref}`] : [`+${full}:${full}`];
  const ofAll = ['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*'];
  const others = depth === DEPTH_OF_ALL ? ofAll : existing.has(full) ? ofRef : [];
  return {
    repo_url: withCredential(httpUrlToRepo(ctx, project), token),
    ref,
    sha: pipeline.sha,
    before_sha: pipeline.before_sha ?? ZERO_OID,
    ref_type: job.tag ? 'tag' : 'branch',
    // The first keeps the commit reachable after the branch has moved.
    refspecs: [...(existing.has(own) ? [`+${own}:${own}`] : []), ...others],
    depth,
    repo_object_format: 'sha1',
    protected: job.protected,
  };
};

/** `before_script` and `script` are one step. `release` follows if they succeed, `after_script` in any case. */
const stepsOf = (options: CompiledJob, timeout: number, platform: string | undefined) => [
  { name: 'script', script: options.script, timeout, when: 'on_success', allow_failure: false },
  ...(options.release
    ? [
        {
          name: 'release',
          script: releaseScript(options.release, platform),
          timeout,
          when: 'on_success',
          allow_failure: false,
        },
      ]
    : []),
  ...(options.after_script.length === 0
    ? []
    : [{ name: 'after_script', script: options.after_script, timeout, when: 'always', allow_failure: true }]),
];

const imageOf = ({ name, entrypoint, pull_policy, executor_opts }: Image) => ({
  name,
  entrypoint,
  ports: [],
  pull_policy,
  executor_opts,
});

const serviceOf = ({ alias, command, variables, ...image }: Service) => ({
  ...imageOf(image),
  alias,
  command,
  variables: variables.map(toServiceVariable),
});

const toServiceVariable = ({ key, value, raw }: FileVariable): PayloadVariable => ({
  key,
  value,
  raw,
  public: true,
  file: false,
  masked: false,
});

/** The archive, and each report. Reports are sent even if the job failed. */
const artifactsOf = ({ name, paths, exclude, untracked, when, expire_in, reports }: JobArtifacts) => [
  ...(paths.length > 0 || untracked
    ? [
        {
          ...{ name, untracked, paths, when, expire_in },
          ...(exclude.length === 0 ? {} : { exclude }),
          artifact_type: 'archive',
          artifact_format: 'zip',
        },
      ]
    : []),
  ...Object.entries(reports).map(([type, reportPaths]) => ({
    name: REPORT_NAMES[type] ?? `gl-${type.replaceAll('_', '-')}-report.json`,
    untracked: false,
    paths: reportPaths,
    when: 'always',
    expire_in,
    artifact_type: type,
    artifact_format: isFileType(type) ? formatOf(type) : 'raw',
  })),
];

/** The names that files of reports are known by. */
const REPORT_NAMES: Readonly<Record<string, string>> = {
  junit: 'junit.xml',
  dotenv: '.env',
  metrics: 'metrics.txt',
  cobertura: 'cobertura-coverage.xml',
  jacoco: 'jacoco-coverage.xml',
  terraform: 'tfplan.json',
  lsif: 'lsif.json',
  codequality: 'gl-code-quality-report.json',
  accessibility: 'gl-accessibility.json',
  performance: 'performance.json',
  browser_performance: 'browser-performance.json',
  load_performance: 'load-performance.json',
  cyclonedx: 'gl-sbom.cdx.json',
};

const cacheOf = async (ctx: Context, run: JobToRun, cache: Cache) => {
  const { paths, untracked, policy, when } = cache;
  const { key, fallback_keys } = await cacheKeys(ctx, run, cache);
  return {
    ...{ key, untracked, paths, policy, when },
    ...(fallback_keys.length === 0 ? {} : { fallback_keys }),
  };
};
