import { mountOAuth } from '#domains/oauth/endpoints.ts';
import { mountGit } from '#domains/repositories/git-http.ts';
import { detourFor } from '#domains/sign-in/pages/two-factor.ts';
import { mountPages } from '#pages/mount.ts';
import type { Mount } from './http.ts';
import { pages } from './pages.ts';

/** Everything served besides REST and GraphQL, a line per domain: git over HTTP, OAuth, pages. */
export const mounts: readonly Mount[] = [mountGit, mountOAuth, mountPages(pages, detourFor)];
