// The front door for other domains.
export { isProtectedRef } from './protections.ts';
export { getCommit } from './queries/commits.ts';
export { listTags } from './queries/tags.ts';
