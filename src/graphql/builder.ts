import SchemaBuilder from '@pothos/core';
import DataloaderPlugin from '@pothos/plugin-dataloader';
import RelayPlugin from '@pothos/plugin-relay';
import WithInputPlugin from '@pothos/plugin-with-input';
import type { Context } from '#platform/context.ts';
import { ID_SCALARS, type IdScalarTypes, idScalar, MODEL_ID_SCALARS, modelIdScalar } from './ids.ts';
import { type PlainScalarTypes, plainScalars } from './scalars.ts';

/** The type parameters of the builder. Kits refer to them as `Types`. */
export interface SchemaTypes {
  Context: Context;
  Scalars: PlainScalarTypes & IdScalarTypes;
  /** The properties of every connection beside edges and pageInfo (connection.ts). */
  Connection: { readonly count: (atMost?: number) => number | Promise<number> };
  DefaultEdgesNullability: { list: true; items: true };
  DefaultNodeNullability: true;
}

/**
 * The only schema builder. Domains add to it from their `graphql.ts`. A downstream domain adds fields to an upstream
 * type with `builder.objectField(GroupRef, 'issues', ...)`. Fields are nullable unless they declare `nullable:
 * false`.
 */
export const builder = new SchemaBuilder<SchemaTypes>({
  plugins: [RelayPlugin, WithInputPlugin, DataloaderPlugin],
  relay: {
    // Global ids come from ids.ts. The relay plugin only provides connections.
    nodeQueryOptions: false,
    nodesQueryOptions: false,
    clientMutationId: 'omit',
    cursorType: 'String',
    nodesOnConnection: true,
    edgesFieldOptions: { nullable: { list: true, items: true } },
    nodeFieldOptions: { nullable: true },
  },
  withInput: {
    typeOptions: { name: ({ fieldName }) => `${fieldName.charAt(0).toUpperCase()}${fieldName.slice(1)}Input` },
  },
});

export type Types = (typeof builder)['$inferSchemaTypes'];

/** Makes the fields of an input object. */
export type InputFields = PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>;

// mutation.ts and subscription.ts create the other root types: a root type without fields makes the schema invalid.
builder.queryType({});

builder.globalConnectionField('count', (t) =>
  t.int({ nullable: false, description: 'The total number of items.', resolve: (connection) => connection.count() }),
);

for (const scalar of plainScalars) builder.addScalarType(scalar.name, scalar.type);
for (const name of Object.keys(ID_SCALARS).filter(isKeyOf(ID_SCALARS))) builder.addScalarType(name, idScalar(name));
for (const name of Object.keys(MODEL_ID_SCALARS).filter(isKeyOf(MODEL_ID_SCALARS))) {
  builder.addScalarType(name, modelIdScalar(name));
}

function isKeyOf<T extends object>(table: T) {
  return (name: string): name is keyof T & string => name in table;
}
