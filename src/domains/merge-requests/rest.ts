import { pipelineListRecord, pipelineRecord, toPipeline, toPipelineListed } from '#domains/ci/record.ts';
import { readPage } from '#platform/paging.ts';
import { boolean } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { recheckMergeStatus } from './merging/rechecking.ts';
import { requestPipeline, requestPipelineLater } from './pipelines/requested.ts';
import { countDivergedCommits, listMergeRequestPipelines } from './queries.ts';
import { mergeRequestRecord } from './record.ts';
import { approvalRuleRoutes } from './rest/approval-rules.ts';
import { approvalRoutes } from './rest/approvals.ts';
import { blockRoutes } from './rest/blocks.ts';
import { changelogRoutes } from './rest/changelog.ts';
import { diffRoutes } from './rest/diffs.ts';
import { issueRoutes } from './rest/issues.ts';
import { listRoutes } from './rest/lists.ts';
import { mergingRoutes } from './rest/merging.ts';
import { milestoneRoutes } from './rest/milestones.ts';
import { findMergeRequest as find, one, wholeRecord } from './rest/one.ts';
import { subscriptionRoutes } from './rest/subscriptions.ts';
import { versionRoutes } from './rest/versions.ts';
import { writingRoutes } from './rest/writing.ts';

const tag = 'Merge requests';

export const routes = [
  ...approvalRoutes,
  ...approvalRuleRoutes,
  ...blockRoutes,
  ...changelogRoutes,
  ...writingRoutes,
  ...mergingRoutes,
  ...versionRoutes,
  ...issueRoutes,
  ...milestoneRoutes,
  ...subscriptionRoutes,
  ...listRoutes,
  ...diffRoutes,
  route({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid',
    tag,
    summary: 'Get a merge request',
    auth: 'optional',
    jobTokens: true,
    input: {
      ...one,
      render_html: boolean().default(false),
      include_diverged_commits_count: boolean().default(false),
      include_rebase_in_progress: boolean().default(false),
    },
    response: mergeRequestRecord,
    run: async (ctx, input) => {
      const { project, row } = await find(ctx, input.id, input.merge_request_iid);
      await recheckMergeStatus(ctx, row);
      return wholeRecord(ctx, project, row, {
        renderHtml: input.render_html,
        divergedCommits: input.include_diverged_commits_count
          ? await countDivergedCommits(ctx, project, row)
          : undefined,
        includeRebase: input.include_rebase_in_progress,
      });
    },
  }),
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/pipelines',
    tag,
    summary: 'List the pipelines of a merge request',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: one,
    item: pipelineListRecord,
    run: async (ctx, { id, merge_request_iid }, page) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      const found = await readPage(listMergeRequestPipelines(ctx, project, row), page);
      return { ...found, items: found.items.map((pipeline) => toPipelineListed(ctx, pipeline)) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/merge_requests/:merge_request_iid/pipelines',
    tag,
    summary: 'Create a pipeline for a merge request',
    description:
      'Runs the jobs that the CI file has for merge requests, on `refs/merge-requests/:merge_request_iid/head`, or `/merge` if the project has `merge_pipelines_enabled`. `405` if the merge request is not open or has no commits. The pipeline of a fork runs in the target project if the caller may run pipelines there.',
    status: 200,
    input: {
      ...one,
      async: boolean().default(false).describe('Creates the pipeline later: the answer is 202, without a body.'),
    },
    response: pipelineRecord.optional(),
    run: async (ctx, { id, merge_request_iid, async }, http) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      if (!async) return toPipeline(ctx, await requestPipeline(ctx, project, row));
      await requestPipelineLater(ctx, project, row);
      http.setStatus(202);
      return undefined;
    },
  }),
] satisfies readonly Route[];
