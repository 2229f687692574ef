import { CustomAttributeRef, customAttributesLoader } from '#domains/custom-attributes/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { UserRef } from '../graphql.ts';

const load = customAttributesLoader('users');

builder.interfaceField(UserRef, 'customAttributes', (t) =>
  t.field({
    type: [CustomAttributeRef],
    nullable: true,
    description: 'Visible to administrators; null for other callers.',
    resolve: (owner, _args, ctx) => load(ctx, owner.id),
  }),
);
