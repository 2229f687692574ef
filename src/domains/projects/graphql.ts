import './graphql/custom-attributes.ts';
import './graphql/lists.ts';
import './graphql/mutations.ts';

// The public exports. Other domains extend these.
export { JUDGED, loadProject, ProjectConnection, ProjectRef, projectParts, readsOfProject } from './graphql/project.ts';
