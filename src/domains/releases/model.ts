import { projectWebUrl } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';
import { dateOf } from '#platform/time.ts';
import { encodePath } from '#platform/urls.ts';
import type { ReleaseLinkRow, ReleaseRow } from './queries.ts';

export const releaseWebUrl = (
  ctx: Pick<Context, 'services'>,
  release: Pick<ReleaseRow, 'project_path' | 'tag'>,
): string => `${projectWebUrl(ctx, { full_path: release.project_path })}/-/releases/${encodeURIComponent(release.tag)}`;

export const tagPath = ({ project_path, tag }: ReleaseRow): string => `/${project_path}/-/tags/${encodePath(tag)}`;

/** The release that has a link. */
export interface LinkPlace {
  readonly project_id: number;
  readonly tag: string;
}

/** Returns the lasting URL of a link, which redirects to its current one, or its own URL if it has no path. */
export const directAssetUrl = (
  { services: { urls } }: Pick<Context, 'services'>,
  { project_id, tag }: LinkPlace,
  { url, filepath }: Pick<ReleaseLinkRow, 'url' | 'filepath'>,
): string =>
  filepath === null
    ? url
    : `${urls.base}/api/v4/projects/${project_id}/releases/${encodeURIComponent(tag)}/downloads/${encodePath(filepath.replace(/^\//, ''))}`;

/** Returns the download URLs of the tag's source archives, one per format. */
export const archivesOf = (
  { services: { git, urls } }: Pick<Context, 'services'>,
  { id }: { readonly id: number },
  tag: string,
): { format: string; url: string }[] =>
  git.archiveFormats().map((format) => ({
    format,
    url: `${urls.base}/api/v4/projects/${id}/repository/archive.${format}?sha=${encodeURIComponent(tag)}`,
  }));

export const isUpcoming = ({ clock }: Pick<Context, 'clock'>, { released_at }: ReleaseRow): boolean =>
  dateOf(released_at) > clock.now();

/** Returns the commits of these releases of one project by release: the stored commit, or else that of the tag. */
export const releaseCommits = async (
  ctx: Pick<Context, 'services'>,
  releases: readonly ReleaseRow[],
): Promise<Map<number, Commit>> => {
  const { git } = ctx.services;
  const [first] = releases;
  if (!first) return new Map();
  const tags = new Set(releases.map(({ tag }) => tag));
  const refs = await git.listRefs(first.disk_path, { prefix: 'refs/tags/', match: (name) => tags.has(name) });
  const tagged = new Map(refs.map((ref) => [ref.name.slice('refs/tags/'.length), ref.peeledOid]));
  const shas = releases.map(({ sha, tag }) => (sha && /^[0-9a-f]{40}$/.test(sha) ? sha : (tagged.get(tag) ?? '')));
  const commits = await git.readCommits(first.disk_path, [...new Set(shas.filter((sha) => sha !== ''))]);
  const byId = new Map(commits.map((commit) => [commit.id, commit]));
  return new Map(
    releases.flatMap(({ id }, at) => {
      const commit = byId.get(shas[at] ?? '');
      return commit ? [[id, commit] as const] : [];
    }),
  );
};
