import { updateIssue } from '#domains/issues/commands.ts';
import { issueEffortsByIds } from '#domains/issues/queries.ts';
import { updateMergeRequest } from '#domains/merge-requests/commands.ts';
import { mergeRequestStatsByIds } from '#domains/merge-requests/queries.ts';
import { type QuickResult, readQuickActions } from '#domains/planning/quick-changes.ts';
import { subscribe } from '#domains/planning/subscriptions.ts';
import type { Context } from '#platform/context.ts';
import type { Noteable } from './noteable.ts';

/**
 * Takes the quick actions out of a comment, and returns what they change. Null if there are none.
 *
 * @throws DomainError as `readQuickActions`
 */
export const quickActionsIn = (ctx: Context, noteable: Noteable, body: string): Promise<QuickResult | null> => {
  const { kind, id, project, issue, mergeRequest } = noteable;
  return readQuickActions(ctx, project, kind, body, {
    isAuthor: (issue ?? mergeRequest)?.author_id === ctx.actor.userId,
    people: async () => {
      if (issue) {
        const details = (await issueEffortsByIds(ctx, [id])).get(id);
        return { assignee_ids: details?.assignee_ids ?? [], reviewer_ids: [] };
      }
      const stats = (await mergeRequestStatsByIds(ctx, [id])).get(id);
      return { assignee_ids: stats?.assignee_ids ?? [], reviewer_ids: stats?.reviewer_ids ?? [] };
    },
    inComment: true,
  });
};

/** Makes the changes of quick actions. Their commands are left. @throws DomainError as `updateIssue`, `updateMergeRequest` */
export const applyQuickActions = async (
  ctx: Context,
  noteable: Noteable,
  { changes, subscribed }: QuickResult,
): Promise<void> => {
  const { kind, project, issue, mergeRequest } = noteable;
  if (Object.keys(changes).length > 0) {
    if (issue) await updateIssue(ctx, project, issue, changes);
    if (mergeRequest) await updateMergeRequest(ctx, project, mergeRequest, changes);
  }
  if (subscribed !== undefined) await subscribe(ctx, kind, noteable, subscribed);
};
