import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { requirePush } from '#domains/repositories/collaboration.ts';
import { createCommit } from '#domains/repositories/commit-changes.ts';
import { listCommits } from '#domains/repositories/commits.ts';
import { getFile, readWhole } from '#domains/repositories/files.ts';
import { type Commit, TAGS, tagName } from '#domains/repositories/model.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, unprocessable } from '#platform/errors.ts';
import { type ChangelogEntry, compareVersions, sectionOf, versionOf, withSection } from './text.ts';

/** The options of a section. */
export interface ChangelogInput {
  /** A semantic version, without a `v`. */
  readonly version: string;
  /** Commits after this one. Defaults to the tag of the last release before the version. */
  readonly from?: string | undefined;
  /** Commits up to this one. Defaults to the default branch. */
  readonly to?: string | undefined;
  /** `2026-01-31`. Defaults to today. */
  readonly date?: string | undefined;
  /** Only commits with this trailer are included. Its value is the category. */
  readonly trailer: string;
}

/** Where a section is committed. */
export interface ChangelogTarget {
  readonly branch: string | undefined;
  readonly file: string;
  readonly message: string | undefined;
}

/** The maximum number of commits in a range. */
const MAX_COMMITS = 15_000;

/**
 * Returns the changelog section of a version, from the trailers of commits. Commits that were reverted in the range are
 * left out.
 *
 * @throws DomainError as `listCommits`; `unprocessable` if the start of the range is unknown or there are too many
 *   commits
 */
export const changelogSection = async (ctx: Context, project: ProjectRow, input: ChangelogInput): Promise<string> => {
  requireAbility(ctx, project, 'read_code');
  const from = input.from ?? (await previousTag(ctx, project, input.version));
  if (from === null) {
    throw unprocessable('The commit start range is unspecified, and no previous tag could be found to use instead');
  }
  const range = { ref_name: `${from}..${input.to ?? 'HEAD'}` };
  const commits = await listCommits(ctx, project, range, { limit: MAX_COMMITS + 1, offset: 0 });
  if (commits.length > MAX_COMMITS) throw unprocessable(`The range holds more than ${MAX_COMMITS} commits`);
  const listed = withoutReverted(commits).filter((commit) => categoryOf(commit, input.trailer) !== '');
  const iids = await mergeRequestsOf(ctx, project, listed);
  const entries = listed.map((commit): ChangelogEntry => {
    const iid = iids.get(commit.id);
    return {
      category: categoryOf(commit, input.trailer),
      title: commit.title,
      commit: `${project.full_path}@${commit.id}`,
      merge_request: iid === undefined ? null : `${project.full_path}!${iid}`,
    };
  });
  const date = input.date ?? ctx.clock.now().toISOString();
  return sectionOf(input.version, date.slice(0, 10), entries);
};

/**
 * Commits that section to a changelog in the repository, and returns it.
 *
 * @throws DomainError as `changelogSection` and `createCommit`; `unprocessable` if the file already has the version
 */
export const addToChangelog = async (
  ctx: Context,
  project: ProjectRow,
  input: ChangelogInput,
  target: ChangelogTarget,
): Promise<string> => {
  await requirePush(ctx, project);
  const { version } = input;
  const branch = target.branch ?? project.default_branch ?? '';
  const section = await changelogSection(ctx, project, { ...input, to: input.to ?? `refs/heads/${branch}` });
  const file = await getFile(ctx, project, `refs/heads/${branch}`, target.file).catch((error: unknown) => {
    if (error instanceof DomainError && error.code === 'not_found') return null;
    throw error;
  });
  const old = file && (await readWhole(ctx, project, { oid: file.blob_id, size: file.size })).toString('utf8');
  const content = withSection(old ?? '', version, section);
  if (content === null) throw unprocessable(`${target.file} already has a section for ${version}`);
  await createCommit(
    ctx,
    project,
    { branch, commit_message: target.message ?? `Add changelog for version ${version}` },
    [
      {
        action: file ? 'update' : 'create',
        file_path: target.file,
        content,
        ...(file ? { last_commit_id: file.last_commit_id } : {}),
      },
    ],
  );
  return section;
};

/** Returns the value of the trailer; empty if there is none. */
const categoryOf = ({ trailers }: Commit, trailer: string): string =>
  Object.hasOwn(trailers, trailer) ? (trailers[trailer] ?? '') : '';

/** Returns the tag of the highest release below the version, ignoring pre-releases. */
const previousTag = async (ctx: Context, project: ProjectRow, name: string): Promise<string | null> => {
  const version = versionOf(name);
  if (!version) return null;
  const tags = await ctx.services.git.listRefs(project.disk_path, { prefix: TAGS });
  const releases = tags.flatMap((tag) => {
    const found = versionOf(tagName(tag.name) ?? '');
    return found && found.pre.length === 0 && compareVersions(found, version) < 0 ? [{ tag: tag.name, found }] : [];
  });
  return releases.sort((a, b) => compareVersions(b.found, a.found))[0]?.tag ?? null;
};

const REVERTS = /^This reverts commit ([0-9a-f]{40})/im;

/** Drops reverted commits and their reverts. A revert that was itself reverted has no effect. Newest first. */
const withoutReverted = (commits: readonly Commit[]): Commit[] => {
  const reverted = new Set<string>();
  return commits.filter(({ id, message }) => {
    if (reverted.has(id)) return false;
    const target = REVERTS.exec(message)?.[1];
    if (target === undefined) return true;
    reverted.add(target);
    return false;
  });
};

/** Returns the numbers of the merged merge requests that contain the commits; none if the caller cannot see them. */
const mergeRequestsOf = async (
  ctx: Context,
  project: ProjectRow,
  commits: readonly Commit[],
): Promise<ReadonlyMap<string, number>> => {
  if (commits.length === 0 || !can(ctx, project, 'read_merge_request')) return new Map();
  const shas = commits.map(({ id }) => id);
  const { rows } = await sql<{ sha: string; iid: number }>`
    select c.sha, m.iid from merge_request_diff_commits c
      join merge_request_diffs d on d.id = c.diff_id join merge_requests m on m.id = d.merge_request_id
      where c.sha = any (${shas}::text[]) and m.project_id = ${project.id} and m.state = 'merged'
    union
    select own.sha, m.iid from merge_requests m
      cross join lateral (values (m.merge_commit_sha), (m.squash_commit_sha)) own (sha)
      where m.project_id = ${project.id} and m.state = 'merged' and own.sha = any (${shas}::text[])
    order by iid desc`.execute(ctx.db);
  return new Map(rows.map(({ sha, iid }) => [sha, iid]));
};
