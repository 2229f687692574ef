import { defineFile, mergedYaml } from '#domains/ci-config/compile.ts';
import type { JobDefinition } from '#domains/ci-config/definition.ts';
import type { CompiledJob, CompileInput, CompileResult, IncludedFile } from '#domains/ci-config/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { authorisePipeline, problemsOf } from '../create.ts';
import { compileFor, inputFor } from './compiling.ts';
import { findTarget } from './target.ts';

export interface LintRequest {
  /** Checked instead of the file in the repository. */
  readonly content?: string | undefined;
  /** Simulates a pipeline, so that rules decide about jobs. Otherwise only the file itself is checked. */
  readonly dry_run: boolean;
  /** The branch or tag of the simulated pipeline. Defaults to the default branch. */
  readonly ref?: string | undefined;
  /** The branch, tag or commit that files are read from. Defaults to `ref`. */
  readonly content_ref?: string | undefined;
}

export interface LintResult {
  readonly valid: boolean;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
  readonly merged_yaml: string | null;
  readonly includes: readonly IncludedFile[];
  readonly jobs: readonly LintedJob[];
  readonly stages: readonly string[];
}

export interface LintedJob {
  readonly job: CompiledJob;
  readonly definition: JobDefinition;
}

/**
 * Checks a CI file in the context of the project (reference: ci §1). Other content than that of the repository, and
 * simulated pipelines, are for those who may run pipelines.
 *
 * @throws DomainError `forbidden`, `not_found`
 */
export const lintFile = async (ctx: Context, project: ProjectRow, request: LintRequest): Promise<LintResult> => {
  const mayRun = can(ctx, project, 'create_pipeline');
  requireAbility(ctx, project, request.content === undefined && !request.dry_run ? 'read_code' : 'create_pipeline');
  return request.dry_run ? simulate(ctx, project, request) : checkFile(ctx, project, request, mayRun);
};

const EMPTY = { warnings: [], merged_yaml: null, includes: [], jobs: [], stages: [] } as const;

const invalidFor = (errors: readonly string[]): LintResult => ({ valid: false, errors, ...EMPTY });

const refused = async (result: Extract<CompileResult, { ok: false }>): Promise<LintResult> => ({
  ...EMPTY,
  valid: false,
  errors: result.reason === 'missing' ? [NO_FILE] : result.errors,
  warnings: result.warnings,
  merged_yaml: await mergedYaml(result.merged),
  includes: result.includes,
});

const NO_FILE = 'Please provide content of .gitlab-ci.yml';

const checkFile = async (
  ctx: Context,
  project: ProjectRow,
  { content, ref, content_ref }: LintRequest,
  mayRun: boolean,
): Promise<LintResult> => {
  const input = await staticInput(ctx, project, content_ref ?? ref ?? project.default_branch, mayRun);
  if (!input) return invalidFor(['Reference not found']);
  const defined = await defineFile(ctx, project, { ...input, content });
  if (defined.refused) return refused(defined.refused);
  const { file } = defined;
  return {
    valid: true,
    errors: [],
    warnings: file.warnings,
    merged_yaml: await mergedYaml(file.merged),
    includes: file.includes,
    jobs: file.file.jobs.map((definition) => ({ job: definition.job, definition })),
    stages: file.file.stages,
  };
};

/** Without a repository only content can be checked. Those who cannot run pipelines do not see values of variables. */
const staticInput = async (
  ctx: Context,
  project: ProjectRow,
  ref: string | null,
  mayRun: boolean,
): Promise<CompileInput | null> => {
  const target = ref === null ? null : await findTarget(ctx, project, { ref });
  if (target) {
    const input = await inputFor(ctx, project, { source: 'push' }, { ...target, protected: false });
    return mayRun ? input : { ...input, variables: [] };
  }
  const sha = ref === null ? null : await ctx.services.git.resolveCommit(project.disk_path, ref);
  if (sha === null && !project.empty_repo) return null;
  return { sha, ref: ref ?? '', source: 'push', variables: [], changes: async () => null };
};

/** Does what the creation of a pipeline does, without storing one. */
const simulate = async (ctx: Context, project: ProjectRow, request: LintRequest): Promise<LintResult> => {
  const ref = request.ref ?? request.content_ref ?? project.default_branch ?? '';
  try {
    const target = await authorisePipeline(ctx, project, { ref, source: 'push' });
    const { result } = await compileFor(ctx, project, { source: 'push', content: request.content }, target);
    if (!result.ok) return await refused(result);
    const problems = problemsOf(result);
    const definitions = new Map(result.definitions.map((each) => [each.job.name, each]));
    return {
      valid: problems.length === 0,
      errors: problems,
      warnings: result.warnings,
      merged_yaml: await mergedYaml(result.merged),
      includes: result.includes,
      jobs: result.pipeline.jobs.flatMap((job) => {
        const definition = definitions.get(job.name);
        return definition ? [{ job, definition }] : [];
      }),
      stages: result.pipeline.stages,
    };
  } catch (error) {
    // The reason why no pipeline can be created belongs to the result.
    if (error instanceof DomainError && error.code === 'invalid') return invalidFor(error.details.fields?.base ?? []);
    throw error;
  }
};
