import { approvalState } from '#domains/approvals/state.ts';
import {
  approveMergeRequest,
  mayApprove,
  reviewMergeRequest,
  unapproveMergeRequest,
} from '#domains/merge-requests/approving.ts';
import { mergeWhenReady } from '#domains/merge-requests/merging.ts';
import { mayMerge } from '#domains/merge-requests/policy.ts';
import { getMergeRequest, type MergeRequestRow } from '#domains/merge-requests/queries.ts';
import { requestRebase } from '#domains/merge-requests/rebasing.ts';
import type { QuickResult } from '#domains/planning/quick-changes.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, forbidden } from '#platform/errors.ts';
import { publishDraftNotes } from './drafts.ts';
import { getNoteable } from './noteable.ts';

// Quick actions that do more than change attributes of a merge request: `/approve`, `/merge` and the like.

type Commands = QuickResult['commands'];

/** The verdicts that `/submit_review` accepts. */
const VERDICTS = ['reviewed', 'approve', 'requested_changes'] as const;
type Verdict = (typeof VERDICTS)[number];

/** Refuses what the caller may not do, before anything runs. @throws DomainError `forbidden`, `bad_request` */
export const checkCommands = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  commands: Commands,
): Promise<void> => {
  for (const { name, argument } of commands) {
    const verdict = name === 'submit_review' ? verdictOf(argument) : null;
    const merges = name === 'merge';
    const approves = name === 'approve' || verdict === 'approve';
    if (merges && !(await mayMerge(ctx, project, row.target_branch))) throw refused(name);
    if (approves) {
      const state = await approvalState(ctx, row.id);
      if (!state || !mayApprove(ctx, project, state)) throw refused(name);
    }
  }
};

const refused = (name: string) => forbidden(`the quick action /${name} is not allowed`);

/** @throws DomainError `bad_request` */
const verdictOf = (argument: string): Verdict => {
  if (argument === '') return 'reviewed';
  const verdict = VERDICTS.find((each) => each === argument);
  if (!verdict) throw badRequest(`/submit_review does not know ${argument} (allowed: ${VERDICTS.join(', ')})`);
  return verdict;
};

/**
 * Runs the commands one after the other. Repeating an approval is no error.
 *
 * @throws DomainError as the functions that they call. Earlier commands keep their effect.
 */
export const runCommands = async (
  ctx: Context,
  project: ProjectRow,
  given: MergeRequestRow,
  commands: Commands,
): Promise<void> => {
  for (const { name, argument } of commands) {
    const row = await getMergeRequest(ctx, project, given.iid);
    switch (name) {
      case 'approve':
        await approveMergeRequest(ctx, project, row, {});
        break;
      case 'unapprove':
        await unapproveMergeRequest(ctx, project, row);
        break;
      case 'merge':
        await mergeWhenReady(ctx, project, row);
        break;
      case 'rebase':
        await requestRebase(ctx, project, row);
        break;
      case 'submit_review':
        await submitReview(ctx, project, row, verdictOf(argument));
    }
  }
};

const submitReview = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  verdict: Verdict,
): Promise<void> => {
  await publishDraftNotes(ctx, await getNoteable(ctx, project, 'merge_request', row.iid));
  if (verdict === 'approve') await approveMergeRequest(ctx, project, row, {});
  if (verdict === 'requested_changes') await reviewMergeRequest(ctx, project, row, verdict);
};
