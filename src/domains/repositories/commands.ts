import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, forbidden, notFound } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { only } from '#platform/values/only.ts';
import { createCommit } from './commit-changes.ts';
import { type Branch, branchRef, type RefUpdate } from './model.ts';
import { judgePush, readPushPolicy } from './policy.ts';
import { readProtections } from './protections.ts';
import { moveRefs } from './pushes.ts';
import { completeBranches, getBranch } from './queries/branches.ts';
import { resolveRevision } from './queries/revisions.ts';
import { requireMove } from './writing.ts';

/**
 * Creates a branch from a branch, tag or commit. Protection and events are as for a push. In an empty repository the
 * start may be the default branch, which then gets a first commit with an empty readme.
 *
 * @throws DomainError `forbidden`, `bad_request` for a bad or taken name and for a missing start
 */
export const createBranch = async (
  ctx: Context,
  project: ProjectRow,
  { branch, ref }: { readonly branch: string; readonly ref: string },
): Promise<Branch> => {
  requireAbility(ctx, project, 'push_code');
  if (!validRefName(branch)) throw refusal('Branch name is invalid');
  const { git } = ctx.services;
  const newOid = ref === '' ? null : await resolveRevision(ctx, project, ref);
  if (newOid === null) {
    if (!project.empty_repo || ref !== project.default_branch || ref === branch) {
      throw refusal(`Invalid reference name: ${ref}`);
    }
    // Check the new branch before creating the first commit. By then it is no longer the first branch.
    await requireMove(ctx, { ...project, empty_repo: false }, { ref: branchRef(branch), oldOid: null, newOid: '' });
    await beginRepository(ctx, project, ref);
    return createBranch(ctx, await getProject(ctx, { id: project.id }), { branch, ref });
  }
  if ((await git.resolve(project.disk_path, branchRef(branch))) !== null) throw refusal('Branch already exists');
  const update: RefUpdate = { ref: branchRef(branch), oldOid: null, newOid };
  const objects = git.newObjects(project.disk_path);
  const policy = await readPushPolicy(ctx, project);
  const [refused] = (await judgePush(ctx, project, [update], objects, policy)).refused ?? [];
  if (refused) throw forbidden(refused.reason);
  await move(ctx, project, update, 'Branch already exists');
  const made = { name: update.ref, oid: newOid, peeledOid: newOid, message: null };
  // The first branch gets its protection with the push.
  const protectionsOf = project.empty_repo ? readProtections : async () => policy.protections;
  return only(await completeBranches(ctx, project, [made], { protectionsOf }));
};

const beginRepository = (ctx: Context, project: ProjectRow, branch: string) =>
  createCommit(ctx, project, { branch, commit_message: 'Add README.md' }, [
    { action: 'create', file_path: 'README.md', content: '' },
  ]);

/**
 * Deletes a branch. Its commits stay for a while.
 *
 * @throws DomainError `forbidden`, `not_found` (Branch), `bad_request` for a protected or the default branch
 */
export const deleteBranch = async (ctx: Context, project: ProjectRow, name: string): Promise<Branch> => {
  requireAbility(ctx, project, 'push_code');
  const branch = await getBranch(ctx, project, name);
  const update: RefUpdate = { ref: branchRef(name), oldOid: branch.commit.id, newOid: null };
  const [refused] = (await judgePush(ctx, project, [update], null)).refused ?? [];
  if (refused) throw refusal(refused.reason);
  await move(ctx, project, update, 'The branch has just been changed');
  return branch;
};

const refusal = (message: string) => new DomainError('bad_request', message);

/** Moves a ref. Explains conflicts with concurrent changes and with names that clash with a folder of names. */
const move = async (ctx: Context, project: ProjectRow, update: RefUpdate, taken: string): Promise<void> => {
  try {
    await moveRefs(ctx, project, [update]);
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== 'conflict') throw error;
    const now = await ctx.services.git.resolve(project.disk_path, update.ref);
    if (now === null && update.newOid === null) throw notFound('Branch');
    throw refusal(now === null ? 'The branch name clashes with that of another branch' : taken);
  }
};
