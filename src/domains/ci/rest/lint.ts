import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { boolean, idOrPath, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { type LintedJob, type LintResult, lintFile } from '../creation/lint.ts';

const tag = 'CI lint';
const MAX_CONTENT = 2 * 1024 * 1024;

const refs = z.object({ refs: z.array(z.string()) }).nullable();

const lintRecord = z
  .object({
    valid: z.boolean(),
    merged_yaml: z.string().nullable(),
    errors: z.array(z.string()),
    warnings: z.array(z.string()),
    includes: z.array(
      z.object({
        type: z.string(),
        location: z.string(),
        blob: z.string().nullable(),
        raw: z.string().nullable(),
        extra: z.record(z.string(), z.unknown()),
        context_project: z.string().nullable(),
        context_sha: z.string().nullable(),
      }),
    ),
    jobs: z
      .array(
        z.object({
          name: z.string(),
          stage: z.string(),
          before_script: z.array(z.string()),
          script: z.array(z.string()),
          after_script: z.array(z.string()),
          tag_list: z.array(z.string()),
          only: refs,
          except: refs,
          environment: z.string().nullable(),
          when: z.string(),
          allow_failure: z.boolean(),
          needs: z.array(z.object({ name: z.string(), artifacts: z.boolean(), optional: z.boolean() })).nullable(),
        }),
      )
      .optional(),
  })
  .meta({ id: 'CiLint' });

const toJob = ({ job, definition: { before_lines, only, except } }: LintedJob) => ({
  name: job.name,
  stage: job.stage,
  before_script: job.script.slice(0, before_lines),
  script: job.script.slice(before_lines),
  after_script: [...job.after_script],
  tag_list: [...job.tags],
  only: only?.refs ? { refs: [...only.refs] } : null,
  except: except?.refs ? { refs: [...except.refs] } : null,
  environment: job.environment?.name ?? null,
  when: job.when,
  allow_failure: job.allow_failure,
  needs: job.needs && [...job.needs],
});

const toRecord = (result: LintResult, includesJobs: boolean): z.output<typeof lintRecord> => ({
  valid: result.valid,
  merged_yaml: result.merged_yaml,
  errors: [...result.errors],
  warnings: [...result.warnings],
  includes: result.includes.map((each) => ({ ...each })),
  ...(includesJobs ? { jobs: result.jobs.map(toJob) } : {}),
});

const options = {
  dry_run: boolean().default(false).describe('Simulates a pipeline, so that rules decide about the jobs.'),
  include_jobs: boolean().default(false),
};
const ref = text({ max: 1_000 }).optional();

export const lintRoutes = [
  route({
    method: 'GET',
    path: '/projects/:id/ci/lint',
    tag,
    summary: 'Check the CI file of a project',
    auth: 'optional',
    input: {
      id: idOrPath(),
      ...options,
      content_ref: ref.describe('The branch, tag or commit of the file. Defaults to the default branch.'),
      dry_run_ref: ref.describe('The branch or tag of the simulated pipeline.'),
      ref: ref.describe('Another name for `dry_run_ref`.'),
      sha: ref.describe('Another name for `content_ref`.'),
    },
    response: lintRecord,
    run: async (ctx, { id, dry_run, include_jobs, content_ref, dry_run_ref, ref: given, sha }) => {
      const request = { dry_run, ref: dry_run_ref ?? given, content_ref: content_ref ?? sha };
      return toRecord(await lintFile(ctx, await getProject(ctx, id), request), include_jobs);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/ci/lint',
    tag,
    summary: 'Check the content of a CI file in a project',
    status: 200,
    input: {
      id: idOrPath(),
      ...options,
      content: text({ max: MAX_CONTENT }),
      ref: ref.describe('The branch or tag of the simulated pipeline. Defaults to the default branch.'),
    },
    response: lintRecord,
    run: async (ctx, { id, content, dry_run, include_jobs, ref: given }) =>
      toRecord(await lintFile(ctx, await getProject(ctx, id), { content, dry_run, ref: given }), include_jobs),
  }),
] satisfies readonly Route[];
