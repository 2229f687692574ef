import type { ProjectRow } from '#domains/projects/queries.ts';
import { commitEmail } from '#domains/users/commit-email.ts';
import { usersByIds } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import type { Commit, Identity } from '#platform/git/objects.ts';
import { fullReference, mergeRequestWebUrl } from '../model.ts';
import { type MergeRequestRow, mergeRequestStatsByIds } from '../queries.ts';
import { issuesClosedBy } from '../references.ts';
import type { MessageFacts } from './messages.ts';

/** How many commits messages may name. */
export const MAX_COMMITS = 100;

/** Returns what the messages of the merge may name. `commits` are the newest ones. */
export const factsOf = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  caller: Identity,
  commits: MessageFacts['commits'],
  oldest: Commit | null,
): Promise<MessageFacts> => {
  const stats = (await mergeRequestStatsByIds(ctx, [row.id])).get(row.id);
  const { reviewer_ids = [], approver_ids = [] } = stats ?? {};
  const people = await usersByIds(ctx, [...new Set([...reviewer_ids, ...approver_ids])]);
  const named = (ids: readonly number[]) =>
    Promise.all(
      ids
        .flatMap((id) => people.get(id) ?? [])
        .map(async (person) => `${person.name} <${await commitEmail(ctx, person)}>`),
    );
  const issues = await issuesClosedBy(ctx, project, row);
  return {
    source_branch: row.source_branch,
    target_branch: row.target_branch,
    title: row.title,
    description: row.description ?? '',
    reference: fullReference(row),
    local_reference: `!${row.iid}`,
    source_project_id: row.source_project_id,
    url: mergeRequestWebUrl(ctx, row),
    issues: issues.map(({ issue, project_path }) =>
      project_path === project.full_path ? `#${issue.iid}` : `${project_path}#${issue.iid}`,
    ),
    commits,
    oldest,
    reviewed_by: await named(reviewer_ids),
    approved_by: await named(approver_ids),
    merged_by: `${caller.name} <${caller.email}>`,
  };
};

/** Returns the oldest commit of the range. `newest` lists the newest ones. */
export const oldestOf = async (
  ctx: Context,
  project: ProjectRow,
  range: { readonly from: string; readonly not: readonly string[] },
  newest: readonly Commit[],
): Promise<Commit | null> => {
  if (newest.length < MAX_COMMITS) return newest.at(-1) ?? null;
  const { git } = ctx.services;
  const skip = (await git.countCommits(project.disk_path, range)) - 1;
  return (await git.listCommits(project.disk_path, { ...range, skip, limit: 1 }))[0] ?? null;
};

/** A squashed commit keeps the author of the merge request. */
export const authorOf = async (ctx: Context, { author_id }: MergeRequestRow, fallback: Identity): Promise<Identity> => {
  const author = author_id === null ? undefined : (await usersByIds(ctx, [author_id])).get(author_id);
  return author ? { name: author.name, email: await commitEmail(ctx, author), date: ctx.clock.now() } : fallback;
};
