import { CustomAttributeRef, customAttributesLoader } from '#domains/custom-attributes/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { ProjectRef } from '../graphql.ts';

const load = customAttributesLoader('projects');

builder.objectField(ProjectRef, 'customAttributes', (t) =>
  t.field({
    type: [CustomAttributeRef],
    nullable: true,
    description: 'Only for administrators; null for other callers.',
    resolve: (owner, _args, ctx) => load(ctx, owner.id),
  }),
);
