import { CustomAttributeRef, customAttributesLoader } from '#domains/custom-attributes/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { GroupRef } from '../graphql.ts';

const load = customAttributesLoader('groups');

builder.objectField(GroupRef, 'customAttributes', (t) =>
  t.field({
    type: [CustomAttributeRef],
    nullable: true,
    description: 'Only for administrators; null for other callers.',
    resolve: (owner, _args, ctx) => load(ctx, owner.id),
  }),
);
