import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '#platform/git/types.ts';
import { commitWebUrl } from './model.ts';

/** What the message of one commit may weigh in a body. */
const MAX_MESSAGE = 64 * 1024;

/** The commit object of webhook bodies (reference: webhooks §3); pushes add the files it touched. */
export const hookCommit = (ctx: Pick<Context, 'services'>, project: Pick<ProjectRow, 'full_path'>, commit: Commit) => ({
  id: commit.id,
  message: commit.message.slice(0, MAX_MESSAGE),
  title: commit.title.slice(0, MAX_MESSAGE),
  timestamp: commit.committed_date,
  url: commitWebUrl(ctx, project, commit.id),
  author: { name: commit.author_name, email: commit.author_email },
});
