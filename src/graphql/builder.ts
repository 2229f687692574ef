import SchemaBuilder from '@pothos/core';
import DataloaderPlugin from '@pothos/plugin-dataloader';
import RelayPlugin from '@pothos/plugin-relay';
import WithInputPlugin from '@pothos/plugin-with-input';
import type { Context } from '#platform/context.ts';
import { ID_SCALARS, type IdScalarTypes, idScalar, MODEL_ID_SCALARS, modelIdScalar } from './ids.ts';
import { type PlainScalarTypes, plainScalars } from './scalars.ts';

/** What the builder knows of types; kits refer to it as `Types`. */
export interface SchemaTypes {
  Context: Context;
  Scalars: PlainScalarTypes & IdScalarTypes;
  /** What every connection carries beside edges and pageInfo (connection.ts). */
  Connection: { readonly count: () => number | Promise<number> };
  DefaultEdgesNullability: { list: true; items: true };
  DefaultNodeNullability: true;
}

/**
 * The one schema builder. Domains add to it from their `graphql.ts`; a downstream domain adds fields to an upstream
 * type with `builder.objectField(ProjectRef, 'issues', ...)`. Fields are nullable unless they say `nullable: false`.
 */
export const builder = new SchemaBuilder<SchemaTypes>({
  plugins: [RelayPlugin, WithInputPlugin, DataloaderPlugin],
  relay: {
    // Global ids are the ones of ids.ts; the relay plugin is here for connections.
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

// The other roots are made by mutation.ts and live.ts: a root without fields is no valid schema.
builder.queryType({});

builder.globalConnectionField('count', (t) =>
  t.int({ nullable: false, description: 'How many there are in all.', resolve: (connection) => connection.count() }),
);

for (const scalar of plainScalars) builder.addScalarType(scalar.name, scalar.type);
for (const name of Object.keys(ID_SCALARS).filter(isKeyOf(ID_SCALARS))) builder.addScalarType(name, idScalar(name));
for (const name of Object.keys(MODEL_ID_SCALARS).filter(isKeyOf(MODEL_ID_SCALARS))) {
  builder.addScalarType(name, modelIdScalar(name));
}

function isKeyOf<T extends object>(table: T) {
  return (name: string): name is keyof T & string => name in table;
}
