import { PipelineRef } from '#domains/ci/graphql.ts';
import { builder, type Types } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { badRequest } from '#platform/errors.ts';
import type { TestStatus } from '../reports/junit.ts';
import {
  type DetailedSuite,
  findTestSuite,
  type ReportedCase,
  type ReportSummary,
  type TestReportSummary,
  type TestSuite,
  testSummariesByPipelineIds,
} from '../test-reports.ts';

// Test reports of pipelines, from the JUnit reports that their jobs uploaded.

const loadSummary = loader(testSummariesByPipelineIds);

const StatusEnum = builder.enumType('TestCaseStatus', {
  values: {
    success: { value: 'success' },
    failed: { value: 'failed' },
    skipped: { value: 'skipped' },
    error: { value: 'error' },
  } as const satisfies Record<TestStatus, { value: TestStatus }>,
});

const TotalRef = builder.objectRef<ReportSummary>('TestReportTotal').implement({
  description: 'The totals of the test report of a pipeline.',
  fields: (t) => ({
    time: t.float({ description: 'Seconds.', resolve: ({ total_time }) => total_time }),
    count: t.exposeInt('total_count'),
    success: t.exposeInt('success_count'),
    failed: t.exposeInt('failed_count'),
    skipped: t.exposeInt('skipped_count'),
    error: t.exposeInt('error_count'),
    suiteError: t.exposeString('suite_error', { description: 'Why a report could not be read.' }),
  }),
});

type SuiteFields<Shape extends TestSuite> = PothosSchemaTypes.ObjectFieldBuilder<Types, Shape>;

const totalsOfSuite = <Shape extends TestSuite>(t: SuiteFields<Shape>) => ({
  name: t.string({ description: 'The name of the job, without the number of a parallel one.', resolve: (s) => s.name }),
  totalTime: t.float({ description: 'Seconds.', resolve: (suite) => suite.total_time }),
  totalCount: t.int({ resolve: (suite) => suite.total_count }),
  successCount: t.int({ resolve: (suite) => suite.success_count }),
  failedCount: t.int({ resolve: (suite) => suite.failed_count }),
  skippedCount: t.int({ resolve: (suite) => suite.skipped_count }),
  errorCount: t.int({ resolve: (suite) => suite.error_count }),
  suiteError: t.string({ description: 'Why it could not be read.', resolve: (suite) => suite.suite_error }),
});

const SuiteSummaryRef = builder.objectRef<TestSuite>('TestSuiteSummary').implement({
  description: 'The totals of the tests of a job, or of parallel jobs together.',
  fields: (t) => ({
    ...totalsOfSuite(t),
    buildIds: t.idList({
      description: 'The ids of the jobs, as `testSuite` takes them.',
      resolve: ({ build_ids }) => build_ids.map(String),
    }),
  }),
});
const SuiteSummaryConnection = builder.connectionObject(
  { type: SuiteSummaryRef, name: 'TestSuiteSummaryConnection' },
  { name: 'TestSuiteSummaryEdge' },
);

/** A test case with its place in the suite, which is its cursor. */
type PlacedCase = ReportedCase & { readonly place: number };

const CaseRef = builder.objectRef<PlacedCase>('TestCase').implement({
  description: 'A test of a suite.',
  fields: (t) => ({
    status: t.field({ type: StatusEnum, resolve: ({ status }) => status }),
    name: t.exposeString('name'),
    classname: t.exposeString('classname'),
    file: t.exposeString('file'),
    executionTime: t.exposeFloat('execution_time', { description: 'Seconds.' }),
    systemOutput: t.exposeString('system_output', {
      description: 'The text of the failure or error with what the test printed, or the reason to skip.',
    }),
    attachmentUrl: t.exposeString('attachment_url', {
      description: 'A file in the artifacts of the job that the failed test named, such as a screenshot.',
    }),
  }),
});
const CaseConnection = builder.connectionObject(
  { type: CaseRef, name: 'TestCaseConnection' },
  { name: 'TestCaseEdge' },
);

const SuiteRef = builder.objectRef<DetailedSuite>('TestSuite').implement({
  description: 'The tests of some jobs of a pipeline.',
  fields: (t) => ({
    ...totalsOfSuite(t),
    testCases: t.connection(
      {
        type: CaseRef,
        resolve: ({ test_cases }, args, _ctx, info) =>
          connection(args, info, async (page) => {
            const placed = test_cases.map((test, place): PlacedCase => ({ ...test, place }));
            return pageOfAll(page, placed, ({ place }) => [place]);
          }),
      },
      CaseConnection,
    ),
  }),
});

const SummaryRef = builder.objectRef<TestReportSummary>('TestReportSummary').implement({
  description: 'The totals of the test report of a pipeline, and of its suites.',
  fields: (t) => ({
    total: t.field({ type: TotalRef, nullable: false, resolve: ({ total }) => total }),
    testSuites: t.connection(
      {
        type: SuiteSummaryRef,
        nullable: false,
        resolve: ({ suites }, args, _ctx, info) =>
          connection(args, info, async (page) => pageOfAll(page, suites, ({ name }) => [name])),
      },
      SuiteSummaryConnection,
    ),
  }),
});

builder.objectFields(PipelineRef, (t) => ({
  testReportSummary: t.field({
    type: SummaryRef,
    nullable: false,
    description: 'From the JUnit reports of its jobs that the caller may download.',
    resolve: async ({ id }, _args, ctx) => {
      const summary = await loadSummary(ctx, id);
      if (!summary) throw new Error('every pipeline has a summary');
      return summary;
    },
  }),
  testSuite: t.field({
    type: SuiteRef,
    description: 'The tests of some of its jobs; null if they have no report that the caller may download.',
    args: { buildIds: t.arg.idList({ required: true }) },
    // It parses the stored reports of these jobs.
    extensions: { cost: 100 },
    resolve: ({ id }, { buildIds }, ctx) => {
      const ids = buildIds.map(Number);
      if (!ids.every((each) => Number.isSafeInteger(each) && each > 0)) throw badRequest('buildIds must be numbers');
      return findTestSuite(ctx, id, ids);
    },
  }),
}));
