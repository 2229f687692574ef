import { mountCollector } from '#domains/error-ingest/endpoints.ts';
import { mountOAuth } from '#domains/oauth/endpoints.ts';
import { mountGit } from '#domains/repositories/git-http.ts';
import { mountSecurityTxt } from '#domains/settings/endpoints.ts';
import { detourFor } from '#domains/sign-in/pages/obligations.ts';
import { mountPages } from '#pages/mount.ts';
import type { Mount } from './http.ts';
import { pages } from './pages.ts';

/** Everything served besides REST and GraphQL, a line per domain: git over HTTP, OAuth, error reports, security.txt, pages. */
export const mounts: readonly Mount[] = [
  mountGit,
  mountOAuth,
  mountCollector,
  mountSecurityTxt,
  mountPages(pages, detourFor),
];
