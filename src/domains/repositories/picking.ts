import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badParameters, DomainError, notFound } from '#platform/errors.ts';
import type { ChangeToApply } from '#platform/git/types.ts';
import { branchRef, type Commit } from './model.ts';
import { getCommit } from './queries/commits.ts';
import { callerIdentity, requireMove, writeRef } from './writing.ts';

interface Pick {
  /** The branch that gets the new commit. */
  readonly branch: string;
  /** Instead of the usual words. */
  readonly message?: string | undefined;
  /** Only find out whether it is possible. */
  readonly dry_run?: boolean | undefined;
}

/**
 * Puts what a commit changed on a branch, by its author. Of a merge that is what it brought to its first parent.
 * Null for a dry run that found nothing against it.
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

/** Takes back on a branch what a commit changed. As `cherryPick`, by the caller. */
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
  requireAbility(ctx, project, 'push_code');
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
          await judge(oid, objects);
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

/** Thrown where only the question was asked, so that nothing comes into the repository. */
class DryRunSucceeded extends Error {}

const DONE = { 'cherry-pick': 'cherry-picked', revert: 'reverted' } as const;

const impossible = (action: keyof typeof DONE, errorCode: string): DomainError =>
  new DomainError(
    'bad_request',
    `Sorry, we cannot ${action} this commit automatically. This commit may already have been ${DONE[action]}, or a more recent commit may have updated some of its content.`,
    { errorCode },
  );
