import { sql } from 'kysely';
import { type ReferencedIssue, referencedIssues } from '#domains/issues/references.ts';
import { findReferences, type Reference } from '#domains/planning/closing-references.ts';
import type { Issuable } from '#domains/planning/history.ts';
import { isNumbered, type Numbered } from '#domains/planning/numbers.ts';
import { mergeRequestIsVisible } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { type MergeRequestRow, mergeRequestsByIds } from './queries.ts';

type MergeRequestTexts = Pick<MergeRequestRow, 'id' | 'title' | 'description' | 'target_branch'>;

/**
 * Returns the issues that merging closes and the caller can see: those that the title, the description or the message of
 * a commit names with a closing pattern. Only merging into the default branch closes issues (reference merge-requests
 * §4).
 */
export const issuesClosedBy = async (
  ctx: Pick<Context, 'db' | 'actor' | 'services'>,
  project: Pick<ProjectRow, 'full_path' | 'default_branch'>,
  row: MergeRequestTexts,
): Promise<ReferencedIssue[]> => {
  if (row.target_branch !== project.default_branch) return [];
  const texts = [row.title, row.description, ...(await commitMessages(ctx, row))];
  const found = await referencedIssues(
    ctx,
    project,
    referencesIn(ctx, texts).filter(({ closes }) => closes),
  );
  return found.filter(({ closes }) => closes);
};

/** Returns the issues that the merge request mentions anywhere, also in comments, and the caller can see. */
export const issuesRelatedTo = async (
  ctx: Pick<Context, 'db' | 'actor' | 'services'>,
  project: Pick<ProjectRow, 'full_path'>,
  row: MergeRequestTexts,
): Promise<ReferencedIssue[]> => {
  const texts = [
    row.title,
    row.description,
    ...(await commitMessages(ctx, row)),
    ...(await publicComments(ctx, { merge_request_id: row.id })),
  ];
  return referencedIssues(ctx, project, referencesIn(ctx, texts));
};

/** Returns the references of all texts, each once. */
export const referencesIn = ({ services }: Pick<Context, 'services'>, texts: readonly (string | null)[]): Reference[] =>
  findReferences(texts.map((text) => text ?? '').join('\n\n'), services.urls.base);

/** The messages of the newest version. */
export const commitMessages = async (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestRow, 'id'>,
): Promise<(string | null)[]> => {
  const rows = await ctx.db
    .selectFrom('merge_request_diff_commits')
    .innerJoin('merge_request_diffs', 'merge_request_diffs.id', 'merge_request_diff_commits.diff_id')
    .select('merge_request_diff_commits.message')
    .where('merge_request_diffs.merge_request_id', '=', id)
    .where('merge_request_diffs.is_latest', '=', true)
    .orderBy('merge_request_diff_commits.relative_order')
    .execute();
  return rows.map(({ message }) => message);
};

/** Returns the comments that everyone who can see the issue or merge request can read. */
export const publicComments = async (ctx: Pick<Context, 'db'>, of: Issuable): Promise<string[]> => {
  const [column, id] =
    'issue_id' in of ? (['issue_id', of.issue_id] as const) : (['merge_request_id', of.merge_request_id] as const);
  const { rows } = await sql<{ note: string }>`
    select note from notes where ${sql.ref(column)} = ${id} and not system and not confidential
    order by id`.execute(ctx.db);
  return rows.map(({ note }) => note);
};

/** Returns the merge requests with these numbers in these projects that the caller can see. */
export const mergeRequestsByNumbers = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  wanted: readonly Numbered[],
): Promise<Pick<MergeRequestRow, 'id' | 'project_id' | 'iid' | 'title' | 'project_path'>[]> => {
  if (wanted.length === 0) return [];
  return ctx.db
    .selectFrom('merge_requests')
    .innerJoin('projects', 'projects.id', 'merge_requests.project_id')
    .select(['merge_requests.id', 'merge_requests.project_id', 'merge_requests.iid', 'merge_requests.title'])
    .select('projects.full_path as project_path')
    .where(isNumbered('merge_requests', wanted))
    .where(mergeRequestIsVisible(ctx.actor))
    .execute();
};

/** Returns the merge requests that the references name and the caller can see. */
export const referencedMergeRequests = async (
  ctx: Context,
  home: Pick<ProjectRow, 'full_path'>,
  references: readonly Reference[],
): Promise<MergeRequestRow[]> => {
  const wanted = references.filter(({ kind }) => kind === 'merge_request');
  if (wanted.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    select m.id from unnest(${wanted.map(({ project }) => (project ?? home.full_path).toLowerCase())}::text[],
      ${wanted.map(({ iid }) => iid)}::bigint[]) as w (path, iid)
    join projects p on lower(p.full_path) = w.path
    join merge_requests m on m.project_id = p.id and m.iid = w.iid`.execute(ctx.db);
  return [
    ...(
      await mergeRequestsByIds(
        ctx,
        rows.map(({ id }) => id),
      )
    ).values(),
  ];
};
