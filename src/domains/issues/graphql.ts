import './graphql/lists.ts';
import './graphql/mutations.ts';

// The front door: other domains add to these.
export { IssueConnection, IssueRef, loadIssue } from './graphql/issue.ts';
