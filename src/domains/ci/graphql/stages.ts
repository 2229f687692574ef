import { loadProject } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { jobsByStageIds } from '../family.ts';
import {
  DetailedStatusRef,
  JobConnection,
  JobRef,
  loadPipeline,
  loadStage,
  type ShownStatus,
  type StageNode,
  StageRef,
  shownStatus,
} from '../graphql.ts';
import { detailedStatus, nameOfParallel, pipelinePath, statusOf } from '../model.ts';
import { statusOfJobs } from '../processing/status.ts';
import type { JobRow } from '../queries.ts';

// Stages as pages draw them: parallel jobs under one name, with one status.

const loadJobs = loader(jobsByStageIds);

interface JobGroup {
  readonly stage: StageNode;
  /** The name that its jobs share. */
  readonly name: string;
  readonly jobs: readonly JobRow[];
}

const statusOfGroup = ({ stage, jobs }: JobGroup): ShownStatus => {
  const [only, ...others] = jobs;
  if (only && others.length === 0) return shownStatus(only);
  const warnings = jobs.some(({ status, allow_failure }) => status === 'failed' && allow_failure);
  return detailedStatus(
    statusOfJobs(jobs.map((job) => ({ ...job, status: statusOf(job) }))) ?? 'created',
    pipelinePath(stage.pipeline),
    warnings,
  );
};

const GroupRef = builder.objectRef<JobGroup>('CiGroup').implement({
  description: 'A job of a stage, or parallel jobs of one name.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ stage, name }) => `${stage.id}-${name}` }),
    name: t.exposeString('name'),
    size: t.int({ description: 'The number of its jobs.', resolve: ({ jobs }) => jobs.length }),
    detailedStatus: t.field({ type: DetailedStatusRef, resolve: statusOfGroup }),
    jobs: t.connection(
      {
        type: JobRef,
        extensions: { usualSize: 2 },
        resolve: ({ jobs }, args, _ctx, info) =>
          connection(args, info, async (page) => pageOfAll(page, jobs, ({ id }) => [id])),
      },
      JobConnection,
    ),
  }),
});
const GroupConnection = builder.connectionObject(
  { type: GroupRef, name: 'CiGroupConnection' },
  { name: 'CiGroupEdge' },
);

builder.objectField(StageRef, 'groups', (t) =>
  t.connection(
    {
      type: GroupRef,
      // All jobs of a stage are loaded, however small the page.
      extensions: { usualSize: 20, cost: 50 },
      description: 'Its current jobs. Parallel jobs of one name form a group.',
      resolve: (stage, args, ctx, info) =>
        connection(args, info, async (page) => {
          const byName = Map.groupBy((await loadJobs(ctx, stage.id)) ?? [], ({ name }) => nameOfParallel(name));
          const groups = [...byName].map(([name, jobs]): JobGroup => ({ stage, name, jobs }));
          return pageOfAll(page, groups, ({ name }) => [name]);
        }),
    },
    GroupConnection,
  ),
);

builder.queryField('ciPipelineStage', (t) =>
  t.field({
    type: StageRef,
    description: 'A stage of a pipeline that the caller can see.',
    args: { id: t.arg({ type: 'CiStageID', required: true }) },
    resolve: async (_root, { id }, ctx) => findStage(ctx, id),
  }),
);

const findStage = async (ctx: Context, id: number): Promise<StageNode | null> => {
  const stage = await loadStage(ctx, id);
  const pipeline = stage && (await loadPipeline(ctx, stage.pipeline_id));
  const project = pipeline && (await loadProject(ctx, pipeline.project_id));
  return project && can(ctx, project, 'read_pipeline') ? { ...stage, pipeline } : null;
};
