import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';
import { commitWebUrl } from './model.ts';

/** The longest commit message in a body. */
const MAX_MESSAGE = 64 * 1024;

/** Returns the commit object of webhook bodies (reference: webhooks §3). Pushes add the changed files. */
export const hookCommit = (ctx: Pick<Context, 'services'>, project: Pick<ProjectRow, 'full_path'>, commit: Commit) => ({
  id: commit.id,
  message: commit.message.slice(0, MAX_MESSAGE),
  title: commit.title.slice(0, MAX_MESSAGE),
  timestamp: commit.committed_date,
  url: commitWebUrl(ctx, project, commit.id),
  author: { name: commit.author_name, email: commit.author_email },
});
