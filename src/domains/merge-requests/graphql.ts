import './graphql/counts.ts';
import './graphql/lists.ts';

// The public exports. Other domains extend these.
export { MergeRequestRef } from './graphql/merge-request.ts';
