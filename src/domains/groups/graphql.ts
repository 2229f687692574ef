import './graphql/custom-attributes.ts';
import './graphql/mutations.ts';
import './graphql/namespaces.ts';

// The front door: other domains add to these.
export { GroupConnection, GroupRef, loadGroup, NamespaceRef } from './graphql/group.ts';
