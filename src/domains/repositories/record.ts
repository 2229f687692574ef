import { z } from 'zod';
import { projectWebUrl } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { CommitStats } from '#platform/git/history.ts';
import type { DiffFile } from '#platform/git/reading.ts';
import { isoTime } from '#platform/time.ts';
import type { PipelineOfCommit } from './commits.ts';
import { isGenerated } from './generated-files.ts';
import { type Branch, branchWebUrl, type Commit, commitWebUrl, type RepositoryProject, type Tag } from './model.ts';
import type { ProtectedBranch } from './protected-branches.ts';
import { describeLevel, type GrantedLevel } from './protections/levels.ts';
import type { ProtectedTag } from './protections/tags.ts';

/** A commit (specification 1 §2.4). Times keep their UTC offsets. */
export const commitRecord = z
  .object({
    id: z.string(),
    short_id: z.string(),
    created_at: z.string(),
    parent_ids: z.array(z.string()),
    title: z.string(),
    message: z.string(),
    author_name: z.string(),
    author_email: z.string(),
    authored_date: z.string(),
    committer_name: z.string(),
    committer_email: z.string(),
    committed_date: z.string(),
    trailers: z.record(z.string(), z.string()),
    extended_trailers: z.record(z.string(), z.array(z.string())),
    web_url: z.string(),
  })
  .meta({ id: 'Commit' });

type Addressed = Pick<RepositoryProject, 'full_path'>;

export const toCommit = (ctx: Context, project: Addressed, commit: Commit): z.output<typeof commitRecord> => ({
  id: commit.id,
  short_id: commit.short_id,
  created_at: commit.committed_date,
  parent_ids: [...commit.parent_ids],
  title: commit.title,
  message: commit.message,
  author_name: commit.author_name,
  author_email: commit.author_email,
  authored_date: commit.authored_date,
  committer_name: commit.committer_name,
  committer_email: commit.committer_email,
  committed_date: commit.committed_date,
  trailers: { ...commit.trailers },
  extended_trailers: Object.fromEntries(
    Object.entries(commit.extended_trailers).map(([key, values]) => [key, [...values]]),
  ),
  web_url: commitWebUrl(ctx, project, commit.id),
});

const statsRecord = z.object({ additions: z.int(), deletions: z.int(), total: z.int() });

/** A commit in a list. `stats` is only set with `with_stats`. */
export const listedCommitRecord = z
  .object({ ...commitRecord.shape, stats: statsRecord.optional() })
  .meta({ id: 'CommitListed' });

/** A commit with its details in the project. */
export const wholeCommitRecord = z
  .object({
    ...commitRecord.shape,
    stats: statsRecord.optional(),
    status: z.string().nullable(),
    project_id: z.int(),
    last_pipeline: z
      .object({
        id: z.int(),
        iid: z.int(),
        project_id: z.int(),
        sha: z.string(),
        ref: z.string().nullable(),
        status: z.string(),
        source: z.string(),
        created_at: z.string(),
        updated_at: z.string(),
        web_url: z.string(),
      })
      .nullable(),
  })
  .meta({ id: 'CommitDetails' });

export const toWholeCommit = (
  ctx: Context,
  project: RepositoryProject,
  commit: Commit,
  { stats, pipeline }: { readonly stats: CommitStats | null; readonly pipeline: PipelineOfCommit | null },
): z.output<typeof wholeCommitRecord> => ({
  ...toCommit(ctx, project, commit),
  ...(stats ? { stats: { ...stats } } : {}),
  status: pipeline?.status ?? null,
  project_id: project.id,
  last_pipeline: pipeline && {
    ...pipeline,
    created_at: isoTime(pipeline.created_at),
    updated_at: isoTime(pipeline.updated_at),
    web_url: `${projectWebUrl(ctx, project)}/-/pipelines/${pipeline.id}`,
  },
});

/** The change of a file between two commits. */
export const diffFileRecord = z
  .object({
    old_path: z.string(),
    new_path: z.string(),
    a_mode: z.string(),
    b_mode: z.string(),
    diff: z.string(),
    new_file: z.boolean(),
    renamed_file: z.boolean(),
    deleted_file: z.boolean(),
    generated_file: z.boolean(),
    collapsed: z.boolean(),
    too_large: z.boolean(),
  })
  .meta({ id: 'Diff' });

/** With `unidiff` the patch starts with the two lines that name the files. */
export const toDiff = (file: DiffFile, unidiff = false): z.output<typeof diffFileRecord> => {
  const { header, ...rest } = file;
  return {
    ...rest,
    diff: unidiff ? header + file.diff : file.diff,
    generated_file: isGenerated(file.new_path),
  };
};

/** A branch (specification 1 §2.4). */
export const branchRecord = z
  .object({
    name: z.string(),
    merged: z.boolean(),
    protected: z.boolean(),
    default: z.boolean(),
    developers_can_push: z.boolean(),
    developers_can_merge: z.boolean(),
    can_push: z.boolean(),
    web_url: z.string(),
    commit: commitRecord,
  })
  .meta({ id: 'Branch' });

export const toBranch = (ctx: Context, project: Addressed, branch: Branch): z.output<typeof branchRecord> => ({
  ...branch,
  web_url: branchWebUrl(ctx, project, branch.name),
  commit: toCommit(ctx, project, branch.commit),
});

export const tagRecord = z
  .object({
    name: z.string(),
    message: z.string(),
    target: z.string(),
    commit: commitRecord.nullable(),
    release: z.object({ tag_name: z.string(), description: z.string().nullable() }).nullable(),
    protected: z.boolean(),
    created_at: z.string().nullable(),
  })
  .meta({ id: 'Tag' });

export const toTag = (ctx: Context, project: Addressed, tag: Tag): z.output<typeof tagRecord> => ({
  name: tag.name,
  message: tag.message,
  target: tag.target,
  commit: tag.commit && toCommit(ctx, project, tag.commit),
  release: tag.release,
  protected: tag.protected,
  created_at: tag.created_at,
});

const level = z.object({
  id: z.int(),
  access_level: z.int().nullable(),
  access_level_description: z.string(),
  deploy_key_id: z.null(),
  user_id: z.int().nullable(),
  group_id: z.int().nullable(),
});

export const protectedBranchRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    push_access_levels: z.array(level),
    merge_access_levels: z.array(level),
    unprotect_access_levels: z.array(level),
    allow_force_push: z.boolean(),
    code_owner_approval_required: z.boolean(),
    inherited: z.boolean(),
  })
  .meta({ id: 'ProtectedBranch' });

export const toProtectedBranch = (branch: ProtectedBranch): z.output<typeof protectedBranchRecord> => {
  const levels = (action: string) => levelsOf(branch, action);
  return {
    id: branch.id,
    name: branch.name,
    push_access_levels: levels('push'),
    merge_access_levels: levels('merge'),
    unprotect_access_levels: levels('unprotect'),
    allow_force_push: branch.allow_force_push,
    code_owner_approval_required: branch.code_owner_approval_required,
    inherited: false,
  };
};

export const protectedTagRecord = z
  .object({ name: z.string(), create_access_levels: z.array(level) })
  .meta({ id: 'ProtectedTag' });

export const toProtectedTag = (tag: ProtectedTag): z.output<typeof protectedTagRecord> => ({
  name: tag.name,
  create_access_levels: levelsOf(tag, 'create'),
});

const levelsOf = ({ levels }: { readonly levels: readonly GrantedLevel[] }, action: string) =>
  levels
    .filter((each) => each.action === action)
    .map((each) => ({
      id: each.id,
      access_level: each.access_level,
      access_level_description: describeLevel(each),
      deploy_key_id: null,
      user_id: each.user_id,
      group_id: each.group_id,
    }));
