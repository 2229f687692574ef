import { projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';
import { REPOSITORY_PARTS, type RepositoryProject } from '../model.ts';

/** The repository of a project. Other files add fields. */
export const RepositoryRef = builder.objectRef<RepositoryProject>('Repository').implement({
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

projectField('repository', REPOSITORY_PARTS, (t) =>
  t.field({
    type: RepositoryRef,
    nullable: true,
    description: 'Null if the caller may not read the code.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? project : null),
  }),
);
