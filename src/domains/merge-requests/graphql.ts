import './graphql/counts.ts';
import './graphql/lists.ts';

// The front door: other domains add to these.
export { MergeRequestRef } from './graphql/merge-request.ts';
