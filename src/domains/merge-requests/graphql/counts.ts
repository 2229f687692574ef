import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { loader } from '#graphql/loaders.ts';
import { openCountsByProjects } from '../lists/counts.ts';

const loadOpenCount = loader(openCountsByProjects);

projectField('openMergeRequestsCount', JUDGED, (t) =>
  t.int({
    description: 'Only for callers who can read merge requests.',
    resolve: async (project, _args, ctx) =>
      can(ctx, project, 'read_merge_request') ? ((await loadOpenCount(ctx, project.id)) ?? 0) : null,
  }),
);
