import { TypeEnum } from '#domains/runners/graphql.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { builder } from '#graphql/builder.ts';
import { connection, listConnection, pageOfAll } from '#graphql/connection.ts';
import { CiJobKind, CiJobStatus, JobConnection, JobRef } from '../graphql.ts';
import { listAllJobs } from '../job-lists.ts';
import type { JobRow } from '../queries.ts';

// The jobs and the CI settings of the whole instance.

const NO_JOBS: readonly JobRow[] = [];

builder.queryField('jobs', (t) =>
  t.connection(
    {
      type: JobRef,
      description: 'The jobs of all projects, newest first. For administrators; empty for others.',
      args: {
        statuses: t.arg({ type: [CiJobStatus] }),
        jobKind: t.arg({ type: CiJobKind }),
        runnerTypes: t.arg({ type: [TypeEnum], description: 'Only jobs that such a runner got.' }),
      },
      resolve: (_root, { statuses, jobKind, runnerTypes, ...args }, ctx, info) => {
        if (!ctx.actor.isAdmin)
          return connection(args, info, async (page) => pageOfAll(page, NO_JOBS, ({ id }) => [id]));
        const filter = { statuses, kinds: jobKind ? [jobKind] : null, runner_types: runnerTypes };
        return listConnection(args, info, listAllJobs(ctx, filter));
      },
    },
    JobConnection,
  ),
);

const SettingsRef = builder.objectRef<{ readonly keep_latest_artifact: boolean }>('CiApplicationSettings').implement({
  description: 'Settings of the instance that decide about pipelines.',
  fields: (t) => ({
    keepLatestArtifact: t.exposeBoolean('keep_latest_artifact', {
      description: 'Whether the newest artifacts of each branch and tag are kept, unless their project says otherwise.',
    }),
  }),
});

builder.queryField('ciApplicationSettings', (t) =>
  t.field({
    type: SettingsRef,
    description: 'Null for anonymous callers.',
    resolve: async (_root, _args, ctx) => {
      if (ctx.actor.userId === null) return null;
      const { keep_latest_artifact } = await getSettings(ctx);
      return { keep_latest_artifact };
    },
  }),
);
