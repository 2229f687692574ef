import { JUDGED, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { type FetchDay, fetchesByProjects } from '../fetches.ts';
import { scheduleHousekeeping } from '../upkeep.ts';

const loadFetches = loader(fetchesByProjects);

const FetchDayRef = builder.objectRef<FetchDay>('ProjectFetchDay').implement({
  description: 'The number of fetches of a project on one day.',
  fields: (t) => ({
    date: t.expose('date', { type: 'Date', nullable: false }),
    count: t.exposeInt('count', { nullable: false }),
  }),
});

projectField('fetches', JUDGED, (t) =>
  t.field({
    type: [FetchDayRef],
    nullable: { list: true, items: false },
    description: 'The last 30 days, newest first, without days that had no fetches. Null below Reporter.',
    resolve: async (project, _args, ctx) =>
      can(ctx, project, 'read_statistics') ? ((await loadFetches(ctx, project.id)) ?? []) : null,
  }),
);

mutationField('projectHousekeeping', {
  description: 'Schedules a repack of the repository of a project. Only for Owners.',
  input: (t) => ({ fullPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { fullPath }) => {
    const project = await getProject(ctx, { path: fullPath });
    await scheduleHousekeeping(ctx, project);
    return { project };
  },
});
