import { z } from 'zod';
import { boolean, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { cancelAutoMerge } from '../merging/auto-merge.ts';
import { mergeMergeRequest } from '../merging.ts';
import { requestRebase } from '../rebasing.ts';
import { mergeRequestRecord } from '../record.ts';
import { getMergeRefCommit } from '../versions/refresh.ts';
import { findMergeRequest, one, wholeRecord } from './one.ts';

const tag = 'Merge requests';
const MAX_MESSAGE = 100_000;

export const mergingRoutes = [
  route({
    method: 'PUT',
    path: '/projects/:id/merge_requests/:merge_request_iid/merge',
    tag,
    summary: 'Merge a merge request',
    description:
      '`401` if the caller may neither push nor merge to the target branch. With `auto_merge`, it is merged as soon as nothing is in the way any more; `405` if there is nothing to wait for and no pipeline that has succeeded.',
    refusals: {
      405: 'Something other than the code is in the way: see `detailed_merge_status`.',
      409: '`sha` is not the head of the source branch.',
      422: 'The branches cannot be merged.',
    },
    input: {
      ...one,
      merge_commit_message: text({ max: MAX_MESSAGE }).optional(),
      squash_commit_message: text({ max: MAX_MESSAGE }).optional(),
      squash: boolean().optional(),
      sha: text({ max: 64 }).optional(),
      should_remove_source_branch: boolean().optional(),
      merge_when_pipeline_succeeds: boolean().optional(),
      /** The present name of `merge_when_pipeline_succeeds`. Clients for servers of all ages send both. */
      auto_merge: boolean().optional(),
    },
    response: mergeRequestRecord,
    run: async (ctx, { id, merge_request_iid, auto_merge, merge_when_pipeline_succeeds, ...input }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const merged = await mergeMergeRequest(ctx, project, row, {
        ...input,
        auto_merge: auto_merge || merge_when_pipeline_succeeds,
      });
      return wholeRecord(ctx, project, merged);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/merge_requests/:merge_request_iid/cancel_merge_when_pipeline_succeeds',
    tag,
    summary: 'Cancel auto-merge',
    description:
      'For everyone who can merge, and for the author. The answer has `status` `success`; or `error` with `http_status` 406 if auto-merge is not set.',
    input: one,
    response: z.object({
      status: z.enum(['success', 'error']),
      message: z.string().optional(),
      http_status: z.int().optional(),
    }),
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      if (await cancelAutoMerge(ctx, project, row)) return { status: 'success' as const };
      return { status: 'error' as const, message: NOT_SET, http_status: 406 };
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/merge_requests/:merge_request_iid/rebase',
    tag,
    summary: 'Rebase the source branch of a merge request',
    description:
      'Rebases onto the target branch in the background. `rebase_in_progress` of the merge request, with `include_rebase_in_progress`, and `merge_error` tell how it went. `403` if the caller may not rewrite the source branch, `409` if the merge request is not open or is being rebased.',
    status: 202,
    input: { ...one, skip_ci: boolean().default(false) },
    response: z.object({ rebase_in_progress: z.boolean() }),
    run: async (ctx, { id, merge_request_iid, skip_ci }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      await requestRebase(ctx, project, row, { skip_ci });
      return { rebase_in_progress: true };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid/merge_ref',
    tag,
    summary: 'Get the commit that merging would make',
    description:
      'Brings `refs/merge-requests/:merge_request_iid/merge` up to date and returns its commit. `400` if the merge request is not open, or its branches conflict.',
    input: one,
    response: z.object({ commit_id: z.string() }),
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      return { commit_id: await getMergeRefCommit(ctx, project, row) };
    },
  }),
] satisfies readonly Route[];

const NOT_SET = "Can't cancel the automatic merge";
