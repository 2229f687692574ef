import { requireAbility } from '#domains/projects/policy.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badParameters } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import type { FileChange } from '#platform/git/writing.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { only } from '#platform/values/only.ts';
import { requirePush } from './collaboration.ts';
import { BRANCHES, branchRef, type Commit } from './model.ts';
import { callerIdentity, refusal, requireMove, writeRef } from './writing.ts';

/** One change to a file. */
export interface FileAction {
  readonly action: FileChange['action'];
  readonly file_path: string;
  /** For `move`. */
  readonly previous_path?: string | undefined;
  readonly content?: Buffer | string | undefined;
  /** The last commit that changed the file, as far as the caller knows. */
  readonly last_commit_id?: string | undefined;
  readonly execute_filemode?: boolean | undefined;
}

/** The branch, message and author of a commit. */
export interface CommitTarget {
  readonly branch: string;
  readonly commit_message: string;
  /** The branch to create `branch` from. */
  readonly start_branch?: string | undefined;
  /** The commit to create `branch` from. */
  readonly start_sha?: string | undefined;
  /** The project of `start_branch` or `start_sha`. */
  readonly start_project?: IdOrPath | undefined;
  readonly author_name?: string | undefined;
  readonly author_email?: string | undefined;
  /** Overwrites `branch` if it exists. */
  readonly force?: boolean | undefined;
}

const MAX_MESSAGE_BYTES = 1024 * 1024;
const STALE = {
  update: 'You are attempting to update a file that has changed since you started editing it.',
  delete: 'You are attempting to delete a file that has been previously updated.',
} as const;

/**
 * Commits the actions to a branch, all or none. Creates the branch if a start is given or the repository is empty.
 * Protection, push rules and events are as for a push. Concurrent commits both succeed unless their files conflict.
 *
 * @throws DomainError `forbidden`, `bad_request` for a missing or existing branch and for impossible actions,
 * `not_found` for a start project
 */
export const createCommit = async (
  ctx: Context,
  project: ProjectRow,
  target: CommitTarget,
  given: readonly FileAction[],
): Promise<Commit> => {
  await requirePush(ctx, project);
  check(target);
  const { git } = ctx.services;
  const actions = given.map(withRelativePaths);
  const files = actions.map(toChange);
  const { newOid } = await writeRef(ctx, project, async (current) => {
    const [start, committer] = await Promise.all([startOf(ctx, current, target), callerIdentity(ctx)]);
    const author = {
      ...committer,
      name: target.author_name || committer.name,
      email: target.author_email || committer.email,
    };
    const update = { ref: branchRef(target.branch), oldOid: start.oldOid };
    const { fastForwardOnly, judge } = await requireMove(ctx, current, { ...update, newOid: '' });
    if (fastForwardOnly && !(await movesForward(ctx, current, start))) {
      throw refusal('You are not allowed to force push code to a protected branch on this project.');
    }
    await checkLastCommits(ctx, start, actions);
    const oid = await git.createCommit(
      current.disk_path,
      { parent: start.parent, message: target.commit_message, author, committer, files },
      { judge, from: start.diskPath },
    );
    return { ...update, newOid: oid };
  });
  return only(await git.readCommits(project.disk_path, [newOid]));
};

interface Start {
  readonly oldOid: string | null;
  readonly parent: string | null;
  /** The repository that contains the parent. */
  readonly diskPath: string;
}

const startOf = async (ctx: Context, project: ProjectRow, target: CommitTarget): Promise<Start> => {
  const { git } = ctx.services;
  const { branch, start_branch, start_sha, force = false } = target;
  const oldOid = await git.resolve(project.disk_path, branchRef(branch));
  const from = target.start_project === undefined ? project : await getProject(ctx, target.start_project);
  if (from.id !== project.id) requireAbility(ctx, from, 'read_code');
  const begins = start_sha !== undefined || from.id !== project.id || (start_branch ?? branch) !== branch;
  if (!begins) {
    if (oldOid === null && !(await isEmpty(ctx, project))) throw notOnBranch();
    return { oldOid, parent: oldOid, diskPath: project.disk_path };
  }
  if (oldOid !== null && !force) {
    throw refusal(`A branch called '${branch}' already exists. Switch to that branch in order to make changes`);
  }
  const parent =
    start_sha === undefined
      ? await git.resolve(from.disk_path, branchRef(start_branch ?? branch))
      : await git.resolveCommit(from.disk_path, start_sha);
  if (parent !== null) return { oldOid, parent, diskPath: from.disk_path };
  if (start_sha !== undefined) throw refusal(`Cannot find start_sha '${start_sha}'`);
  if (!(await isEmpty(ctx, from))) throw notOnBranch();
  return { oldOid, parent: null, diskPath: project.disk_path };
};

const notOnBranch = () => refusal('You can only create or edit files when you are on a branch');

const isEmpty = async (ctx: Context, { disk_path }: ProjectRow): Promise<boolean> =>
  (await ctx.services.git.listRefs(disk_path, { prefix: BRANCHES, limit: 1 })).length === 0;

const movesForward = async (
  ctx: Context,
  project: ProjectRow,
  { oldOid, parent, diskPath }: Start,
): Promise<boolean> => {
  if (oldOid === null || oldOid === parent) return true;
  return parent !== null && diskPath === project.disk_path
    ? ctx.services.git.isAncestor(diskPath, oldOid, parent)
    : false;
};

/** Refuses to overwrite changes that the caller has not seen. */
const checkLastCommits = async (ctx: Context, start: Start, actions: readonly FileAction[]): Promise<void> => {
  for (const { action, file_path, previous_path, last_commit_id } of actions) {
    // Clients with static types send an empty id if they know none.
    if (!last_commit_id || action === 'create') continue;
    const path = action === 'move' ? previous_path : file_path;
    const { diskPath, parent } = start;
    const last =
      parent === null || path === undefined ? parent : await ctx.services.git.lastCommitOf(diskPath, parent, path);
    if (last === last_commit_id) continue;
    throw refusal(
      actions.length > 1
        ? `The file has changed since you started editing it: ${file_path}`
        : STALE[action === 'delete' ? 'delete' : 'update'],
    );
  }
};

const check = ({ branch, commit_message, author_email }: CommitTarget): void => {
  if (!validRefName(branch)) throw refusal('Branch name is invalid');
  if (commit_message.trim() === '') throw badParameters('commit_message is empty');
  if (Buffer.byteLength(commit_message) > MAX_MESSAGE_BYTES) throw badParameters('commit_message is too long');
  if (author_email !== undefined && /[<>\s]/.test(author_email)) throw badParameters('author_email is invalid');
};

/** Update bots write paths from the root of the repository: `/Gemfile`. */
const withRelativePaths = (action: FileAction): FileAction => ({
  ...action,
  file_path: relative(action.file_path),
  previous_path: action.previous_path === undefined ? undefined : relative(action.previous_path),
});

const relative = (path: string): string => (path.startsWith('/') ? path.slice(1) : path);

const toChange = (given: FileAction): FileChange => {
  const { action, file_path: path, previous_path: previousPath, content, execute_filemode } = given;
  return {
    action,
    path,
    content,
    ...(action === 'move' ? { previousPath } : {}),
    ...(execute_filemode === undefined ? {} : { mode: execute_filemode ? '100755' : '100644' }),
  };
};
