import { JUDGED, ProjectRef, readsOfProject } from '#domains/projects/graphql.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';

/** The repository of a project. Other files add fields. */
export const RepositoryRef = builder.objectRef<ProjectRow>('Repository').implement({
  description: "A project's git repository.",
  fields: (t) => ({
    exists: t.boolean({ nullable: false, resolve: () => true }),
    empty: t.exposeBoolean('empty_repo', { nullable: false }),
    rootRef: t.string({
      nullable: true,
      description: 'The default branch. Null while the repository has no branch.',
      resolve: ({ empty_repo, default_branch }) => (empty_repo ? null : default_branch),
    }),
  }),
});

readsOfProject('repository', [...JUDGED, 'disk_path', 'default_branch', 'empty_repo', 'full_path']);
builder.objectField(ProjectRef, 'repository', (t) =>
  t.field({
    type: RepositoryRef,
    nullable: true,
    description: 'Null if the caller may not read the code.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? project : null),
  }),
);
