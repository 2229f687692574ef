import { mountGit } from '#domains/repositories/git-http.ts';
import type { Mount } from './http.ts';

/** What is served beside REST and GraphQL, a line per domain: git over HTTP, pages. */
export const mounts: readonly Mount[] = [mountGit];
