import { CustomAttributeRef, customAttributesLoader } from '#domains/custom-attributes/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { GroupRef } from './group.ts';

const load = customAttributesLoader('groups');

builder.objectField(GroupRef, 'customAttributes', (t) =>
  t.field({
    type: [CustomAttributeRef],
    nullable: true,
    description: 'For administrators; null for others.',
    resolve: (owner, _args, ctx) => load(ctx, owner.id),
  }),
);
