import { z } from 'zod';
import { renderTexts } from '#domains/markdown/html.ts';
import { milestoneStatsByIds, milestonesByIds } from '#domains/milestones/queries.ts';
import { milestoneRecord, toMilestone } from '#domains/milestones/record.ts';
import { can } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { commitRecord, toCommit } from '#domains/repositories/record.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { apiLink } from '#rest/v5.ts';
import {
  archivesOf,
  directAssetUrl,
  isUpcoming,
  type LinkPlace,
  releaseCommits,
  releaseWebUrl,
  tagPath,
} from './model.ts';
import { type ReleaseLinkRow, type ReleaseRow, releasePartsByIds } from './queries.ts';

/** A link of a release to an external file. */
export const linkRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    url: z.string(),
    direct_asset_url: apiLink(z.string()),
    link_type: z.string(),
  })
  .meta({ id: 'ReleaseLink' });

export const toLink = (
  ctx: Pick<Context, 'services'>,
  place: LinkPlace,
  link: ReleaseLinkRow,
): z.output<typeof linkRecord> => ({
  id: link.id,
  name: link.name,
  url: link.url,
  direct_asset_url: directAssetUrl(ctx, place, link),
  link_type: link.link_type,
});

/** A release. Callers who cannot read the code get it without the parts that describe the code. */
export const releaseRecord = z
  .object({
    tag_name: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    description_html: z.string().optional(),
    created_at: z.string(),
    released_at: z.string(),
    upcoming_release: z.boolean(),
    author: userBasicRecord.nullable(),
    commit: commitRecord.nullable().optional(),
    milestones: z.array(
      z.object({ ...milestoneRecord.shape, issue_stats: z.object({ total: z.int(), closed: z.int() }) }),
    ),
    commit_path: z.string().nullable().optional(),
    tag_path: z.string().optional(),
    assets: z.object({
      count: z.int(),
      sources: z.array(z.object({ format: z.string(), url: apiLink(z.string()) })),
      links: z.array(linkRecord),
    }),
    evidences: z.array(z.object({ sha: z.string(), filepath: z.string(), collected_at: z.string() })),
    _links: z.object({ self: z.string() }),
  })
  .meta({ id: 'Release' });

/** Returns the records of releases of one project, with all related data read at once. */
export const toReleases = async (
  ctx: Context,
  project: ProjectRow,
  rows: readonly ReleaseRow[],
  includeHtml: boolean,
): Promise<z.output<typeof releaseRecord>[]> => {
  const readsCode = can(ctx, project, 'read_code');
  const [parts, users, commits] = await Promise.all([
    releasePartsByIds(
      ctx,
      rows.map(({ id }) => id),
    ),
    userBasicsByIds(
      ctx,
      rows.map(({ author_id }) => author_id),
    ),
    readsCode ? releaseCommits(ctx, rows) : null,
  ]);
  const milestoneIds = can(ctx, project, 'read_milestone')
    ? [...new Set([...parts.values()].flatMap(({ milestone_ids }) => milestone_ids))]
    : [];
  const [milestones, stats] = await Promise.all([
    milestonesByIds(ctx, milestoneIds),
    milestoneStatsByIds(ctx, milestoneIds),
  ]);
  const home = { kind: 'project', id: project.id } as const;
  const html = includeHtml
    ? await renderTexts(
        ctx,
        rows.map(({ description }) => ({ text: description, home })),
      )
    : null;
  return rows.map((row, index) => {
    const commit = commits?.get(row.id);
    const sources = commit ? archivesOf(ctx, project, row.tag) : [];
    const { links = [], milestone_ids = [] } = parts.get(row.id) ?? {};
    return {
      tag_name: row.tag,
      name: row.name ?? row.tag,
      description: row.description,
      ...(html ? { description_html: html[index] ?? '' } : {}),
      created_at: isoTime(row.created_at),
      released_at: isoTime(row.released_at),
      upcoming_release: isUpcoming(ctx, row),
      author: users.get(row.author_id) ?? null,
      ...(commits
        ? {
            commit: commit ? toCommit(ctx, project, commit) : null,
            commit_path: commit ? `/${project.full_path}/-/commit/${commit.id}` : null,
            tag_path: tagPath(row),
          }
        : {}),
      milestones: milestone_ids.flatMap((id) => {
        const milestone = milestones.get(id);
        if (!milestone) return [];
        const { total_issues_count: total = 0, closed_issues_count: closed = 0 } = stats.get(id) ?? {};
        return { ...toMilestone(ctx, milestone), issue_stats: { total, closed } };
      }),
      assets: {
        count: links.length + sources.length,
        // A tag that does not point to a commit has no archives.
        sources,
        links: links.map((link) => toLink(ctx, row, link)),
      },
      evidences: [],
      _links: { self: releaseWebUrl(ctx, row) },
    };
  });
};
