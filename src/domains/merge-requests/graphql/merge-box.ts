import { loadProject } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedProtections, mayPushToBatched } from '#domains/repositories/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { branchesByMergeRequestIds } from '../branches.ts';
import { loadHeadPipeline, loadMergeability, MergeRequestPermissions, MergeRequestRef } from '../graphql.ts';
import { defaultMessages } from '../merging/default-messages.ts';
import { mayMerge } from '../policy.ts';

// The fields that a frontend shows beside its button to merge.

const loadBranches = loader(branchesByMergeRequestIds);

/** A git process for each repository of a list. */
const READS_REFS = { nullable: false, extensions: { cost: 5 } } as const;

builder.objectFields(MergeRequestRef, (t) => ({
  mergeable: t.boolean({
    nullable: false,
    resolve: async ({ id }, _args, ctx) => (await loadMergeability(ctx, id))?.detailed_merge_status === 'mergeable',
  }),
  mergeableDiscussionsState: t.boolean({
    description: 'True also if the project does not require that threads are resolved.',
    resolve: async ({ id }, _args, ctx) => (await loadMergeability(ctx, id))?.blocking_discussions_resolved ?? null,
  }),
  divergedFromTargetBranch: t.boolean({
    nullable: false,
    description: 'The target branch has commits that the source branch lacks.',
    resolve: ({ needs_rebase }) => needs_rebase,
  }),
  mergeOngoing: t.boolean({ nullable: false, resolve: ({ state }) => state === 'locked' }),
  squashReadOnly: t.boolean({
    nullable: false,
    description: 'The project decides whether merging squashes.',
    resolve: async ({ project_id }, _args, ctx) => {
      const option = (await loadProject(ctx, project_id))?.squash_option;
      return option === 'always' || option === 'never';
    },
  }),
  hasCi: t.boolean({
    nullable: false,
    description: 'A pipeline has run that the caller can see.',
    resolve: async ({ id, project_id }, _args, ctx) => {
      const project = await loadProject(ctx, project_id);
      return project !== null && can(ctx, project, 'read_pipeline') && (await loadHeadPipeline(ctx, id)) !== null;
    },
  }),
  sourceBranchExists: t.boolean({
    ...READS_REFS,
    resolve: async ({ id }, _args, ctx) => (await loadBranches(ctx, id))?.source_exists ?? false,
  }),
  targetBranchExists: t.boolean({
    ...READS_REFS,
    resolve: async ({ id }, _args, ctx) => (await loadBranches(ctx, id))?.target_exists ?? false,
  }),
  sourceBranchProtected: t.boolean({
    ...READS_REFS,
    resolve: async ({ id }, _args, ctx) => (await loadBranches(ctx, id))?.source_protected ?? false,
  }),
}));

/** Reads commits, texts and people of one merge request. */
const READS_COMMITS = { nullable: true, extensions: { cost: 20 } } as const;

for (const [name, which] of [
  ['defaultMergeCommitMessage', 'merge'],
  ['defaultSquashCommitMessage', 'squash'],
] as const) {
  builder.objectField(MergeRequestRef, name, (t) =>
    t.string({
      ...READS_COMMITS,
      description: 'By the template of the project. Null for anonymous callers, and if there is nothing to merge.',
      resolve: async (row, _args, ctx) => {
        const project = await loadProject(ctx, row.project_id);
        return project && ((await defaultMessages(ctx, project, row))?.[which] ?? null);
      },
    }),
  );
}

builder.objectField(MergeRequestPermissions, 'canMerge', (t) =>
  t.boolean({
    nullable: false,
    description: 'The caller may push or merge to the target branch.',
    resolve: ({ project, row }, _args, ctx) => mayMerge(ctx, project, row.target_branch, batchedProtections),
  }),
);
builder.objectField(MergeRequestPermissions, 'pushToSourceBranch', (t) =>
  t.boolean({
    nullable: false,
    resolve: async ({ row }, _args, ctx) => {
      const source = row.source_project_id === null ? null : await loadProject(ctx, row.source_project_id);
      return source !== null && mayPushToBatched(ctx, source, row.source_branch);
    },
  }),
);
