import { Readable } from 'node:stream';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { findReadme } from '#domains/repositories/readme.ts';
import { refreshStatisticsLater } from '#domains/repositories/upkeep.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { FetchedBundle } from '#platform/git/cloning.ts';
import { GitError } from '#platform/git/git-error.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { TransferError } from '../model.ts';
import type { Failure } from './batch.ts';
import type { Checkpoint } from './checkpoint.ts';
import { recordFailures } from './relations.ts';
import type { Unpacked } from './unpack.ts';

/** The refs to keep besides branches and tags: heads of merge requests, and commits that other records refer to. */
const KEPT = /^refs\/(?:merge-requests\/[1-9]\d{0,9}\/head|keep-around\/[0-9a-f]{40})$/;
const REFS_AT_ONCE = 1_000;
const MAX_LISTED = 100;

/**
 * Creates the repository from the bundle. Replaces it as a whole, so it can run again. `wantedBranch` becomes the
 * default branch, instead of the one that the archive names. Without both it is the branch at the HEAD of the bundle.
 *
 * @throws TransferError if the bundle has branches, but not the wanted one
 */
export const importRepository = async (
  ctx: Context,
  project: ProjectRow,
  archive: Unpacked,
  checkpoint: Checkpoint,
  wantedBranch: string | null,
): Promise<void> => {
  if (checkpoint.hasRepository) return;
  const path = project.disk_path;
  const named = branchNamed(archive);
  const unborn = wantedBranch ?? named ?? project.default_branch;
  if (!archive.bundle) {
    const settled = await settleHead(ctx, path, null, unborn);
    return checkpoint.repository(async (tx) => {
      await tx.db.updateTable('projects').set(settled).where('id', '=', project.id).execute();
    });
  }
  let counted: Promise<unknown> = Promise.resolve();
  const onProgress = (bytes: number) => {
    counted = counted.then(() => checkpoint.bundle(bytes));
    // The promise is awaited below.
    counted.catch(() => undefined);
  };
  const fetched = await fetch(ctx, path, archive, onProgress);
  await counted;
  const failures = await keepOtherRefs(ctx, path, fetched);
  if (wantedBranch !== null && fetched.branches > 0 && !(await hasBranch(ctx, path, wantedBranch))) {
    throw new TransferError(`The default branch could not be '${wantedBranch}': the archive has no such branch.`);
  }
  const isThere = named !== null && (await hasBranch(ctx, path, named));
  const wanted = wantedBranch ?? (isThere ? named : fetched.defaultBranch);
  const settled = await settleHead(ctx, path, wanted, unborn);
  await checkpoint.repository(async (tx) => {
    await tx.db
      .updateTable('projects')
      .set({ ...settled, empty_repo: fetched.branches === 0 })
      .where('id', '=', project.id)
      .execute();
    await recordFailures(tx, project.id, 'repository', failures);
    refreshStatisticsLater(tx, project.id);
  });
};

/** Returns the default branch that the archive names. Archives from elsewhere name none. */
const branchNamed = ({ project: { default_branch: name } }: Unpacked): string | null =>
  typeof name === 'string' && name.length <= 255 && validRefName(name) ? name : null;

const fetch = async (
  ctx: Context,
  path: string,
  archive: Unpacked,
  onProgress: (bytes: number) => void,
): Promise<FetchedBundle> => {
  if (!archive.bundle) throw new Error('there is no bundle');
  const bundle = Readable.from(archive.bundle.chunks(), { objectMode: false });
  try {
    const { push_max_files: maxFiles } = await getSettings(ctx);
    return await ctx.services.git.fetchBundle(path, bundle, {
      replace: true,
      maxFiles,
      signal: ctx.signal,
      onProgress,
    });
  } catch (error) {
    if (error instanceof GitError && (error.reason === 'invalid' || error.reason === 'too_large'))
      throw new TransferError(`${error.message}.`);
    throw error;
  }
};

const failure = (exception_message: string, line_number: number): Failure => ({
  exception_class: 'RefSkipped',
  exception_message,
  source: 'process_relation_item!',
  line_number,
});

const keepOtherRefs = async (ctx: Context, path: string, fetched: FetchedBundle): Promise<Failure[]> => {
  const { git } = ctx.services;
  const failures = fetched.skipped
    .slice(0, MAX_LISTED)
    .map((name, index) => failure(`${name.slice(0, 300)} is not a valid name for a branch or tag here`, index));
  const kept = fetched.others.filter(({ name }) => KEPT.test(name));
  for (let at = 0; at < kept.length; at += REFS_AT_ONCE) {
    const refs = kept.slice(at, at + REFS_AT_ONCE);
    try {
      await git.updateRefs(
        path,
        refs.map(({ name, oid }) => ({ ref: name, newOid: oid })),
      );
    } catch (error) {
      if (!(error instanceof GitError) || error.reason === 'aborted') throw error;
      failures.push(failure(`${refs.length} references of merge requests could not be kept`, failures.length));
    }
  }
  return failures;
};

/**
 * Points HEAD to the wanted branch if it exists, else to the first branch, else to `unborn`. Returns the values that
 * follow for the project's row.
 */
export const settleHead = async (
  ctx: Context,
  path: string,
  wanted: string | null,
  unborn: string | null,
): Promise<{ readonly default_branch: string | null; readonly readme_path: string | null }> => {
  const { git } = ctx.services;
  const isBorn = wanted !== null && (await hasBranch(ctx, path, wanted));
  const default_branch = isBorn ? wanted : ((await firstBranch(ctx, path)) ?? unborn);
  if (default_branch !== null && default_branch !== (await git.head(path))) await git.setHead(path, default_branch);
  const tip = default_branch === null ? null : await git.resolve(path, `refs/heads/${default_branch}`);
  return { default_branch, readme_path: await findReadme(ctx, path, tip) };
};

const hasBranch = async ({ services: { git } }: Context, path: string, branch: string): Promise<boolean> =>
  (await git.resolve(path, `refs/heads/${branch}`)) !== null;

const firstBranch = async (ctx: Context, path: string): Promise<string | null> => {
  const [ref] = await ctx.services.git.listRefs(path, { prefix: 'refs/heads/', limit: 1 });
  return ref ? ref.name.slice('refs/heads/'.length) : null;
};
