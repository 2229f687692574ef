import type { GraphQLSchema } from 'graphql';
import { builder } from '#graphql/builder.ts';

// A line per domain: each adds its types and fields to the builder.

/** The GraphQL schema of the hub. */
export const schema: GraphQLSchema = builder.toSchema();
