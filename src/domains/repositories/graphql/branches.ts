import { ProjectRef } from '#domains/projects/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { mutationField } from '#graphql/mutation.ts';
import { badRequest } from '#platform/errors.ts';
import type { Ref } from '#platform/git/refs.ts';
import { createBranch, deleteBranch } from '../commands.ts';
import { CommitRef } from '../graphql.ts';
import { scheduleMergedBranchesDeletion } from '../merged-branches.ts';
import { type Branch, branchWebUrl } from '../model.ts';
import { completeBranches, getBranch, listBranches, listBranchNames } from '../queries/branches.ts';
import { type InProject, inProject, pageOfRefs, projectAt, pushRightsAhead, READS_GIT } from './refs.ts';
import { RepositoryRef } from './repository.ts';

const MAX_NAMES = 1_000;

const BranchRef = builder.objectRef<InProject<Branch>>('Branch').implement({
  description: 'A branch of a repository.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    merged: t.exposeBoolean('merged', {
      nullable: false,
      description: 'Whether it is merged into the default branch.',
    }),
    protected: t.exposeBoolean('protected', { nullable: false }),
    default: t.exposeBoolean('default', { nullable: false }),
    developersCanPush: t.exposeBoolean('developers_can_push', { nullable: false }),
    developersCanMerge: t.exposeBoolean('developers_can_merge', { nullable: false }),
    canPush: t.exposeBoolean('can_push', { nullable: false, description: 'Whether the caller may push to it.' }),
    webUrl: t.string({ nullable: false, resolve: ({ project, name }, _args, ctx) => branchWebUrl(ctx, project, name) }),
    commit: t.field({
      type: CommitRef,
      nullable: false,
      resolve: ({ commit, project }) => ({ ...commit, project }),
    }),
  }),
});
const BranchConnection = builder.connectionObject(
  { type: BranchRef, name: 'BranchConnection' },
  { name: 'BranchEdge' },
);

builder.objectFields(RepositoryRef, (t) => ({
  branchNames: t.stringList({
    nullable: { list: true, items: false },
    ...READS_GIT,
    args: {
      searchPattern: t.arg.string({ required: true, description: '`*` matches any characters.' }),
      offset: t.arg.int({ required: true }),
      limit: t.arg.int({ required: true }),
    },
    resolve: (project, { searchPattern, offset, limit }, ctx) => {
      if (offset < 0 || limit < 0) throw badRequest('offset and limit must not be negative');
      return listBranchNames(ctx, project, { pattern: searchPattern, offset, limit: Math.min(limit, MAX_NAMES) });
    },
  }),
  branches: t.connection(
    {
      type: BranchRef,
      nullable: true,
      ...READS_GIT,
      args: {
        search: t.arg.string({ description: 'Part of the name. `^term` matches at the start, `term$` at the end.' }),
        regex: t.arg.string({ description: 'An RE2 regular expression.' }),
      },
      resolve: (project, args, ctx, info) =>
        connection(args, info, async (page) => {
          const rights = pushRightsAhead(ctx, project);
          const filter = { search: args.search ?? undefined, regex: args.regex ?? undefined };
          const list = await listBranches(ctx, project, filter);
          const complete = async (refs: readonly Ref[]) =>
            inProject(project, await completeBranches(ctx, project, refs, rights));
          return pageOfRefs(page, list, complete, (name) => name);
        }),
    },
    BranchConnection,
  ),
  branch: t.field({
    type: BranchRef,
    nullable: true,
    ...READS_GIT,
    args: { name: t.arg.string({ required: true }) },
    resolve: async (project, { name }, ctx) => {
      const branch = await orNull(getBranch(ctx, project, name, pushRightsAhead(ctx, project)));
      return branch && { ...branch, project };
    },
  }),
}));

mutationField('createBranch', {
  description: 'Creates a branch from a branch, tag or commit.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    name: t.string({ required: true }),
    ref: t.string({ required: true }),
  }),
  payload: { branch: BranchRef },
  run: async (ctx, { projectPath, name, ref }) => {
    const project = await projectAt(ctx, projectPath);
    return { branch: { ...(await createBranch(ctx, project, { branch: name, ref })), project } };
  },
});

mutationField('branchDelete', {
  description: 'Deletes a branch that is neither protected nor the default one.',
  input: (t) => ({ projectPath: t.id({ required: true }), name: t.string({ required: true }) }),
  payload: { branch: BranchRef },
  run: async (ctx, { projectPath, name }) => {
    const project = await projectAt(ctx, projectPath);
    return { branch: { ...(await deleteBranch(ctx, project, name)), project } };
  },
});

mutationField('mergedBranchesDelete', {
  description: 'Schedules the deletion of all branches that are merged into the default branch, except protected ones.',
  input: (t) => ({ projectPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { projectPath }) => {
    const project = await projectAt(ctx, projectPath);
    await scheduleMergedBranchesDeletion(ctx, project);
    return { project };
  },
});
