import { html } from 'ghtml';
import { PipelineRef } from '#domains/ci/graphql.ts';
import { isMergeRequestRef, mergeRequestEventType } from '#domains/ci/model.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { contentPath } from '#domains/repositories/model.ts';
import { builder } from '#graphql/builder.ts';
import type { Context } from '#platform/context.ts';
import { MergeRequestRef } from '../graphql.ts';
import type { MergeRequestRow } from '../queries.ts';
import { loadMergeRequest } from './lists.ts';

/** Returns the merge request of a pipeline, or null if the caller cannot see it. */
const mergeRequestOf = (ctx: Context, { merge_request_id: id }: PipelineRow): Promise<MergeRequestRow | null> | null =>
  id === null ? null : loadMergeRequest(ctx, id);

const linkToRef = (full_path: string, ref: string): string =>
  html`<a class="ref-container" href="${contentPath({ full_path }, 'tree', ref, '')}">${ref}</a>`;

const refText = async (ctx: Context, row: PipelineRow): Promise<string | null> => {
  const { ref, project_path } = row;
  if (ref === null) return null;
  if (!isMergeRequestRef(ref)) return html`For !${linkToRef(project_path, ref)}`;
  const request = await mergeRequestOf(ctx, row);
  if (!request) return html`For ${ref}`;
  const { iid, source_branch, target_branch } = request;
  const link = html`<a class="mr-iid ref-container" href="/${request.project_path}/-/merge_requests/${iid}">!${`!${iid}`}</a>`;
  // The source branch may be in a fork that the caller cannot see, so it has no link.
  const text = html`Related merge request !${link} to merge ${source_branch}`;
  return mergeRequestEventType(row) === 'merged_result'
    ? html`!${text} into !${linkToRef(request.project_path, target_branch)}`
    : text;
};

builder.objectFields(PipelineRef, (t) => ({
  mergeRequest: t.field({
    type: MergeRequestRef,
    description: 'The merge request that it was created for, if the caller can see it.',
    resolve: (row, _args, ctx) => mergeRequestOf(ctx, row),
  }),
  refText: t.string({
    description: 'What it runs for, as HTML with links: its branch or tag, or its merge request.',
    resolve: (row, _args, ctx) => refText(ctx, row),
  }),
}));
