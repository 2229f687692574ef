import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context, Tx } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import { type Approval, approvalsByIds, renewApprovals } from './approvals.ts';
import { ownersByRules } from './code-owners/owners.ts';
import {
  type ComparedCommits,
  fileOfRules,
  findCodeOwners,
  owningEntries,
  readCodeOwnerRules,
} from './code-owners/reading.ts';
import { eligibleApprovers } from './eligible.ts';
import { governedSettings, valuesOf } from './settings.ts';

/** Approvals that the settings remove, because they were given for other changes. */
export interface OutdatedApprovals {
  readonly user_ids: readonly number[];
  readonly system_action: 'approvals_reset_on_push' | 'code_owner_approvals_reset_on_push';
}

/** The merge request before the version: its head is the one of the version before. */
interface Subject {
  readonly id: number;
  readonly diff_head_sha: string | null;
}

/**
 * Finds out what a version means for approvals: who owns the changed files, and which approvals were for other changes.
 * Returns the step that stores it in the transaction of the version, so that nobody can merge with outdated approvals.
 * The step returns the approvals to remove, or null if somebody approved meanwhile: then compare again.
 */
export const approvalsOfVersion = async (
  ctx: Context,
  project: ProjectRow,
  subject: Subject,
  compared: ComparedCommits,
): Promise<(tx: Tx) => Promise<OutdatedApprovals | null>> => {
  const { head } = compared;
  const [storeRules, stale] = await Promise.all([
    readCodeOwnerRules(ctx, project.disk_path, subject.id, compared),
    head === null ? [] : staleApprovals(ctx, subject, head),
  ]);
  const { removed, patch_id, system_action } =
    head === null || stale.length === 0 ? NOTHING : await compareChanges(ctx, project, stale, { ...compared, head });
  return async (tx) => {
    await storeRules(tx);
    if (head === null) return { user_ids: [], system_action };
    const known = new Set(stale.map(keyOf));
    const now = await staleApprovals(tx, subject, head);
    if (now.some((approval) => !known.has(keyOf(approval)))) return null;
    const gone = new Set(removed.map(({ user_id }) => user_id));
    const left = now.map(({ user_id }) => user_id).filter((id) => !gone.has(id));
    if (left.length > 0) await renewApprovals(tx, subject.id, left, { head_sha: head, patch_id });
    return { user_ids: [...gone], system_action };
  };
};

/** Returns the same for a merge request that gets no version. Its other approvals stay those of its head. */
export const outdatedApprovals = async (
  ctx: Context,
  project: ProjectRow,
  subject: Subject,
  compared: ComparedCommits & { readonly head: string },
): Promise<OutdatedApprovals> => {
  const stale = await staleApprovals(ctx, subject, compared.head);
  const { removed, system_action } = stale.length === 0 ? NOTHING : await compareChanges(ctx, project, stale, compared);
  return { user_ids: removed.map(({ user_id }) => user_id), system_action };
};

interface Comparison {
  readonly removed: readonly Approval[];
  /** The digest of the changes now. */
  readonly patch_id: string | null;
  readonly system_action: OutdatedApprovals['system_action'];
}

const NOTHING: Comparison = { removed: [], patch_id: null, system_action: 'approvals_reset_on_push' };

/** Returns which approvals of another head the settings remove. */
const compareChanges = async (
  ctx: Context,
  project: ProjectRow,
  stale: readonly Approval[],
  compared: ComparedCommits & { readonly head: string },
): Promise<Comparison> => {
  const settings = valuesOf(await governedSettings(ctx, { kind: 'project', project }));
  const patch_id = await digestOfChanges(ctx, project, compared);
  const others = stale.filter((approval) => approval.patch_id === null || approval.patch_id !== patch_id);
  if (!settings.retain_approvals_on_push) return { ...NOTHING, removed: others, patch_id };
  if (!settings.selective_code_owner_removals) return { ...NOTHING, patch_id };
  return {
    removed: await ofChangedOwners(ctx, project, others, compared),
    patch_id,
    system_action: 'code_owner_approvals_reset_on_push',
  };
};

/** Returns those merge requests whose code owners were read from another file than `CODEOWNERS` of the target's tip. */
export const withOtherOwners = async (
  ctx: Context,
  { disk_path }: Pick<ProjectRow, 'disk_path'>,
  tip: string,
  ids: readonly number[],
): Promise<ReadonlySet<number>> => {
  const file = await findCodeOwners(ctx, disk_path, tip);
  const sources = await fileOfRules(ctx, ids);
  return new Set(ids.filter((id) => (sources.get(id) ?? '') !== (file?.oid ?? '')));
};

/**
 * Returns the digest of the changes that an approval is given for. Null if they are too many to read, or if a commit is
 * missing, as for imported merge requests.
 */
export const digestOfChanges = async (
  { services: { git }, signal }: Pick<Context, 'services' | 'signal'>,
  { disk_path }: Pick<ProjectRow, 'disk_path'>,
  { base, head }: { readonly base: string | null; readonly head: string },
): Promise<string | null> => {
  for (const oid of [base, head]) if (oid !== null && (await git.resolveCommit(disk_path, oid)) === null) return null;
  try {
    return await git.patchId(disk_path, base, head, { signal });
  } catch (error) {
    if (error instanceof GitError && (error.reason === 'timeout' || error.reason === 'too_large')) return null;
    throw error;
  }
};

const keyOf = ({ user_id, head_sha, patch_id }: Approval): string => [user_id, head_sha, patch_id].join();

/** Returns the approvals of another head. Imported ones are for the head that came with them. */
const staleApprovals = async (
  ctx: Pick<Context, 'db'>,
  { id, diff_head_sha }: Subject,
  head: string,
): Promise<readonly Approval[]> => {
  const approvals = (await approvalsByIds(ctx, [id])).get(id) ?? [];
  return approvals.filter(({ head_sha }) => (head_sha ?? diff_head_sha) !== head);
};

/** Returns the approvals by code owners of files that differ since they approved. */
const ofChangedOwners = async (
  ctx: Context,
  project: ProjectRow,
  approvals: readonly Approval[],
  { start, head }: ComparedCommits,
): Promise<readonly Approval[]> => {
  const file = start === null || approvals.length === 0 ? null : await findCodeOwners(ctx, project.disk_path, start);
  if (!file) return [];
  const changed: Approval[] = [];
  for (const [head_sha, own] of Map.groupBy(approvals, (approval) => approval.head_sha)) {
    // Without the commit that was approved, everything counts as changed.
    const since = head_sha === null ? null : await ctx.services.git.resolveCommit(project.disk_path, head_sha);
    const entries = await owningEntries(ctx, project.disk_path, file, { base: since, head });
    const found = await ownersByRules(
      ctx,
      entries.map(({ owners }, id) => ({ id, owners, project_id: project.id })),
    );
    const rules = [...found].map(([id, owners]) => ({ id, ...owners }));
    const eligible = await eligibleApprovers(ctx, [{ project, rules }]);
    const owners = new Set([...eligible.values()].flat());
    changed.push(...own.filter(({ user_id }) => owners.has(user_id)));
  }
  return changed;
};
