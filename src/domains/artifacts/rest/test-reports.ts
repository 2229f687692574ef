import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { idOrPath, integer } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { apiLink } from '#rest/v5.ts';
import { getTestReport, getTestReportSummary } from '../test-reports.ts';

const tag = 'Pipelines';
const input = { id: idOrPath(), pipeline_id: integer({ min: 1 }) };

const totals = {
  total_time: z.number(),
  total_count: z.int(),
  success_count: z.int(),
  failed_count: z.int(),
  skipped_count: z.int(),
  error_count: z.int(),
};

const testCaseRecord = z
  .object({
    status: z.enum(['success', 'failed', 'skipped', 'error']),
    name: z.string(),
    classname: z.string().nullable(),
    file: z.string().nullable(),
    execution_time: z.number(),
    system_output: z.string().nullable(),
    stack_trace: z.null(),
    recent_failures: z.null(),
    attachment_url: apiLink(z.string()).nullable().describe('A file in the artifacts of the job.'),
  })
  .meta({ id: 'TestCase' });

const testReportRecord = z
  .object({
    ...totals,
    test_suites: z.array(
      z.object({
        name: z.string(),
        ...totals,
        suite_error: z.string().nullable(),
        test_cases: z.array(testCaseRecord),
      }),
    ),
  })
  .meta({ id: 'TestReport' });

const testReportSummaryRecord = z
  .object({
    total: z.object({
      time: z.number(),
      count: z.int(),
      success: z.int(),
      failed: z.int(),
      skipped: z.int(),
      error: z.int(),
      suite_error: z.string().nullable(),
    }),
    test_suites: z.array(
      z.object({ name: z.string(), ...totals, build_ids: z.array(z.int()), suite_error: z.string().nullable() }),
    ),
  })
  .meta({ id: 'TestReportSummary' });

export const testReportRoutes = [
  route({
    method: 'GET',
    path: '/projects/:id/pipelines/:pipeline_id/test_report',
    tag,
    summary: 'Get the test report of a pipeline',
    description: 'From the JUnit reports that its jobs uploaded.',
    auth: 'optional',
    input,
    response: testReportRecord,
    run: async (ctx, { id, pipeline_id }) => {
      const { suites, ...sums } = await getTestReport(ctx, await getProject(ctx, id), pipeline_id);
      return {
        ...sums,
        test_suites: suites.map(({ build_ids: _, test_cases, ...suite }) => ({
          ...suite,
          // The output has the stack trace. Histories of tests are not kept.
          test_cases: test_cases.map(({ attachment: _attachment, ...test }) => ({
            ...test,
            stack_trace: null,
            recent_failures: null,
          })),
        })),
      };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/pipelines/:pipeline_id/test_report_summary',
    tag,
    summary: 'Get the totals of the test report of a pipeline',
    auth: 'optional',
    input,
    response: testReportSummaryRecord,
    run: async (ctx, { id, pipeline_id }) => {
      const { total, suites } = await getTestReportSummary(ctx, await getProject(ctx, id), pipeline_id);
      return {
        total: {
          time: total.total_time,
          count: total.total_count,
          success: total.success_count,
          failed: total.failed_count,
          skipped: total.skipped_count,
          error: total.error_count,
          suite_error: total.suite_error,
        },
        test_suites: suites.map(({ build_ids, ...suite }) => ({ ...suite, build_ids: [...build_ids] })),
      };
    },
  }),
] satisfies readonly Route[];
