import { RunnerRef } from '#domains/runners/graphql.ts';
import { visibleRunnersByIds } from '#domains/runners/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { CiJobStatus, JobConnection, JobRef } from '../graphql.ts';
import { listJobsOfRunnersBelow } from '../job-lists.ts';
import type { CiStatus } from '../model.ts';

const loadVisible = loader(visibleRunnersByIds);
const runnerJobs = batchedConnection(
  (ctx, { statuses }: ConnectionArguments & { readonly statuses?: readonly CiStatus[] | null | undefined }) =>
    listJobsOfRunnersBelow(ctx, { statuses, kinds: ['build'] }),
);

builder.objectField(RunnerRef, 'jobs', (t) =>
  t.connection(
    {
      type: JobRef,
      description:
        'The jobs that ran on it, newest first, as far as the caller can see them. Null for callers who do not manage it.',
      args: { statuses: t.arg({ type: [CiJobStatus] }) },
      resolve: async ({ id }, args, ctx, info) =>
        (await loadVisible(ctx, id)) ? runnerJobs(id, args, ctx, info) : null,
    },
    JobConnection,
  ),
);
