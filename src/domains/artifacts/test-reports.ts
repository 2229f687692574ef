import { sql } from 'kysely';
import { z } from 'zod';
import { nameOfParallel } from '#domains/ci/model.ts';
import { getPipeline } from '#domains/ci/queries.ts';
import { type ProjectRow, projectsByIds, ROW } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { apiUrl } from '#platform/urls.ts';
import { canDownload } from './policy.ts';
import { accessOf } from './queries.ts';
import { ReportProblem, unpackedReport } from './reports/gzip.ts';
import { readJunit, type TestCase } from './reports/junit.ts';

const MAX_REPORT_BYTES = 100 * 1024 * 1024;

const totals = z.object({
  /** Seconds. */
  total_time: z.number(),
  total_count: z.number(),
  success_count: z.number(),
  failed_count: z.number(),
  skipped_count: z.number(),
  error_count: z.number(),
});
export type TestTotals = z.output<typeof totals>;

const summarySchema = totals.extend({ suite_error: z.string().nullable() });

/** The totals of a report, and why it cannot be read. */
export type ReportSummary = z.output<typeof summarySchema>;

export interface TestSuite extends ReportSummary {
  /** The name of the job, without the number of a parallel one. */
  readonly name: string;
  readonly build_ids: readonly number[];
}

const NO_TESTS: TestTotals = {
  total_time: 0,
  total_count: 0,
  success_count: 0,
  failed_count: 0,
  skipped_count: 0,
  error_count: 0,
};

const COUNT_OF = {
  success: 'success_count',
  failed: 'failed_count',
  skipped: 'skipped_count',
  error: 'error_count',
} as const;

/** Reads a stored JUnit report. Returns its totals; `found` gets each test case. A report that cannot be read has none. */
export const summarizeJunit = async (
  ctx: Context,
  storageKey: string,
  found: (test: TestCase) => void = () => undefined,
): Promise<ReportSummary> => {
  const sums = { ...NO_TESTS };
  try {
    const { stream } = await ctx.services.storage.read(storageKey);
    await readJunit(unpackedReport(stream, MAX_REPORT_BYTES), (test) => {
      sums.total_time += test.execution_time;
      sums.total_count += 1;
      sums[COUNT_OF[test.status]] += 1;
      found(test);
    });
    return { ...sums, suite_error: null };
  } catch (error) {
    if (!(error instanceof ReportProblem)) throw error;
    return { ...NO_TESTS, suite_error: `JUnit XML parsing failed: ${error.message}` };
  }
};

export interface TestReportSummary {
  readonly total: ReportSummary;
  readonly suites: readonly TestSuite[];
}

/**
 * Returns the totals of the test reports of a pipeline, by job. Leaves out reports that the caller may not download.
 *
 * @throws DomainError as `getPipeline`
 */
export const getTestReportSummary = async (
  ctx: Context,
  project: ProjectRow,
  pipelineId: number,
): Promise<TestReportSummary> => {
  const { id } = await getPipeline(ctx, project, pipelineId);
  return (await testSummariesByPipelineIds(ctx, [id])).get(id) ?? summaryOf([]);
};

/** The same for many pipelines that the caller may read, by id. */
export const testSummariesByPipelineIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, TestReportSummary>> => {
  const reports = Map.groupBy(await reportsOf(ctx, ids), ({ pipeline_id }) => pipeline_id);
  return new Map(ids.map((id) => [id, summaryOf(reports.get(id) ?? [])]));
};

const summaryOf = (reports: readonly StoredReport[]): TestReportSummary => {
  const suites = [...Map.groupBy(reports, ({ name }) => nameOfParallel(name))].map(([name, each]) => ({
    name,
    build_ids: each.map(({ job_id }) => job_id),
    ...sumOf(each.map(({ report_summary }) => summarySchema.parse(report_summary))),
  }));
  return { total: sumOf(suites), suites };
};

export interface ReportedCase extends TestCase {
  /** Where the attachment is, if the job left an archive with it. */
  readonly attachment_url: string | null;
}

/** A suite with its test cases. */
export interface DetailedSuite extends TestSuite {
  readonly test_cases: readonly ReportedCase[];
}

export interface TestReport extends TestTotals {
  readonly suites: readonly DetailedSuite[];
}

/** Returns the test reports of a pipeline with all test cases. @throws as `getTestReportSummary` */
export const getTestReport = async (ctx: Context, project: ProjectRow, pipelineId: number): Promise<TestReport> => {
  const { id } = await getPipeline(ctx, project, pipelineId);
  const reports = await reportsOf(ctx, [id]);
  const { total, suites } = summaryOf(reports);
  const { suite_error: _, ...sums } = total;
  return { ...sums, suites: await withTestCases(ctx, suites, reports) };
};

/**
 * Returns the tests of some jobs of a pipeline that the caller may read, as one suite. Null if none of them has a report
 * that the caller may download.
 */
export const findTestSuite = async (
  ctx: Context,
  pipelineId: number,
  jobIds: readonly number[],
): Promise<DetailedSuite | null> => {
  const reports = (await reportsOf(ctx, [pipelineId])).filter(({ job_id }) => jobIds.includes(job_id));
  const { total, suites } = summaryOf(reports);
  const [first] = suites;
  if (!first) return null;
  const whole = { ...total, name: first.name, build_ids: reports.map(({ job_id }) => job_id) };
  return (await withTestCases(ctx, [whole], reports))[0] ?? null;
};

/** The most test cases, and characters, of all suites in one request. */
const MAX_CASES = 200_000;
const MAX_CHARACTERS = 100 * 1024 * 1024;
const TOO_MANY = 'Too many test cases for one answer';
const usedBy = new WeakMap<Context, { cases: number; characters: number }>();

/** Adds the test cases. When a request has as many as it may hold, later suites get none, and an error that says so. */
const withTestCases = async (
  ctx: Context,
  suites: readonly TestSuite[],
  reports: readonly StoredReport[],
): Promise<DetailedSuite[]> => {
  const byJob = new Map(reports.map((report) => [report.job_id, report]));
  const detailed: DetailedSuite[] = [];
  const used = usedBy.get(ctx) ?? { cases: 0, characters: 0 };
  usedBy.set(ctx, used);
  const isOver = () => used.cases > MAX_CASES || used.characters > MAX_CHARACTERS;
  for (const suite of suites) {
    const test_cases: ReportedCase[] = [];
    let { suite_error } = suite;
    for (const job of suite.build_ids) {
      ctx.signal.throwIfAborted();
      const report = byJob.get(job);
      if (!report) continue;
      if (isOver()) {
        suite_error ??= TOO_MANY;
        break;
      }
      // A damaged report has no test cases, not the first few.
      const read: TestCase[] = [];
      const problem = await summarizeJunit(ctx, report.storage_key, (test) => {
        used.cases += 1;
        for (const text of [test.name, test.classname, test.file, test.system_output]) {
          used.characters += text?.length ?? 0;
        }
        if (!isOver()) read.push(test);
      });
      if (isOver()) suite_error ??= TOO_MANY;
      else if (problem.suite_error === null) {
        for (const test of read) test_cases.push({ ...test, attachment_url: attachmentUrl(ctx, report, test) });
      }
    }
    detailed.push({ ...suite, suite_error, test_cases });
  }
  return detailed;
};

/** The path is relative to the project, as those in archives are. */
const attachmentUrl = (ctx: Context, { project_id, job_id }: StoredReport, { attachment }: TestCase): string | null => {
  if (attachment === null) return null;
  const path = attachment
    .replace(/^(?:\.?\/)+/, '')
    .split('/')
    .map(encodeURIComponent)
    .join('/');
  return apiUrl(ctx, `projects/${project_id}/jobs/${job_id}/artifacts/${path}`);
};

interface StoredReport {
  readonly pipeline_id: number;
  readonly project_id: number;
  readonly job_id: number;
  readonly name: string;
  readonly storage_key: string;
  readonly report_summary: unknown;
}

const reportsOf = async (ctx: Context, pipelineIds: readonly number[]): Promise<StoredReport[]> => {
  const rows = await ctx.db
    .selectFrom('job_artifacts')
    .innerJoin('jobs', 'jobs.id', 'job_artifacts.job_id')
    .select(['jobs.id as job_id', 'jobs.name', 'jobs.pipeline_id', 'jobs.project_id'])
    .select(['job_artifacts.storage_key', 'job_artifacts.report_summary', 'job_artifacts.access'])
    .where(sql<boolean>`jobs.pipeline_id = any (${pipelineIds}::bigint[])`)
    .where('jobs.retried', '=', false)
    .where('job_artifacts.file_type', '=', 'junit')
    .orderBy('jobs.id')
    .execute();
  const projects = await projectsByIds(ctx, [...new Set(rows.map(({ project_id }) => project_id))], ROW);
  return rows.filter((row) => {
    const project = projects.get(row.project_id);
    return project !== undefined && canDownload(ctx, project, accessOf(row));
  });
};

const sumOf = (parts: readonly ReportSummary[]): ReportSummary => {
  const sum = { ...NO_TESTS };
  for (const part of parts) {
    for (const key of TOTALS) sum[key] += part[key];
  }
  return { ...sum, suite_error: parts.find(({ suite_error }) => suite_error !== null)?.suite_error ?? null };
};

const TOTALS = [
  'total_time',
  'total_count',
  'success_count',
  'failed_count',
  'skipped_count',
  'error_count',
] as const satisfies readonly (keyof TestTotals)[];
