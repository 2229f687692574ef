import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { openGivenValue } from '#domains/ci/sealed-values.ts';
import { useApp } from '../support/app.ts';
import { insertRunningJob, makeJobScene, type RunningJob, upload } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;

const send = async (job: RunningJob, type: string, ...files: readonly string[]) => {
  const content = Buffer.concat(files.map((file) => gzipSync(file)));
  const { status, body } = await upload(app(), job, content, {
    query: `artifact_type=${type}&artifact_format=gzip`,
    filename: `${type}.gz`,
  });
  return status === 201 ? 201 : [status, body.message];
};

const variablesOf = async (jobId: number) => {
  const rows = await db()
    .selectFrom('job_variables')
    .select(['key', 'sealed_value', 'source'])
    .where('job_id', '=', jobId)
    .orderBy('key')
    .execute();
  return rows.map(({ key, sealed_value, source }) => [key, openGivenValue(app().context(), sealed_value), source]);
};

describe('a dotenv report', () => {
  it('leaves variables for later jobs', async () => {
    const { job } = await makeJobScene(app());
    expect(await send(job, 'dotenv', 'A=1\nURL=https://x/?a=b\n', 'A=2\nEMPTY=')).toBe(201);
    expect(await variablesOf(job.id)).toEqual([
      ['A', '2', 'dotenv'],
      ['EMPTY', '', 'dotenv'],
      ['URL', 'https://x/?a=b', 'dotenv'],
    ]);
  });

  it('may have white space around keys and values, as counting tools print it', async () => {
    const { job } = await makeJobScene(app());
    expect(await send(job, 'dotenv', 'LINES=      12\n KEY = a b \t\nBLANK= ')).toBe(201);
    expect(await variablesOf(job.id)).toEqual([
      ['BLANK', '', 'dotenv'],
      ['KEY', 'a b', 'dotenv'],
      ['LINES', '12', 'dotenv'],
    ]);
  });

  it('is refused if it is malformed or too large', async () => {
    const { job } = await makeJobScene(app());
    expect(await send(job, 'dotenv', 'TWO WORDS=1')).toEqual([400, 'Invalid Format']);
    expect(await send(job, 'dotenv', 'A=1\n\nB=2')).toEqual([400, 'Invalid Format']);
    expect(await send(job, 'dotenv', '# comment')).toEqual([400, 'Invalid Format']);
    expect(await send(job, 'dotenv', `A=${'x'.repeat(6_000)}`)).toEqual([
      400,
      'Dotenv Artifact Too Big. Maximum Allowable Size: 5120',
    ]);
    const many = Array.from({ length: 21 }, (_, n) => `K${n}=1`).join('\n');
    expect(await send(job, 'dotenv', many)).toEqual([400, 'Dotenv files cannot have more than 20 variables']);
    const plain = await upload(app(), job, 'A=1', { query: 'artifact_type=dotenv&artifact_format=gzip' });
    expect([plain.status, plain.body.message]).toEqual([400, 'Invalid Format']);
    expect(await variablesOf(job.id)).toEqual([]);
    expect(await db().selectFrom('job_artifacts').select('id').where('job_id', '=', job.id).execute()).toEqual([]);
  });
});

const JUNIT = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE testsuites PUBLIC "-//unit//tests" "http://127.0.0.1/tests.dtd" [<!ELEMENT testsuites (testsuite)>]>
<testsuites><testsuite name="a">
  <testcase name="adds" classname="Math" file="math.js" time="1.5"><system-out>noise</system-out></testcase>
  <testcase name="divides" classname="Math" time="0.25"><failure message="by zero">at &lt;line&gt; 1</failure></testcase>
  <testcase name="later"><skipped/></testcase>
</testsuite></testsuites>`;
const BROKEN = `\uFEFF<?xml version="1.0"?>
<!DOCTYPE testsuite>
<testsuite><testcase name="throws" time="1,000">
  <error><![CDATA[<boom>]]></error>
  <system-out>seen at [[ATTACHMENT|shots/a b.png]] by all</system-out><system-err>warning</system-err>
</testcase></testsuite>`;

describe('the test report of a pipeline', () => {
  it('has the cases of all JUnit reports, with totals', async () => {
    const { job, project, path, reporter } = await makeJobScene(app());
    expect(await send(job, 'junit', JUNIT, BROKEN)).toBe(201);
    const { body, status } = await reporter.get(`${path}/pipelines/${job.pipelineId}/test_report`);
    expect(status).toBe(200);
    const totals = {
      total_time: 1001.75,
      total_count: 4,
      success_count: 1,
      failed_count: 1,
      skipped_count: 1,
      error_count: 1,
    };
    const rest = { file: null, stack_trace: null, recent_failures: null, attachment_url: null };
    expect(body).toEqual({
      ...totals,
      test_suites: [
        {
          name: 'compile',
          ...totals,
          suite_error: null,
          test_cases: [
            {
              ...rest,
              status: 'success',
              name: 'adds',
              classname: 'Math',
              file: 'math.js',
              execution_time: 1.5,
              system_output: null,
            },
            {
              ...rest,
              status: 'failed',
              name: 'divides',
              classname: 'Math',
              execution_time: 0.25,
              system_output: 'by zero\nat <line> 1',
            },
            { ...rest, status: 'skipped', name: 'later', classname: null, execution_time: 0, system_output: null },
            {
              ...rest,
              status: 'error',
              name: 'throws',
              classname: null,
              execution_time: 1000,
              system_output:
                '<boom>\n\nSystem Out:\n\nseen at [[ATTACHMENT|shots/a b.png]] by all\n\nSystem Err:\n\nwarning',
              attachment_url: `${app().url}/api/v4/projects/${project.id}/jobs/${job.id}/artifacts/shots/a%20b.png`,
            },
          ],
        },
      ],
    });
    const summary = await reporter.get(`${path}/pipelines/${job.pipelineId}/test_report_summary`);
    expect(summary.body).toEqual({
      total: { time: 1001.75, count: 4, success: 1, failed: 1, skipped: 1, error: 1, suite_error: null },
      test_suites: [{ name: 'compile', ...totals, suite_error: null, build_ids: [job.id] }],
    });
    const other = await insertRunningJob(app(), { project_id: project.id });
    const empty = await reporter.get(`${path}/pipelines/${other.pipelineId}/test_report_summary`);
    expect(empty.body).toMatchObject({ total: { count: 0 }, test_suites: [] });
  });

  it('names the mistakes in a report', async () => {
    const { project, path, reporter, guest } = await makeJobScene(app());
    const errorOf = async (content: string, raw = false) => {
      const job = await insertRunningJob(app(), { project_id: project.id });
      if (raw) await upload(app(), job, content, { query: 'artifact_type=junit&artifact_format=gzip' });
      else await send(job, 'junit', content);
      const { body } = await reporter.get(`${path}/pipelines/${job.pipelineId}/test_report`);
      expect(body.total_count).toBe(0);
      expect(body.test_suites[0].test_cases).toEqual([]);
      expect((await guest.get(`${path}/pipelines/${job.pipelineId}/test_report`)).status).toBe(403);
      return body.test_suites[0].suite_error;
    };
    const prefix = 'JUnit XML parsing failed: ';
    expect(await errorOf('plain', true)).toBe(`${prefix}it is not in gzip format`);
    expect(await errorOf('<a><testcase name="x"/>')).toBe(`${prefix}it is cut off`);
    expect(await errorOf('<a></b>')).toContain(prefix);
    expect(await errorOf('<a b="')).toBe(`${prefix}it is cut off`);
    for (const declared of ['<!ENTITY b "c">', '<!entity % b SYSTEM "file:///etc/passwd"> %b;']) {
      const document = `<!DOCTYPE a [${declared}]><a><testcase name="x"/></a>`;
      expect(await errorOf(document)).toBe(`${prefix}its document type declares entities`);
    }
    expect(await errorOf('<!DOCTYPE a SYSTEM "a.dtd"><a>&b;</a>')).toBe(`${prefix}Invalid character entity`);
    expect(await errorOf(`<a>${JUNIT.slice(JUNIT.indexOf('<!DOCTYPE'))}</a>`)).toContain(prefix);
    const long = 'x'.repeat(1_100_000);
    expect(await errorOf(`<a><!--${long}--></a>`)).toBe(`${prefix}Max buffer length exceeded: comment`);
    const short = Array.from({ length: 20 }, (_, n) => `b${n}="${long.slice(0, 60_000)}"`).join(' ');
    expect(await errorOf(`<a ${short}/>`)).toBe(`${prefix}a tag is longer than 1048576 characters`);
    expect(await errorOf('<a>'.repeat(60))).toBe(`${prefix}it is nested deeper than 50 levels`);
    expect(await errorOf('<constructor><testcase name="x"><constructor/></testcase>')).toBe(`${prefix}it is cut off`);
  });

  it('joins parallel jobs, and leaves out reports that the caller may not download', async () => {
    const { job, path, reporter, maintainer } = await makeJobScene(app());
    const options = JSON.stringify({ artifacts: { access: 'maintainer' } });
    await db().updateTable('jobs').set({ name: 'test 1/2' }).where('id', '=', job.id).execute();
    await send(job, 'junit', JUNIT);
    const second = await insertRunningJob(app(), { project_id: Number(path.split('/')[2]) }, { name: 'test 2/2' });
    const moved = { pipeline_id: job.pipelineId, options };
    await db().updateTable('jobs').set(moved).where('id', '=', second.id).execute();
    await send(second, 'junit', BROKEN);
    const suites = async (who: typeof reporter) =>
      (await who.get(`${path}/pipelines/${job.pipelineId}/test_report_summary`)).body.test_suites.map(
        (suite: { name: string; total_count: number }) => [suite.name, suite.total_count],
      );
    expect(await suites(maintainer)).toEqual([['test', 4]]);
    expect(await suites(reporter)).toEqual([['test', 3]]);
  });

  it('is read over GraphQL: totals, suites, and the cases of some jobs', async () => {
    const { job, project, path, reporter, guest, maintainer } = await makeJobScene(app());
    await send(job, 'junit', JUNIT);
    const options = JSON.stringify({ artifacts: { access: 'maintainer' } });
    const second = await insertRunningJob(app(), { project_id: project.id }, { name: 'verify' });
    await db().updateTable('jobs').set({ pipeline_id: job.pipelineId, options }).where('id', '=', second.id).execute();
    await send(second, 'junit', BROKEN);
    const { body: pipeline } = await reporter.get(`${path}/pipelines/${job.pipelineId}`);
    const read = async (who: typeof reporter, buildIds: readonly number[], page = 'first: 10') =>
      who.graphql(`{ project(fullPath: "${project.path_with_namespace}") { pipeline(iid: "${pipeline.iid}") {
        testReportSummary {
          total { time count success failed skipped error suiteError }
          testSuites { nodes { name totalTime totalCount successCount failedCount skippedCount errorCount suiteError buildIds } }
        }
        testSuite(buildIds: ${JSON.stringify(buildIds.map(String))}) {
          name totalTime totalCount successCount failedCount skippedCount errorCount suiteError
          testCases(${page}) { pageInfo { endCursor } nodes { status name classname file executionTime systemOutput attachmentUrl } }
        }
      } } }`);
    const { data, errors } = await read(reporter, [job.id]);
    expect(errors).toBeUndefined();
    const { testReportSummary, testSuite } = data.project.pipeline;
    const counts = { successCount: 1, failedCount: 1, skippedCount: 1, errorCount: 0, suiteError: null };
    const suite = { name: 'compile', totalTime: 1.75, totalCount: 3, ...counts };
    expect(testReportSummary).toEqual({
      total: { time: 1.75, count: 3, success: 1, failed: 1, skipped: 1, error: 0, suiteError: null },
      testSuites: { nodes: [{ ...suite, buildIds: [String(job.id)] }] },
    });
    expect(testSuite).toMatchObject(suite);
    const [adds, divides] = testSuite.testCases.nodes;
    expect(adds).toEqual({
      ...{
        status: 'success',
        name: 'adds',
        classname: 'Math',
        file: 'math.js',
        executionTime: 1.5,
        systemOutput: null,
        attachmentUrl: null,
      },
    });
    expect(divides).toMatchObject({ status: 'failed', systemOutput: 'by zero\nat <line> 1' });
    const first = await read(reporter, [job.id], 'first: 1');
    const { endCursor } = first.data.project.pipeline.testSuite.testCases.pageInfo;
    const next = await read(reporter, [job.id], `first: 1, after: "${endCursor}"`);
    expect(next.data.project.pipeline.testSuite.testCases.nodes).toMatchObject([{ name: 'divides' }]);
    // Reports that the caller may not download count for nothing, and guests do not see pipelines.
    expect((await read(reporter, [second.id])).data.project.pipeline.testSuite).toBeNull();
    const whole = (await read(maintainer, [job.id, second.id])).data.project.pipeline;
    expect([whole.testReportSummary.total.count, whole.testSuite.totalCount]).toEqual([4, 4]);
    expect(whole.testSuite.testCases.nodes.at(-1).attachmentUrl).toMatch(/artifacts\/shots\/a%20b\.png$/);
    expect((await read(guest, [job.id])).data.project.pipeline).toBeNull();
    const wrong = await reporter.graphql(`{ project(fullPath: "${project.path_with_namespace}") {
      pipeline(iid: "${pipeline.iid}") { testSuite(buildIds: ["x"]) { name } } } }`);
    expect(wrong.errors?.[0]?.message).toContain('buildIds');
  });

  it('leaves out the cases that are too many for one answer', async () => {
    const { job, project, reporter } = await makeJobScene(app());
    const many = `<testsuite>${'<testcase name="x"/>'.repeat(100_001)}</testsuite>`;
    const second = await insertRunningJob(app(), { project_id: project.id }, { name: 'verify' });
    await db().updateTable('jobs').set({ pipeline_id: job.pipelineId }).where('id', '=', second.id).execute();
    for (const each of [job, second]) expect(await send(each, 'junit', many)).toBe(201);
    const read = async (...ids: readonly number[]) => {
      const { data } = await reporter.graphql(`{ project(fullPath: "${project.path_with_namespace}") {
        pipeline(id: "gid://gitlab/Ci::Pipeline/${job.pipelineId}") { testSuite(buildIds: ${JSON.stringify(ids.map(String))}) {
          totalCount suiteError testCases(first: 1) { nodes { name } } } } } }`);
      return data.project.pipeline.testSuite;
    };
    const testCases = { nodes: [{ name: 'x' }] };
    expect(await read(job.id)).toEqual({ totalCount: 100_001, suiteError: null, testCases });
    const suiteError = 'Too many test cases for one answer';
    expect(await read(job.id, second.id)).toEqual({ totalCount: 200_002, suiteError, testCases });
    const suite = (id: number) =>
      `testSuite(buildIds: ["${id}"]) { suiteError testCases(first: 1) { nodes { name } } }`;
    const { data } = await reporter.graphql(`{ project(fullPath: "${project.path_with_namespace}") {
      pipeline(id: "gid://gitlab/Ci::Pipeline/${job.pipelineId}") { a: ${suite(job.id)} b: ${suite(second.id)} } } }`);
    const errors = Object.values(data.project.pipeline).map((each) =>
      z.object({ suiteError: z.unknown() }).parse(each),
    );
    // Both are read at the same time, so either may come too late.
    expect(errors.map((each) => each.suiteError)).toContain(suiteError);
  });
});
