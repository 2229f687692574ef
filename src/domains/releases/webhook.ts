import { findProject } from '#domains/projects/queries.ts';
import { type HookedProject, hookMarkdown, hookProject } from '#domains/projects/webhook.ts';
import { hookCommit } from '#domains/repositories/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import type { Commit } from '#platform/git/objects.ts';
import { hookTime } from '#platform/time.ts';
import type { ReleasePayload } from './events.ts';
import { archivesOf, releaseCommits, releaseWebUrl } from './model.ts';
import type { ReleaseLinkRow, ReleaseRow } from './queries.ts';

/** The data for the hook body of a release. */
export interface ReleaseFacts {
  readonly release: Omit<ReleaseRow, 'disk_path'>;
  readonly links: readonly Pick<ReleaseLinkRow, 'id' | 'name' | 'url' | 'link_type'>[];
  readonly project: HookedProject;
  readonly commit: Commit | null;
}

/** The body of release events (reference: webhooks §3). */
export const releaseBody = (
  ctx: Context,
  { release, links, project, commit }: ReleaseFacts,
  action: 'create' | 'update' | 'delete',
): Record<string, unknown> => {
  const sources = commit ? archivesOf(ctx, { id: release.project_id }, release.tag) : [];
  return {
    id: release.id,
    object_kind: 'release',
    created_at: hookTime(release.created_at),
    description: hookMarkdown(ctx, release.project_id, release.description),
    name: release.name ?? release.tag,
    released_at: hookTime(release.released_at),
    tag: release.tag,
    project: hookProject(ctx, project),
    url: releaseWebUrl(ctx, release),
    action,
    assets: {
      count: links.length + sources.length,
      links: links.map(({ id, link_type, name, url }) => ({ id, link_type, name, url, external: true })),
      sources,
    },
    commit: commit && hookCommit(ctx, project, commit),
  };
};

/** The body for an event; null if the project has been deleted. */
export const releaseEventBody =
  (action: 'create' | 'update' | 'delete') =>
  async (
    ctx: Context,
    _event: EventRow,
    { links, ...release }: ReleasePayload,
  ): Promise<Record<string, unknown> | null> => {
    const project = await findProject(ctx, { id: release.project_id });
    if (!project) return null;
    const commits = await releaseCommits(ctx, [{ ...release, disk_path: project.disk_path }]);
    return releaseBody(ctx, { release, links, project, commit: commits.get(release.id) ?? null }, action);
  };
