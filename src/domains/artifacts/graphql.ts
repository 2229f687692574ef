import { JobPermissionsRef, JobRef, PipelineRef } from '#domains/ci/graphql.ts';
import { jobOptions } from '#domains/ci/options.ts';
import { getJob } from '#domains/ci/queries.ts';
import { loadProject } from '#domains/projects/graphql.ts';
import { getProject } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import {
  deleteArtifact,
  deleteArtifactsByIds,
  deleteArtifactsOfJob,
  expireArtifactsOfProject,
  keepArtifacts,
} from './commands.ts';
import { eraseJob } from './erasing.ts';
import { DOWNLOADABLE, FILE_TYPES } from './model.ts';
import { canDownload } from './policy.ts';
import { type ArtifactRow, accessOf, artifactsByPipelineIds, listArtifactsBelow, projectOfJob } from './queries.ts';

const fileTypes: Record<string, { readonly value: string }> = {};
for (const type of FILE_TYPES) fileTypes[type.toUpperCase()] = { value: type };

const JobArtifactFileType = builder.enumType('JobArtifactFileType', { values: fileTypes });

/** Resolvers must have checked that the caller may read the job. */
const CiJobArtifact = builder.objectRef<ArtifactRow>('CiJobArtifact').implement({
  description: 'A file that a job left.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::JobArtifact', id) }),
    name: t.exposeString('filename', { nullable: true }),
    fileType: t.field({ type: JobArtifactFileType, nullable: true, resolve: ({ file_type }) => file_type }),
    size: t.exposeFloat('size', { nullable: false, description: 'In bytes.' }),
    expireAt: t.expose('expire_at', { type: 'Time', nullable: true }),
    downloadPath: t.string({
      nullable: true,
      description: 'The path of the download. Null for callers who may not download it, and for dotenv reports.',
      resolve: async (artifact, _args, ctx) => {
        const project = await loadProject(ctx, artifact.project_id);
        const type = DOWNLOADABLE.find((each) => each === artifact.file_type);
        if (!type || !project || !canDownload(ctx, project, accessOf(artifact))) return null;
        const path = `/api/v4/projects/${artifact.project_id}/jobs/${artifact.job_id}/artifacts`;
        return type === 'archive' ? path : `${path}?file_type=${type}`;
      },
    }),
  }),
});

const CiJobArtifactConnection = builder.connectionObject(
  { type: CiJobArtifact, name: 'CiJobArtifactConnection' },
  { name: 'CiJobArtifactEdge' },
);

const jobArtifacts = batchedConnection((ctx, _args: ConnectionArguments) => listArtifactsBelow(ctx));

builder.objectField(JobRef, 'artifacts', (t) =>
  t.connection(
    {
      type: CiJobArtifact,
      nullable: true,
      extensions: { usualSize: 3 },
      resolve: ({ id }, args, ctx, info) => jobArtifacts(id, args, ctx, info),
    },
    CiJobArtifactConnection,
  ),
);

const loadOfPipeline = loader(artifactsByPipelineIds);

builder.objectField(PipelineRef, 'jobArtifacts', (t) =>
  t.field({
    type: [CiJobArtifact],
    nullable: { list: true, items: false },
    description: 'The artifacts of its jobs, at most 1,000.',
    resolve: async ({ id }, _args, ctx) => (await loadOfPipeline(ctx, id)) ?? [],
  }),
);

builder.objectField(JobPermissionsRef, 'readJobArtifacts', (t) =>
  t.boolean({
    nullable: false,
    resolve: async (job, _args, ctx) => {
      const project = await loadProject(ctx, job.project_id);
      return project !== null && canDownload(ctx, project, jobOptions(job)?.artifacts?.access ?? 'all');
    },
  }),
);

mutationField('jobArtifactsDestroy', {
  description: 'Deletes the artifacts of a job. Its log stays.',
  input: (t) => ({ id: t.field({ type: 'JobID', required: true }) }),
  payload: { job: JobRef, destroyedArtifactsCount: 'Int' },
  run: async (ctx, { id }) => {
    const project = await projectOfJob(ctx, id);
    const destroyedArtifactsCount = await deleteArtifactsOfJob(ctx, project, id);
    return { job: await getJob(ctx, project, id), destroyedArtifactsCount };
  },
});

mutationField('artifactDestroy', {
  description: 'Deletes one artifact.',
  input: (t) => ({ id: t.field({ type: 'CiJobArtifactID', required: true }) }),
  payload: { artifact: CiJobArtifact },
  run: async (ctx, { id }) => ({ artifact: await deleteArtifact(ctx, id) }),
});

mutationField('jobErase', {
  description: 'Erases the log and the artifacts of a job that has ended.',
  input: (t) => ({ id: t.field({ type: 'JobID', required: true }) }),
  payload: { job: JobRef },
  run: async (ctx, { id }) => {
    const project = await projectOfJob(ctx, id);
    await eraseJob(ctx, project, id);
    return { job: await getJob(ctx, project, id) };
  },
});

mutationField('bulkDestroyJobArtifacts', {
  description: 'Deletes artifacts of a project, at most 50 at once. Those of other projects are left alone.',
  input: (t) => ({
    projectId: t.field({ type: 'ProjectID', required: true }),
    ids: t.field({ type: ['CiJobArtifactID'], required: true }),
  }),
  payload: { destroyedCount: 'Int', destroyedIds: ['CiJobArtifactID'] },
  run: async (ctx, { projectId, ids }) => {
    const destroyedIds = await deleteArtifactsByIds(ctx, await getProject(ctx, { id: projectId }), ids);
    return { destroyedCount: destroyedIds.length, destroyedIds };
  },
});

mutationField('jobArtifactsKeep', {
  description: 'Keeps the artifacts of a job: they no longer expire.',
  input: (t) => ({ id: t.field({ type: 'JobID', required: true }) }),
  payload: { job: JobRef },
  run: async (ctx, { id }) => {
    const project = await projectOfJob(ctx, id);
    await keepArtifacts(ctx, project, id);
    return { job: await getJob(ctx, project, id) };
  },
});

mutationField('projectArtifactsExpire', {
  description: 'Lets all artifacts of a project expire now, in the background. Locked ones stay.',
  input: (t) => ({ projectPath: t.id({ required: true }) }),
  payload: {},
  run: async (ctx, { projectPath }) => {
    await expireArtifactsOfProject(ctx, await getProject(ctx, { path: projectPath }));
    return {};
  },
});
