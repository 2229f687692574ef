import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { JobConnection, JobRef } from '../graphql.ts';
import type { JobRow } from '../queries.ts';
import {
  listResourceGroupsBelow,
  PROCESS_MODES,
  type ResourceGroupRow,
  resourceGroupsByIds,
  setProcessMode,
  upcomingJobsOf,
} from '../resource-groups.ts';

const ProcessModeEnum = builder.enumType('CiResourceGroupProcessMode', { values: upperCase(PROCESS_MODES) });

const loadUpcoming = loader(
  async (ctx: Context, ids: readonly number[]): Promise<ReadonlyMap<number, readonly JobRow[]>> => {
    const groups = await resourceGroupsByIds(ctx, ids);
    return upcomingJobsOf(ctx, [...groups.values()]);
  },
);

/** Resolvers must have checked `read_pipeline`. */
const ResourceGroupRef = builder.objectRef<ResourceGroupRow>('CiResourceGroup').implement({
  description: 'A resource that one job at a time may use.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::ResourceGroup', id) }),
    key: t.exposeString('key', { nullable: false }),
    processMode: t.field({
      type: ProcessModeEnum,
      nullable: false,
      description: 'Which of the waiting jobs gets the resource next.',
      resolve: ({ process_mode }) => PROCESS_MODES.find((mode) => mode === process_mode) ?? 'unordered',
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    upcomingJobs: t.connection(
      {
        type: JobRef,
        description: 'The jobs that wait for it, the next one first.',
        resolve: ({ id }, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, (await loadUpcoming(ctx, id)) ?? [], (job) => [job.id]),
          ),
      },
      JobConnection,
    ),
  }),
});
const ResourceGroupConnection = builder.connectionObject(
  { type: ResourceGroupRef, name: 'CiResourceGroupConnection' },
  { name: 'CiResourceGroupEdge' },
);

const resourceGroups = batchedConnection((ctx, _args: ConnectionArguments) => listResourceGroupsBelow(ctx));

projectField('ciResourceGroups', [...JUDGED, 'id'], (t) =>
  t.connection(
    {
      type: ResourceGroupRef,
      nullable: true,
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_pipeline') ? resourceGroups(project.id, args, ctx, info) : null,
    },
    ResourceGroupConnection,
  ),
);

mutationField('ciResourceGroupUpdate', {
  description: 'Changes which of the waiting jobs gets the resource next.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    key: t.string({ required: true }),
    processMode: t.field({ type: ProcessModeEnum, required: true }),
  }),
  payload: { resourceGroup: ResourceGroupRef },
  run: async (ctx, { projectPath, key, processMode }) => ({
    resourceGroup: await setProcessMode(ctx, await getProject(ctx, { path: projectPath }), key, processMode),
  }),
});
