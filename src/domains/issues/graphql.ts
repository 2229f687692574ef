import './graphql/lists.ts';
import './graphql/mutations.ts';

// The front door: other domains add to this.
export { IssueRef } from './graphql/issue.ts';
