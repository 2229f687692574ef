import { JUDGED, ProjectRef, readsOfProject } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { openCountsByProjects } from '../counts.ts';

const loadOpenCount = loader(openCountsByProjects);

readsOfProject('openMergeRequestsCount', JUDGED);
builder.objectField(ProjectRef, 'openMergeRequestsCount', (t) =>
  t.int({
    description: 'Only for callers who can read merge requests.',
    resolve: async (project, _args, ctx) =>
      can(ctx, project, 'read_merge_request') ? ((await loadOpenCount(ctx, project.id)) ?? 0) : null,
  }),
);
