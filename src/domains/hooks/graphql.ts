import './graphql/types.ts';
import './graphql/mutations.ts';
import './graphql/subscriptions.ts';
