import type { GivenVariable } from '#domains/ci/given-variables.ts';
import { jobVariables } from '#domains/ci/predefined.ts';
import { userVariables } from '#domains/ci/user-variables.ts';
import { environmentVariables } from '#domains/environments/model.ts';
import { httpUrlToRepo } from '#domains/projects/model.ts';
import type { RunnerFacts } from '#domains/runners/tokens.ts';
import type { Context } from '#platform/context.ts';
import { signIdTokens } from './id-tokens.ts';
import type { JobToRun } from './job-to-run.ts';

/** A variable of the payload. */
export interface PayloadVariable {
  readonly key: string;
  readonly value: string;
  /** False for what no report may show. */
  readonly public: boolean;
  readonly file: boolean;
  readonly masked: boolean;
  readonly raw: boolean;
}

const shown = (key: string, value: string | number | boolean): PayloadVariable => ({
  key,
  value: String(value),
  public: true,
  file: false,
  masked: false,
  raw: false,
});

const secret = (key: string, value: string): PayloadVariable => ({ ...shown(key, value), public: false, masked: true });

const hidden = ({ key, value, file, raw }: GivenVariable): PayloadVariable => ({
  ...{ key, value, file, raw },
  public: false,
  masked: false,
});

/** Returns all variables of a job, lowest precedence first: the last of a name counts (reference: ci §1). */
export const variablesOfJob = async (
  ctx: Context,
  run: JobToRun,
  { facts, token, timeout }: { readonly facts: RunnerFacts; readonly token: string; readonly timeout: number },
): Promise<PayloadVariable[]> => {
  const { options, checkout, given } = run;
  return [
    // Commit messages and the like are data, not templates.
    ...checkout.predefined.map(({ key, value }) => ({ ...shown(key, value), raw: true })),
    ...ofJob(ctx, run, token, timeout),
    shown('CI_RUNNER_ID', facts.id),
    shown('CI_RUNNER_DESCRIPTION', facts.description),
    shown('CI_RUNNER_TAGS', JSON.stringify(facts.tags)),
    ...options.variables.map(({ key, value, raw }) => ({ ...shown(key, value), raw })),
    ...ofUser(run),
    ...given.dotenv.map(hidden),
    ...run.variables.map((variable) => ({ ...variable, public: false })),
    ...given.pipeline.map(hidden),
    ...given.manual.map(hidden),
    ...(await signIdTokens(ctx, run, { facts, timeout })).map(({ key, value }) => secret(key, value)),
  ];
};

const ofJob = (
  ctx: Context,
  { job, project, pipeline, options, tier }: JobToRun,
  token: string,
  timeout: number,
): PayloadVariable[] => {
  const { environment: name } = job;
  return [
    ...jobVariables(ctx, job, options).map(({ key, value }) => shown(key, value)),
    secret('CI_JOB_TOKEN', token),
    // The row was read before the job was handed out.
    shown('CI_JOB_STARTED_AT', ctx.clock.now().toISOString()),
    shown('CI_JOB_TIMEOUT', timeout),
    ...(pipeline.source === 'trigger' ? [shown('CI_PIPELINE_TRIGGERED', true)] : []),
    secret('CI_REPOSITORY_URL', withCredential(httpUrlToRepo(ctx, project), token)),
    ...(name === null || tier === null
      ? []
      : environmentVariables({ name, tier }, options.environment).map(({ key, value }) => shown(key, value))),
    ...(name !== null && options.environment?.url ? [shown('CI_ENVIRONMENT_URL', options.environment.url)] : []),
  ];
};

/** Puts the job's token into the URL, as git reads it. */
export const withCredential = (url: string, token: string): string => {
  const parsed = new URL(url);
  parsed.username = 'gitlab-ci-token';
  parsed.password = token;
  return parsed.href;
};

const ofUser = ({ user }: JobToRun): PayloadVariable[] =>
  userVariables(user).map(({ key, value }) => ({
    ...shown(key, value),
    raw: true,
    public: key !== 'GITLAB_USER_EMAIL',
  }));
