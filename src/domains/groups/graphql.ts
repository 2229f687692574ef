import './graphql/mutations.ts';

// The front door: other domains add to these.
export {
  GroupConnection,
  GroupRef,
  loadGroup,
  loadNamespace,
  type NamespaceNode,
  NamespaceRef,
  namespaceGid,
} from './graphql/group.ts';
