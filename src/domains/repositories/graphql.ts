import './graphql/branch-rules.ts';
import './graphql/branches.ts';
import './graphql/languages.ts';
import './graphql/protected-branches.ts';
import './graphql/protected-tags.ts';
import './graphql/tags.ts';
import './graphql/trees.ts';
import './graphql/writing.ts';
import './graphql/upkeep.ts';

export { CommitRef } from './graphql/commits.ts';
