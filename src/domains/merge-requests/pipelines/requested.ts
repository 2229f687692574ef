import type { PipelineRow } from '#domains/ci/queries.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { getMergeRequest, type MergeRequestRow } from '../queries.ts';
import { refreshNow } from '../versions/refresh.ts';
import { createMergeRequestPipeline, createMergeRequestPipelineLater } from './pipelines.ts';

/** Creates the pipeline that the caller requests. @throws DomainError as `createMergeRequestPipeline` */
export const requestPipeline = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<PipelineRow> =>
  createMergeRequestPipeline(ctx, project, await prepared(ctx, project, row));

/** The same later. @throws DomainError as `createMergeRequestPipelineLater` */
export const requestPipelineLater = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<void> =>
  createMergeRequestPipelineLater(ctx, project, await prepared(ctx, project, row));

/** Before the first version, there is no head to run for. */
const prepared = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<MergeRequestRow> => {
  if (row.merge_status !== 'preparing') return row;
  await refreshNow(ctx, row.id);
  return getMergeRequest(ctx, project, row.iid);
};
