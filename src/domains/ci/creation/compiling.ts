import { compileFile, findMissingFile } from '#domains/ci-config/compile.ts';
import { ConfigError } from '#domains/ci-config/config-error.ts';
import type { CompiledJob, CompileInput, CompileResult, Variable } from '#domains/ci-config/model.ts';
import { expandText, MAX_NAME, valuesOf } from '#domains/ci-config/variables.ts';
import { variablesFor } from '#domains/ci-variables/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import type { PipelineSource } from '../model.ts';
import { compiledJobVariables, predefinedVariables } from '../predefined.ts';
import { readUserVariables } from '../user-variables.ts';
import { artifactReader } from './artifact-files.ts';
import type { PipelineVariable, PlannedJob } from './insert.ts';
import type { Target } from './target.ts';

export interface CompileRequest {
  readonly source: PipelineSource;
  readonly before_sha?: string | null | undefined;
  readonly variables?: readonly PipelineVariable[] | undefined;
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
  /** The inputs come from push options or a form, which have nothing but texts. */
  readonly inputs_are_texts?: boolean | undefined;
  readonly content?: string | undefined;
  readonly include?: readonly unknown[] | undefined;
  /** The pipeline whose jobs made the files of `include:artifact`. */
  readonly parent_id?: number | undefined;
}

export interface Compiled {
  readonly result: CompileResult;
  /** Those of the result. */
  readonly jobs: readonly PlannedJob[];
}

/** Lowest precedence first. Jobs put their own variables between the two. */
interface PipelineVariables {
  readonly predefined: readonly Variable[];
  readonly variables: readonly Variable[];
}

/** Compiles the CI file of the project for the target. */
export const compileFor = async (
  ctx: Context,
  project: ProjectRow,
  request: CompileRequest,
  target: Target,
): Promise<Compiled> => {
  if (request.content === undefined && request.include === undefined) {
    // Most projects have no CI file. The variables are read only for those that do.
    const missing = await findMissingFile(ctx, project, target.commit.id);
    if (missing) return { result: missing, jobs: [] };
  }
  const input = await inputFor(ctx, project, request, target);
  const result = await compileFile(ctx, project, input);
  if (!result.ok) return { result, jobs: [] };
  try {
    return { result, jobs: planJobs(result.pipeline.jobs, input) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { warnings, includes, merged } = result;
    const refused = { ok: false, reason: 'invalid', errors: [error.message], warnings, includes, merged } as const;
    return { result: refused, jobs: [] };
  }
};

/** Returns what the CI file is compiled with: the variables of the target, and what it changes. */
export const inputFor = async (
  ctx: Context,
  project: ProjectRow,
  request: CompileRequest,
  target: Target,
): Promise<CompileInput & PipelineVariables> => {
  const { source, before_sha = null, inputs, inputs_are_texts, content, include, parent_id } = request;
  const described = {
    id: null,
    iid: null,
    name: null,
    source,
    created_at: null,
    ref: target.ref,
    tag: target.tag,
    sha: target.commit.id,
    before_sha,
    protected: target.protected,
    merge_request_id: target.merge_request?.id ?? null,
    source_sha: target.merge_request?.source_sha ?? null,
    target_sha: target.merge_request?.target_sha ?? null,
  };
  const [predefined, user, secret] = await Promise.all([
    predefinedVariables(ctx, project, described, target.commit),
    readUserVariables(ctx, ctx.actor.userId),
    variablesFor(ctx, project, { protected: target.protected, environment: null }),
  ]);
  const given = (request.variables ?? []).map(({ key, value, raw, variable_type }) => ({
    key,
    value,
    raw: raw ?? false,
    file: variable_type === 'file',
  }));
  return {
    sha: target.commit.id,
    ref: target.name,
    tag: target.tag,
    source,
    predefined,
    variables: [...user, ...secret, ...given],
    changes: () => changedPaths(ctx, project, before_sha, target),
    content,
    inputs,
    inputs_are_texts,
    include,
    readArtifact: parent_id === undefined ? undefined : artifactReader(ctx, project, parent_id),
    merge_request: target.merge_request !== null,
  };
};

/** Returns the paths that the push or merge request changes; null if there is nothing to compare with. */
const changedPaths = async (
  ctx: Context,
  project: ProjectRow,
  before: string | null,
  { commit, merge_request, tag }: Target,
): Promise<string[] | null> => {
  const from = merge_request ? merge_request.base_sha : before;
  if (from === null || from === ZERO_OID || tag) return null;
  const { git } = ctx.services;
  // A forced push may have lost the commit before it.
  if ((await git.readCommits(project.disk_path, [from])).length === 0) return null;
  const paths: string[] = [];
  for await (const path of git.changedPaths(project.disk_path, from, commit.id, { signal: ctx.signal }))
    paths.push(path);
  return paths;
};

/** Expands what rows of jobs say about environments and resource groups. @throws ConfigError */
const planJobs = (jobs: readonly CompiledJob[], { predefined, variables }: PipelineVariables): PlannedJob[] =>
  jobs.map((job) => {
    const { environment, resource_group } = job;
    if (environment === null && resource_group === null) return { job, environment: null, resource_group: null };
    const known = [...predefined, ...compiledJobVariables(job), ...job.variables, ...variables];
    const name = environment && expandText(environment.name, valuesOf(known), MAX_NAME);
    const ofEnvironment = name === null ? [] : [{ key: 'CI_ENVIRONMENT_NAME', value: name }];
    return {
      job,
      environment: name,
      resource_group: resource_group && expandText(resource_group, valuesOf([...known, ...ofEnvironment]), MAX_NAME),
    };
  });
