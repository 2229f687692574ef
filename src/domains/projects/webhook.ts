import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';
import { httpUrlToRepo, type ProjectRow, projectAvatarUrl, projectWebUrl, sshUrlToRepo } from './model.ts';

/** The parts of a project to read for its hook objects. */
export const HOOK_PARTS = [
  'id',
  'name',
  'description',
  'avatar_key',
  'full_path',
  'visibility_level',
  'default_branch',
  'ci_config_path',
  'namespace',
] as const;

/** The columns that the hook objects of a project use. */
export type HookedProject = Pick<ProjectRow, (typeof HOOK_PARTS)[number]>;

/** The project object of pipeline and job bodies, without the deprecated names (reference: webhooks §3). */
export const hookProjectCore = (ctx: Context, project: HookedProject) => ({
  id: project.id,
  name: project.name,
  description: project.description,
  web_url: projectWebUrl(ctx, project),
  avatar_url: projectAvatarUrl(ctx, project),
  git_ssh_url: sshUrlToRepo(ctx, project),
  git_http_url: httpUrlToRepo(ctx, project),
  namespace: project.namespace.name,
  visibility_level: project.visibility_level,
  path_with_namespace: project.full_path,
  default_branch: project.default_branch,
  ci_config_path: project.ci_config_path,
});

/** The project object of webhook bodies, with its deprecated names. */
export const hookProject = (ctx: Context, project: HookedProject) => {
  const core = hookProjectCore(ctx, project);
  return {
    ...core,
    homepage: core.web_url,
    url: core.git_ssh_url,
    ssh_url: core.git_ssh_url,
    http_url: core.git_http_url,
  };
};

/** The deprecated `repository` object. Pushes and jobs add the rest (`hookPushRepository`). */
export const hookRepository = (ctx: Context, project: HookedProject) => ({
  name: project.name,
  url: sshUrlToRepo(ctx, project),
  description: project.description,
  homepage: projectWebUrl(ctx, project),
});

/** The same object for push and job bodies. */
export const hookPushRepository = (ctx: Context, project: HookedProject) => ({
  ...hookRepository(ctx, project),
  git_http_url: httpUrlToRepo(ctx, project),
  git_ssh_url: sshUrlToRepo(ctx, project),
  visibility_level: project.visibility_level,
});

// Each part excludes the characters that can start the next match, so matching takes linear time.
const ATTACHED_IMAGE = /(!\[[^[\]\n]*\]\()\/(uploads\/[^()\s]+\))/g;

/** Expands relative links to attached images to full URLs, for Markdown in webhook bodies (reference: webhooks §3). */
export const hookMarkdown = (ctx: Context, projectId: number, text: string | null): string | null =>
  text?.replace(
    ATTACHED_IMAGE,
    (_, before: string, path: string) => before + webUrl(ctx, `-/project/${projectId}/${path}`),
  ) ?? null;
