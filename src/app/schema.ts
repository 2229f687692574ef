import type { GraphQLSchema } from 'graphql';
import '#domains/access/graphql.ts';
import '#domains/events/graphql.ts';
import { builder } from '#graphql/builder.ts';
import '#graphql/cost.ts';

// A line per domain: each adds its types and fields to the builder.
import '#domains/metadata/graphql.ts';
import '#domains/settings/graphql.ts';
import '#domains/custom-attributes/graphql.ts';
import '#domains/users/graphql.ts';
import '#domains/sign-in/graphql.ts';
import '#domains/tokens/graphql.ts';
import '#domains/oauth/graphql.ts';
import '#domains/groups/graphql.ts';
import '#domains/service-accounts/graphql.ts';
import '#domains/topics/graphql.ts';
import '#domains/projects/graphql.ts';
import '#domains/aliases/graphql.ts';
import '#domains/push-rules/graphql.ts';
import '#domains/repositories/graphql.ts';
import '#domains/members/graphql.ts';
import '#domains/saml/graphql.ts';
import '#domains/directory/graphql.ts';
import '#domains/uploads/graphql.ts';
import '#domains/labels/graphql.ts';
import '#domains/milestones/graphql.ts';
import '#domains/hooks/graphql.ts';
import '#domains/issues/graphql.ts';
import '#domains/transfers/graphql.ts';
import '#domains/ci/graphql.ts';
import '#domains/merge-requests/graphql.ts';
import '#domains/notes/graphql.ts';
import '#domains/emoji/graphql.ts';
import '#domains/releases/graphql.ts';
import '#domains/runners/graphql.ts';

/** The GraphQL schema of the hub. */
export const schema: GraphQLSchema = builder.toSchema();
