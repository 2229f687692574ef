import './graphql/activities.ts';
import './graphql/emails.ts';
import './graphql/custom-attributes.ts';
import './graphql/follows.ts';
import './graphql/lists.ts';
import './graphql/mutations.ts';
import './graphql/profile.ts';
import './graphql/states.ts';

// The public exports: other domains add fields to these.
export { currentPassword } from './graphql/proof.ts';
export { CurrentUserRef, loadUser, UserConnection, UserRef } from './graphql/user.ts';
