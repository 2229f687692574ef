import './graphql/custom-attributes.ts';
import './graphql/lists.ts';
import './graphql/mutations.ts';

// The front door: other domains add to these.
export { JUDGED, loadProject, ProjectConnection, ProjectRef, projectParts, readsOfProject } from './graphql/project.ts';
