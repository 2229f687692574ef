import './graphql/branches.ts';
import './graphql/languages.ts';
import './graphql/protected-branches.ts';
import './graphql/tags.ts';

export { CommitRef } from './graphql/commits.ts';
