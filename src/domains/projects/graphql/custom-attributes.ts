import { CustomAttributeRef, customAttributesLoader } from '#domains/custom-attributes/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { ProjectRef } from './project.ts';

const load = customAttributesLoader('projects');

builder.objectField(ProjectRef, 'customAttributes', (t) =>
  t.field({
    type: [CustomAttributeRef],
    nullable: true,
    description: 'For administrators; null for others.',
    resolve: (owner, _args, ctx) => load(ctx, owner.id),
  }),
);
