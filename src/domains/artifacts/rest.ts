import { z } from 'zod';
import { getJob } from '#domains/ci/queries.ts';
import { jobRecord, toJobs } from '#domains/ci/record.ts';
import { getProject } from '#domains/projects/queries.ts';
import { notFound } from '#platform/errors.ts';
import { boolean, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route, streamRoute } from '#rest/route.ts';
import { getArchiveFile, pageOfTree } from './archive.ts';
import { deleteArtifactsOfJob, expireArtifactsOfProject, keepArtifacts } from './commands.ts';
import { eraseJob } from './erasing.ts';
import { baseName, contentTypeOf, DOWNLOADABLE } from './model.ts';
import { getArchive, getArtifact, getLatestArchive } from './queries.ts';
import { keptJobRecord, toKeptJob, toTreeItem, treeItemRecord } from './record.ts';
import { fileOfArchive, wholeFile } from './rest/downloads.ts';

const tag = 'Job artifacts';
const ofJob = { id: idOrPath(), job_id: integer({ min: 1 }) };
const artifact_path = text({ max: 4_096 }).describe('The path of a file inside the archive.');
const ofRef = {
  id: idOrPath(),
  ref_name: text({ max: 1_000 }).describe('A branch or tag. `HEAD` and commit ids are not supported.'),
  job: text({ max: 1_000 }).describe('The whole name of the job.'),
  search_recent_successful_pipelines: boolean()
    .default(false)
    .describe('Searches the last 100 successful pipelines, not only the newest.'),
};

export const routes = [
  streamRoute({
    method: 'GET',
    path: '/projects/:id/jobs/:job_id/artifacts',
    tag,
    summary: 'Download the artifacts of a job',
    description: 'As the file that the runner uploaded: the zip of its archive, or a report.',
    auth: 'optional',
    jobTokens: true,
    assumable: true,
    input: { ...ofJob, file_type: oneOf(DOWNLOADABLE).default('archive') },
    run: async (ctx, { id, job_id, file_type }) => {
      const project = await getProject(ctx, id);
      const isArchive = file_type === 'archive';
      return wholeFile(
        ctx,
        isArchive ? await getArchive(ctx, project, job_id) : await getArtifact(ctx, project, job_id, file_type),
      );
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/jobs/artifacts/*ref_name/download',
    tag,
    summary: 'Download the newest artifacts of a branch or tag',
    description:
      'Those of a job of the newest successful pipeline. Child pipelines count, but their parent comes first. Pipelines of merge requests do not count.',
    auth: 'optional',
    jobTokens: true,
    assumable: true,
    input: ofRef,
    run: async (ctx, { id, ref_name: ref, job, search_recent_successful_pipelines: searchOlder }) =>
      wholeFile(ctx, await getLatestArchive(ctx, await getProject(ctx, id), { ref, job, searchOlder })),
  }),
  listRoute({
    path: '/projects/:id/jobs/:job_id/artifacts/tree',
    tag,
    summary: 'List the files in the artifacts of a job',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: {
      ...ofJob,
      path: text({ max: 4_096 }).default('').describe('A directory of the archive. Its root by default.'),
      recursive: boolean().default(false),
    },
    item: treeItemRecord,
    run: async (ctx, { id, job_id, ...at }, page) => {
      const archive = await getArchive(ctx, await getProject(ctx, id), job_id);
      const { items, hasNext } = await pageOfTree(ctx, archive, at, page);
      return { items: items.map(toTreeItem), hasNext };
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/jobs/:job_id/artifacts/*artifact_path',
    tag,
    summary: 'Download a file of the artifacts of a job',
    auth: 'optional',
    jobTokens: true,
    assumable: true,
    input: { ...ofJob, artifact_path },
    run: async (ctx, { id, job_id, artifact_path: path }) => {
      const archive = await getArchive(ctx, await getProject(ctx, id), job_id, path);
      const file = await getArchiveFile(ctx, archive, path);
      return fileOfArchive(file, { contentType: contentTypeOf(path), filename: baseName(path) });
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/jobs/artifacts/*ref_name/raw/*artifact_path',
    tag,
    summary: 'Get a file of the newest artifacts of a branch or tag',
    description: 'As plain text, whatever it is. The job is found as for the download of the newest artifacts.',
    contentType: 'text/plain',
    auth: 'optional',
    jobTokens: true,
    assumable: true,
    input: { ...ofRef, artifact_path },
    run: async (
      ctx,
      { id, ref_name: ref, job, artifact_path: path, search_recent_successful_pipelines: searchOlder },
    ) => {
      const archive = await getLatestArchive(ctx, await getProject(ctx, id), { ref, job, searchOlder }, path);
      return fileOfArchive(await getArchiveFile(ctx, archive, path), { contentType: 'text/plain; charset=utf-8' });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/jobs/:job_id/artifacts/keep',
    tag,
    summary: 'Keep the artifacts of a job',
    description: 'They no longer expire.',
    status: 200,
    input: ofJob,
    response: keptJobRecord,
    run: async (ctx, { id, job_id }) => {
      const project = await getProject(ctx, id);
      await keepArtifacts(ctx, project, job_id);
      return toKeptJob(ctx, project, await getJob(ctx, project, job_id));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/jobs/:job_id/erase',
    tag: 'Jobs',
    summary: 'Erase the log and the artifacts of a job',
    description: 'For maintainers, and for developers who started the job. The job must have ended.',
    input: ofJob,
    response: jobRecord,
    run: async (ctx, { id, job_id }) => {
      const project = await getProject(ctx, id);
      await eraseJob(ctx, project, job_id);
      const [record] = await toJobs(ctx, project, [await getJob(ctx, project, job_id)]);
      if (!record) throw notFound();
      return record;
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/jobs/:job_id/artifacts',
    tag,
    summary: 'Delete the artifacts of a job',
    input: ofJob,
    response: null,
    run: async (ctx, { id, job_id }) => {
      await deleteArtifactsOfJob(ctx, await getProject(ctx, id), job_id);
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/artifacts',
    tag,
    summary: 'Delete the artifacts of a project',
    description:
      'All artifacts that are not locked expire now and are removed in the background. The newest successful pipeline of each branch and tag keeps its artifacts while the settings say so. Logs are never deleted.',
    status: 202,
    input: { id: idOrPath() },
    response: z.object({ message: z.literal('202 Accepted') }),
    run: async (ctx, { id }) => {
      await expireArtifactsOfProject(ctx, await getProject(ctx, id));
      return { message: '202 Accepted' as const };
    },
  }),
] satisfies readonly Route[];
