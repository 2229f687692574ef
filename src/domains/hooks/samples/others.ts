import { sql } from 'kysely';
import { hookGroup } from '#domains/groups/webhook.ts';
import { httpUrlToRepo, projectWebUrl, sshUrlToRepo } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { hookProject } from '#domains/projects/webhook.ts';
import { releaseCommits } from '#domains/releases/model.ts';
import { listReleasesBelow, releasePartsByIds } from '#domains/releases/queries.ts';
import { releaseBody } from '#domains/releases/webhook.ts';
import { tokenBody } from '#domains/tokens/webhook.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { newestIn, type Scene, sampleCommit, someProject } from './scene.ts';

type Body = Record<string, unknown>;

/** Returns the body for the creation of the newest release, or of a sample release. */
export const releaseSample = async (scene: Scene): Promise<Body> =>
  (await newestRelease(scene)) ?? (await sampleRelease(scene));

const newestRelease = async (scene: Scene): Promise<Body | null> => {
  const { ctx } = scene;
  const found = await newestIn(scene, 'releases', 'repository_access_level', { by: sql`t.created_at` });
  const project = found && (await findProject(ctx, { id: found.project_id }));
  if (!project) return null;
  const [release] =
    (await listReleasesBelow(ctx, { order_by: 'created_at' }).rows([project.id], { limit: 1 })).get(project.id) ?? [];
  if (!release) return null;
  const [commits, parts] = await Promise.all([releaseCommits(ctx, [release]), releasePartsByIds(ctx, [release.id])]);
  const links = parts.get(release.id)?.links ?? [];
  return releaseBody(ctx, { release, links, project, commit: commits.get(release.id) ?? null }, 'create');
};

const sampleRelease = async (scene: Scene): Promise<Body> => {
  const { ctx, caller, now } = scene;
  const project = await someProject(scene);
  const commit = sampleCommit(scene);
  const release = {
    id: 0,
    project_id: project.id,
    project_path: project.full_path,
    tag: 'v1.0.0',
    name: 'v1.0.0',
    description: 'A sample release for testing a hook.',
    sha: commit.id,
    author_id: caller?.id ?? null,
    released_at: now,
    created_at: now,
    updated_at: now,
  };
  return releaseBody(ctx, { release, links: [], project, commit }, 'create');
};

/** Returns the body for a sample wiki page. This hub has no wikis. */
export const wikiSample = async (scene: Scene): Promise<Body> => {
  const { ctx, caller } = scene;
  const project = await someProject(scene);
  const wiki = { full_path: `${project.full_path}.wiki` };
  const page = `${projectWebUrl(ctx, project)}/-/wikis/home`;
  return {
    object_kind: 'wiki_page',
    user: caller && hookUser(ctx, caller),
    project: hookProject(ctx, project),
    wiki: {
      web_url: `${projectWebUrl(ctx, project)}/-/wikis/home`,
      git_ssh_url: sshUrlToRepo(ctx, wiki),
      git_http_url: httpUrlToRepo(ctx, wiki),
      path_with_namespace: wiki.full_path,
      default_branch: project.default_branch ?? 'main',
    },
    object_attributes: {
      title: 'Home',
      content: 'A sample page for testing a hook.',
      format: 'markdown',
      message: 'Create home',
      slug: 'home',
      url: page,
      action: 'create',
      diff_url: `${page}/diff?version_id=${sampleCommit(scene).id}`,
      version_id: sampleCommit(scene).id,
    },
  };
};

const DAYS = 7;

/** Returns the body for a sample token of the group or project that expires in a week. */
export const tokenSample = async ({ ctx, container, caller, now }: Scene): Promise<Body> =>
  tokenBody(
    container.kind === 'group'
      ? { group: hookGroup(container.group) }
      : { project: hookProject(ctx, container.project) },
    {
      id: 0,
      user_id: caller?.id ?? 0,
      name: 'Sample token',
      created_at: now,
      expires_at: new Date(ctx.clock.now().getTime() + DAYS * 86_400_000).toISOString().slice(0, 10),
    },
  );
