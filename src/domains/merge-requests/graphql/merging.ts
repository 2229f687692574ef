import { CommitRef } from '#domains/repositories/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { conflict, DomainError, unprocessable } from '#platform/errors.ts';
import { MergeRequestRef } from '../graphql.ts';
import { cancelAutoMerge } from '../merging/auto-merge.ts';
import { MergeRefused } from '../merging/landing.ts';
import { cherryPickMergeRequest, revertMergeRequest } from '../merging/picking.ts';
import { mergeMergeRequest } from '../merging.ts';
import { requestRebase } from '../rebasing.ts';
import { findNamed as find, named } from './named.ts';

const MergeStrategyEnum = builder.enumType('MergeStrategyEnum', {
  description: 'How a merge request is merged later.',
  values: {
    MERGE_WHEN_CHECKS_PASS: { value: 'merge_when_checks_pass' },
    MERGE_WHEN_PIPELINE_SUCCEEDS: {
      value: 'merge_when_pipeline_succeeds',
      description: 'The former name of MERGE_WHEN_CHECKS_PASS.',
    },
  } as const,
});

mutationField('mergeRequestAccept', {
  description: 'Merges a merge request, now or with a strategy.',
  input: (t) => ({
    ...named(t),
    sha: t.string({ required: true, description: 'The head that the caller has seen.' }),
    commitMessage: t.string(),
    squashCommitMessage: t.string(),
    squash: t.boolean(),
    shouldRemoveSourceBranch: t.boolean(),
    strategy: t.field({ type: MergeStrategyEnum, description: 'Merges now by default.' }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    if (input.strategy && row.merge_when_pipeline_succeeds && row.state === 'opened') {
      throw conflict('The merge request is already scheduled to be merged');
    }
    const merge = mergeMergeRequest(ctx, project, row, {
      sha: input.sha,
      merge_commit_message: input.commitMessage ?? undefined,
      squash_commit_message: input.squashCommitMessage ?? undefined,
      squash: input.squash ?? undefined,
      should_remove_source_branch: input.shouldRemoveSourceBranch ?? undefined,
      auto_merge: input.strategy != null,
    });
    return {
      mergeRequest: await merge.catch((error: unknown) => {
        throw inWordsOfFrontends(error);
      }),
    };
  },
});

const REFUSALS = {
  code: 'This branch cannot be merged',
  push_rule: 'Pre-merge hooks failed',
  moved: 'The merge failed',
} as const satisfies Record<MergeRefused['why'], string>;

/** Frontends match on these words (reference: merge-requests §8). */
const inWordsOfFrontends = (error: unknown): unknown => {
  if (!(error instanceof DomainError)) return error;
  if (error.code === 'conflict') return unprocessable('The merge-head is not at the anticipated SHA');
  if (error.code === 'not_allowed') return unprocessable('This branch cannot be merged');
  return error instanceof MergeRefused ? unprocessable(REFUSALS[error.why]) : error;
};

mutationField('mergeRequestCancelAutoMerge', {
  description: 'Cancels auto-merge. For everyone who can merge, and for the author.',
  input: named,
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    const mergeRequest = await cancelAutoMerge(ctx, project, row);
    if (!mergeRequest) throw unprocessable("Can't cancel the automatic merge");
    return { mergeRequest };
  },
});

mutationField('mergeRequestRebase', {
  description: 'Rebases the source branch onto the target branch, in the background.',
  input: (t) => ({ ...named(t), skipCi: t.boolean({ description: 'The push has the option `ci.skip`.' }) }),
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    return { mergeRequest: await requestRebase(ctx, project, row, { skip_ci: input.skipCi ?? undefined }) };
  },
});

const ontoBranch = (t: Parameters<typeof named>[0]) => ({
  ...named(t),
  branch: t.string({ required: true, description: 'The branch that gets the commit.' }),
  message: t.string(),
});

mutationField('mergeRequestRevert', {
  description: 'Makes a commit that takes back what a merged merge request has changed.',
  input: ontoBranch,
  payload: { commit: CommitRef },
  run: async (ctx, { branch, message, ...input }) => {
    const { project, row } = await find(ctx, input);
    const commit = await revertMergeRequest(ctx, project, row, { branch, message: message ?? undefined });
    return { commit: commit && { ...commit, project } };
  },
});

mutationField('mergeRequestCherryPick', {
  description: 'Makes a commit that repeats what a merged merge request has changed.',
  input: ontoBranch,
  payload: { commit: CommitRef },
  run: async (ctx, { branch, message, ...input }) => {
    const { project, row } = await find(ctx, input);
    const commit = await cherryPickMergeRequest(ctx, project, row, { branch, message: message ?? undefined });
    return { commit: commit && { ...commit, project } };
  },
});
