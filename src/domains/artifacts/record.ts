import { z } from 'zod';
import type { JobRow } from '#domains/ci/queries.ts';
import { jobRecord, toJobs } from '#domains/ci/record.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { apiLink } from '#rest/v5.ts';
import { baseName } from './model.ts';
import { isDirectory } from './zip/entry.ts';
import type { TreeItem } from './zip/index-file.ts';

/** The job after its artifacts were kept (specification 1 §2.6). */
export const keptJobRecord = jobRecord.extend({ download_url: apiLink(z.string()).nullable() }).meta({ id: 'KeptJob' });

export const toKeptJob = async (
  ctx: Context,
  project: ProjectRow,
  job: JobRow,
): Promise<z.output<typeof keptJobRecord>> => {
  const [record] = await toJobs(ctx, project, [job]);
  if (!record) throw notFound();
  const hasArchive = record.artifacts.some(({ file_type }) => file_type === 'archive');
  return {
    ...record,
    download_url: hasArchive
      ? `${ctx.services.urls.base}/api/v4/projects/${project.id}/jobs/${job.id}/artifacts`
      : null,
  };
};

export const treeItemRecord = z
  .object({
    name: z.string(),
    path: z.string(),
    type: z.enum(['file', 'directory']),
    size: z.int().nullable(),
    mode: z.string().nullable(),
  })
  .meta({ id: 'ArtifactTreeItem' });

export const toTreeItem = ({ path, entry }: TreeItem): z.output<typeof treeItemRecord> => {
  const directory = isDirectory({ path });
  return {
    name: baseName(path),
    path: path.replace(/\/$/, ''),
    type: directory ? 'directory' : 'file',
    size: directory || !entry ? null : entry.size,
    mode: entry && entry.mode !== 0 ? entry.mode.toString(8) : null,
  };
};
