import './graphql/lists.ts';
import './graphql/mutations.ts';

// The front door: other domains add to these.
export { loadUser, UserConnection, UserRef } from './graphql/user.ts';
