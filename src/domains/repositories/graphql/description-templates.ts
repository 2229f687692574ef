import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { type DescriptionTemplate, findTemplateText, listDescriptionTemplates } from '../description-templates.ts';
import { type InProject, READS_GIT } from './refs.ts';
import { RepositoryRef } from './repository.ts';

const TemplateKindEnum = builder.enumType('DescriptionTemplateKind', {
  values: { ISSUE: { value: 'issues' }, MERGE_REQUEST: { value: 'merge_requests' } } as const,
});

const DescriptionTemplateRef = builder.objectRef<InProject<DescriptionTemplate>>('DescriptionTemplate').implement({
  description: 'A text that descriptions of issues or merge requests may begin with.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    content: t.string({
      // One query may hold so many texts of up to 1 MiB.
      extensions: { cost: 50 },
      description: 'Null if it is not text or larger than 1 MiB.',
      resolve: (row, _args, ctx) => findTemplateText(ctx, row.project, row),
    }),
  }),
});
const DescriptionTemplateConnection = builder.connectionObject(
  { type: DescriptionTemplateRef, name: 'DescriptionTemplateConnection' },
  { name: 'DescriptionTemplateEdge' },
);

builder.objectField(RepositoryRef, 'descriptionTemplates', (t) =>
  t.connection(
    {
      type: DescriptionTemplateRef,
      nullable: false,
      ...READS_GIT,
      args: { kind: t.arg({ type: TemplateKindEnum, required: true }) },
      description: 'By name. The Markdown files in a folder of the default branch, such as `.gitlab/issue_templates`.',
      resolve: (project, { kind, ...args }, ctx, info) =>
        connection(args, info, async (page) => {
          const templates = await listDescriptionTemplates(ctx, project, kind);
          return pageOfAll(
            page,
            templates.map((template) => ({ ...template, project })),
            ({ name }) => [name],
          );
        }),
    },
    DescriptionTemplateConnection,
  ),
);
