import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badParameters, DomainError, notFound } from '#platform/errors.ts';
import type { ChangeToApply } from '#platform/git/writing.ts';
import { requirePush } from './collaboration.ts';
import { getCommit } from './commits.ts';
import { branchRef, type Commit } from './model.ts';
import { callerIdentity, requireMove, writeRef } from './writing.ts';

interface Pick {
  /** The branch that gets the new commit. */
  readonly branch: string;
  /** Replaces the default message. */
  readonly message?: string | undefined;
  /** Only check whether it is possible. */
  readonly dry_run?: boolean | undefined;
}

/**
 * Applies the changes of a commit to a branch and keeps the author. For a merge, applies its changes relative to the
 * first parent. Returns null for a successful dry run.
 *
 * @throws DomainError `forbidden`, `not_found` (Commit, Branch), `bad_request` with `conflict` or `empty`
 */
export const cherryPick = (ctx: Context, project: ProjectRow, sha: string, pick: Pick): Promise<Commit | null> =>
  apply(ctx, project, sha, pick, 'cherry-pick', async (commit) => ({
    base: commit.parent_ids[0] ?? null,
    changed: commit.id,
    message: pick.message ?? `${commit.message.trimEnd()}\n\n(cherry picked from commit ${commit.id})`,
    author: {
      name: commit.author_name,
      email: commit.author_email,
      date: new Date(commit.authored_date),
    },
  }));

/** Reverts the changes of a commit on a branch. Like `cherryPick`, with the caller as the author. */
export const revert = (ctx: Context, project: ProjectRow, sha: string, pick: Pick): Promise<Commit | null> =>
  apply(ctx, project, sha, pick, 'revert', async (commit) => ({
    base: commit.id,
    changed: commit.parent_ids[0] ?? null,
    message: pick.message ?? `Revert "${commit.title}"\n\nThis reverts commit ${commit.id}`,
    author: await callerIdentity(ctx),
  }));

type Change = Omit<ChangeToApply, 'onto' | 'committer'>;

const apply = async (
  ctx: Context,
  project: ProjectRow,
  sha: string,
  { branch, dry_run = false, message }: Pick,
  action: 'cherry-pick' | 'revert',
  changeOf: (commit: Commit) => Promise<Change>,
): Promise<Commit | null> => {
  await requirePush(ctx, project);
  if (message !== undefined && message.trim() === '') throw badParameters('message is empty');
  const { git } = ctx.services;
  const commit = await getCommit(ctx, project, sha);
  const change = await changeOf(commit);
  const committer = await callerIdentity(ctx);
  const ref = branchRef(branch);
  try {
    const { newOid } = await writeRef(ctx, project, async (current) => {
      const oldOid = await git.resolve(current.disk_path, ref);
      if (oldOid === null) throw notFound('Branch');
      const { judge } = await requireMove(ctx, current, { ref, oldOid, newOid: commit.id });
      const applied = await git.applyChange(
        current.disk_path,
        { ...change, onto: oldOid, committer },
        async (oid, objects) => {
          await judge?.(oid, objects);
          if (dry_run) throw new DryRunSucceeded();
        },
      );
      if ('failed' in applied) throw impossible(action, applied.failed);
      return { ref, oldOid, newOid: applied.oid };
    });
    return (await git.readCommits(project.disk_path, [newOid]))[0] ?? null;
  } catch (error) {
    if (error instanceof DryRunSucceeded) return null;
    throw error;
  }
};

/** Aborts a successful dry run before anything is written to the repository. */
class DryRunSucceeded extends Error {}

const DONE = { 'cherry-pick': 'cherry-picked', revert: 'reverted' } as const;

const impossible = (action: keyof typeof DONE, errorCode: string): DomainError =>
  new DomainError(
    'bad_request',
    `Sorry, we cannot ${action} this commit automatically. This commit may already have been ${DONE[action]}, or a more recent commit may have updated some of its content.`,
    { errorCode },
  );
