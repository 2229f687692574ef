import { CustomAttributeRef, customAttributesLoader } from '#domains/custom-attributes/graphql.ts';
import { projectField } from '../graphql.ts';

const load = customAttributesLoader('projects');

projectField('customAttributes', ['id'], (t) =>
  t.field({
    type: [CustomAttributeRef],
    nullable: true,
    description: 'Only for administrators; null for other callers.',
    resolve: (owner, _args, ctx) => load(ctx, owner.id),
  }),
);
