import { JUDGED, ProjectRef, readsOfProject } from '#domains/projects/graphql.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder, type Types } from '#graphql/builder.ts';
import { connection, type ListPage, type PageWanted, pageOf } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { badRequest } from '#platform/errors.ts';
import type { Ref } from '#platform/git/types.ts';
import { createBranch, deleteBranch, scheduleMergedBranchesDeletion } from './commands.ts';
import { type Branch, branchRef, branchWebUrl, type Commit, commitWebUrl, type Tag, tagRef } from './model.ts';
import {
  describeLevel,
  type GrantedLevel,
  listProtectedBranches,
  type ProtectedBranch,
  type ProtectionInput,
  protectBranch,
  unprotectBranch,
  updateProtectedBranch,
} from './protected-branches.ts';
import {
  completeBranches,
  completeTags,
  countCommits,
  findCommit,
  getBranch,
  getTag,
  listBranches,
  listBranchNames,
  listCommits,
  listTags,
} from './queries.ts';

type InProject<T> = T & { readonly project: ProjectRow };

/** Reading a repository costs more than a row. */
const READS_GIT = { extensions: { cost: 5 } } as const;
const MAX_NAMES = 1_000;

const CommitTrailer = builder.objectRef<{ readonly key: string; readonly value: string }>('CommitTrailer').implement({
  fields: (t) => ({
    key: t.exposeString('key', { nullable: false }),
    value: t.exposeString('value', { nullable: false }),
  }),
});

/** A commit of a project. */
export const CommitRef = builder.objectRef<InProject<Commit>>('Commit');
CommitRef.implement({
  description: 'A commit. Its times are in UTC here; REST keeps the offset of the author.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => `gid://gitlab/Commit/${id}` }),
    sha: t.exposeString('id', { nullable: false }),
    shortId: t.exposeString('short_id', { nullable: false }),
    parentIds: t.stringList({ nullable: { list: false, items: false }, resolve: ({ parent_ids }) => [...parent_ids] }),
    title: t.exposeString('title', { nullable: true }),
    message: t.exposeString('message', { nullable: true }),
    authorName: t.exposeString('author_name', { nullable: true }),
    authorEmail: t.exposeString('author_email', { nullable: true }),
    authoredDate: t.field({ type: 'Time', nullable: true, resolve: (commit) => utc(commit.authored_date) }),
    committerName: t.exposeString('committer_name', { nullable: true }),
    committerEmail: t.exposeString('committer_email', { nullable: true }),
    committedDate: t.field({ type: 'Time', nullable: true, resolve: (commit) => utc(commit.committed_date) }),
    trailers: t.field({
      type: [CommitTrailer],
      nullable: { list: false, items: false },
      resolve: ({ trailers }) => Object.entries(trailers).map(([key, value]) => ({ key, value })),
    }),
    webUrl: t.string({
      nullable: false,
      resolve: (commit, _args, ctx) => commitWebUrl(ctx, commit.project, commit.id),
    }),
  }),
});

const utc = (time: string): string => new Date(time).toISOString();

const BranchRef = builder.objectRef<InProject<Branch>>('Branch').implement({
  description: 'A branch of a repository.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    merged: t.exposeBoolean('merged', { nullable: false, description: 'Into the default branch.' }),
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

const TagRef = builder.objectRef<InProject<Tag>>('Tag').implement({
  description: 'A tag of a repository.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    target: t.exposeString('target', { nullable: false }),
    message: t.exposeString('message', { nullable: true }),
    protected: t.exposeBoolean('protected', { nullable: false }),
    commit: t.field({
      type: CommitRef,
      nullable: true,
      resolve: ({ commit, project }) => commit && { ...commit, project },
    }),
  }),
});
const TagConnection = builder.connectionObject({ type: TagRef, name: 'TagConnection' }, { name: 'TagEdge' });

const CommitConnection = builder.connectionObject(
  { type: CommitRef, name: 'CommitConnection' },
  { name: 'CommitEdge' },
);

/** A page of refs, completed in one pass. */
const pageOfRefs = async <T extends { readonly name: string }>(
  page: PageWanted,
  list: List<Ref>,
  complete: (refs: readonly Ref[]) => Promise<T[]>,
  refOf: (name: string) => string,
): Promise<ListPage<T>> => {
  const { limit, ...window } = page;
  const fetched = page.wants.rows ? await list.rows({ limit: limit + 1, ...window }) : [];
  const cut = pageOf(page, fetched, { cursorOf: list.cursorOf, count: 0 });
  return {
    ...cut,
    rows: await complete(cut.rows),
    cursorOf: ({ name }) => [refOf(name)],
    count: () => list.count(Number.MAX_SAFE_INTEGER),
  };
};

const inProject = <T extends object>(project: ProjectRow, all: readonly T[]): InProject<T>[] =>
  all.map((each) => ({ ...each, project }));

const RepositoryRef = builder.objectRef<ProjectRow>('Repository').implement({
  description: "A project's git repository.",
  fields: (t) => ({
    exists: t.boolean({ nullable: false, resolve: () => true }),
    empty: t.exposeBoolean('empty_repo', { nullable: false }),
    rootRef: t.string({
      nullable: true,
      description: 'The default branch; null while there is no branch.',
      resolve: ({ empty_repo, default_branch }) => (empty_repo ? null : default_branch),
    }),
    branchNames: t.stringList({
      nullable: { list: true, items: false },
      ...READS_GIT,
      args: {
        searchPattern: t.arg.string({ required: true, description: '`*` stands for any run of characters.' }),
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
          search: t.arg.string({ description: '`^term` begins, `term$` ends with it.' }),
          regex: t.arg.string({ description: 'An RE2 expression.' }),
        },
        resolve: (project, args, ctx, info) =>
          connection(args, info, async (page) => {
            const filter = { search: args.search ?? undefined, regex: args.regex ?? undefined };
            const list = await listBranches(ctx, project, filter);
            const complete = async (refs: readonly Ref[]) =>
              inProject(project, await completeBranches(ctx, project, refs));
            return pageOfRefs(page, list, complete, branchRef);
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
        const branch = await orNull(getBranch(ctx, project, name));
        return branch && { ...branch, project };
      },
    }),
    tags: t.connection(
      {
        type: TagRef,
        nullable: true,
        ...READS_GIT,
        args: { search: t.arg.string() },
        resolve: (project, args, ctx, info) =>
          connection(args, info, async (page) => {
            const list = await listTags(ctx, project, {
              search: args.search ?? undefined,
              order_by: 'name',
              sort: 'asc',
            });
            const complete = async (refs: readonly Ref[]) => inProject(project, await completeTags(ctx, project, refs));
            return pageOfRefs(page, list, complete, tagRef);
          }),
      },
      TagConnection,
    ),
    tag: t.field({
      type: TagRef,
      nullable: true,
      ...READS_GIT,
      args: { name: t.arg.string({ required: true }) },
      resolve: async (project, { name }, ctx) => {
        const tag = await orNull(getTag(ctx, project, name));
        return tag && { ...tag, project };
      },
    }),
    commit: t.field({
      type: CommitRef,
      nullable: true,
      ...READS_GIT,
      args: { ref: t.arg.string({ description: 'A branch, tag or commit id; the default branch when absent.' }) },
      resolve: async (project, { ref }, ctx) => {
        const commit = await findCommit(ctx, project, ref ?? undefined);
        return commit && { ...commit, project };
      },
    }),
    commits: t.connection(
      {
        type: CommitRef,
        nullable: true,
        ...READS_GIT,
        description: 'Newest first, forwards only.',
        args: {
          ref: t.arg.string(),
          since: t.arg({ type: 'Time' }),
          until: t.arg({ type: 'Time' }),
          path: t.arg.string(),
          author: t.arg.string(),
        },
        resolve: (project, args, ctx, info) =>
          connection(args, info, async (page) => {
            if (page.backwards || page.before) throw badRequest('commits are listed forwards: use first and after');
            const filter = {
              ref_name: args.ref ?? undefined,
              since: args.since ?? undefined,
              until: args.until ?? undefined,
              path: args.path ?? undefined,
              author: args.author ?? undefined,
            };
            const offset = page.after === null ? 0 : offsetOf(page.after[0]);
            const window = { limit: page.limit + 1, offset };
            const commits = page.wants.rows ? await listCommits(ctx, project, filter, window) : [];
            const rows = commits.map((commit, at) => ({ ...commit, project, at: offset + at + 1 }));
            return pageOf(page, rows, {
              cursorOf: ({ at }) => [at],
              count: () => countCommits(ctx, project, filter),
            });
          }),
      },
      CommitConnection,
    ),
  }),
});

const offsetOf = (value: unknown): number => {
  const offset = Number(value);
  if (!Number.isSafeInteger(offset) || offset < 0) throw badRequest('The cursor is invalid for this list');
  return offset;
};

readsOfProject('repository', [...JUDGED, 'disk_path', 'default_branch', 'empty_repo', 'full_path']);
builder.objectField(ProjectRef, 'repository', (t) =>
  t.field({
    type: RepositoryRef,
    nullable: true,
    description: 'Null for those who may not read the code.',
    resolve: (project, _args, ctx) => (can(ctx, project, 'read_code') ? project : null),
  }),
);

const LevelRef = builder.objectRef<GrantedLevel>('ProtectedBranchAccessLevel').implement({
  description: 'Who may do something with a protected branch: a role, a user or a group.',
  fields: (t) => ({
    id: t.exposeInt('id', { nullable: false }),
    accessLevel: t.exposeInt('access_level', { nullable: true, description: '0, 30, 40 or 60.' }),
    accessLevelDescription: t.string({ nullable: false, resolve: describeLevel }),
    userId: t.exposeInt('user_id', { nullable: true }),
    groupId: t.exposeInt('group_id', { nullable: true }),
  }),
});

const ProtectedBranchRef = builder.objectRef<ProtectedBranch>('ProtectedBranch').implement({
  description: 'A protected branch, or all that match a wildcard.',
  fields: (t) => {
    const levels = (action: string) =>
      t.field({
        type: [LevelRef],
        nullable: { list: false, items: false },
        resolve: (branch: ProtectedBranch) => branch.levels.filter((level) => level.action === action),
      });
    return {
      id: t.exposeInt('id', { nullable: false }),
      name: t.exposeString('name', { nullable: false }),
      allowForcePush: t.exposeBoolean('allow_force_push', { nullable: false }),
      codeOwnerApprovalRequired: t.exposeBoolean('code_owner_approval_required', { nullable: false }),
      pushAccessLevels: levels('push'),
      mergeAccessLevels: levels('merge'),
      unprotectAccessLevels: levels('unprotect'),
    };
  },
});
const ProtectedBranchConnection = builder.connectionObject(
  { type: ProtectedBranchRef, name: 'ProtectedBranchConnection' },
  { name: 'ProtectedBranchEdge' },
);

readsOfProject('protectedBranches', JUDGED);
builder.objectField(ProjectRef, 'protectedBranches', (t) =>
  t.connection(
    {
      type: ProtectedBranchRef,
      nullable: true,
      description: 'For Developers and up.',
      args: { search: t.arg.string() },
      resolve: async (project, args, ctx, info) => {
        if (!can(ctx, project, 'read_protected_branch')) return null;
        const list = await listProtectedBranches(ctx, project, { search: args.search ?? undefined });
        return connection(args, info, async (page) => {
          const { limit, ...window } = page;
          return pageOf(page, await list.rows({ limit: limit + 1, ...window }), {
            cursorOf: list.cursorOf,
            count: () => list.count(Number.MAX_SAFE_INTEGER),
          });
        });
      },
    },
    ProtectedBranchConnection,
  ),
);

const projectAt = (ctx: Context, path: string): Promise<ProjectRow> => getProject(ctx, { path });

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
  description: 'Has all branches deleted that are merged into the default branch, but for protected ones.',
  input: (t) => ({ projectPath: t.id({ required: true }) }),
  payload: { project: ProjectRef },
  run: async (ctx, { projectPath }) => {
    const project = await projectAt(ctx, projectPath);
    await scheduleMergedBranchesDeletion(ctx, project);
    return { project };
  },
});

const GrantInput = builder.inputType('ProtectedBranchGrantInput', {
  description: 'One of `accessLevel`, `userId` and `groupId`; on update with the `id` of one that is there.',
  fields: (t) => ({
    id: t.int(),
    accessLevel: t.int({ description: '0, 30, 40 or 60.' }),
    userId: t.field({ type: 'UserID' }),
    groupId: t.field({ type: 'GroupID' }),
    destroy: t.boolean(),
  }),
});
type GrantFields = typeof GrantInput.$inferInput;

const protectionFields = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) => ({
  allowedToPush: t.field({ type: [GrantInput] }),
  allowedToMerge: t.field({ type: [GrantInput] }),
  allowedToUnprotect: t.field({ type: [GrantInput] }),
  allowForcePush: t.boolean(),
  codeOwnerApprovalRequired: t.boolean(),
});

interface ProtectionFields {
  allowedToPush?: readonly GrantFields[] | null | undefined;
  allowedToMerge?: readonly GrantFields[] | null | undefined;
  allowedToUnprotect?: readonly GrantFields[] | null | undefined;
  allowForcePush?: boolean | null | undefined;
  codeOwnerApprovalRequired?: boolean | null | undefined;
}

const toProtection = (input: ProtectionFields): ProtectionInput => {
  const grants = (given: readonly GrantFields[] | null | undefined) =>
    given?.map((grant) => ({
      id: grant.id ?? undefined,
      access_level: grant.accessLevel ?? undefined,
      user_id: grant.userId ?? undefined,
      group_id: grant.groupId ?? undefined,
      destroy: grant.destroy ?? undefined,
    }));
  return {
    allowed_to_push: grants(input.allowedToPush),
    allowed_to_merge: grants(input.allowedToMerge),
    allowed_to_unprotect: grants(input.allowedToUnprotect),
    allow_force_push: input.allowForcePush ?? undefined,
    code_owner_approval_required: input.codeOwnerApprovalRequired ?? undefined,
  };
};

const protectionTarget = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) => ({
  projectPath: t.id({ required: true }),
  name: t.string({ required: true, description: '`*` stands for any run of characters.' }),
});

mutationField('protectedBranchCreate', {
  description: 'Protects a branch, or all that match a wildcard. What is not said is for Maintainers.',
  input: (t) => ({ ...protectionTarget(t), ...protectionFields(t) }),
  payload: { protectedBranch: ProtectedBranchRef },
  run: async (ctx, { projectPath, name, ...input }) => ({
    protectedBranch: await protectBranch(ctx, await projectAt(ctx, projectPath), name, toProtection(input)),
  }),
});

mutationField('protectedBranchUpdate', {
  description: 'Changes a protection.',
  input: (t) => ({ ...protectionTarget(t), ...protectionFields(t) }),
  payload: { protectedBranch: ProtectedBranchRef },
  run: async (ctx, { projectPath, name, ...input }) => ({
    protectedBranch: await updateProtectedBranch(ctx, await projectAt(ctx, projectPath), name, toProtection(input)),
  }),
});

mutationField('protectedBranchDestroy', {
  description: 'Ends a protection.',
  input: (t) => protectionTarget(t),
  payload: { protectedBranch: ProtectedBranchRef },
  run: async (ctx, { projectPath, name }) => ({
    protectedBranch: await unprotectBranch(ctx, await projectAt(ctx, projectPath), name),
  }),
});
