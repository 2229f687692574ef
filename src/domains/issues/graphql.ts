import './graphql/lists.ts';
import './graphql/mutations.ts';

// The public exports. Other domains extend this.
export { IssueRef } from './graphql/issue.ts';
