import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { loadCatalogue } from '../languages/catalogue.ts';
import { languagesByProjects, type ProjectLanguage } from '../languages.ts';

const loadLanguages = loader(languagesByProjects);

const RepositoryLanguageRef = builder.objectRef<ProjectLanguage>('RepositoryLanguage').implement({
  description: 'A language that a project is written in.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    share: t.exposeFloat('share', { description: 'Percent of the bytes whose language is known.' }),
    color: t.string({
      description: 'Such as `#3572A5`.',
      resolve: async ({ name }) => (await loadCatalogue()).colorOf(name),
    }),
  }),
});

projectField('languages', JUDGED, (t) =>
  t.field({
    type: [RepositoryLanguageRef],
    nullable: { list: true, items: false },
    description: 'Largest share first. Null if the caller may not read the code.',
    resolve: async (project, _args, ctx) =>
      can(ctx, project, 'read_code') ? ((await loadLanguages(ctx, project.id)) ?? []) : null,
  }),
);
