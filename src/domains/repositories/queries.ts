// The exports for other domains.
export { isProtectedRef } from './protections.ts';
export { getCommit, listCommits } from './queries/commits.ts';
export { compare } from './queries/compare.ts';
export { getFile, readWhole } from './queries/files.ts';
export { listTags } from './queries/tags.ts';
