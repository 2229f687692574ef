import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { readWhole, textOf } from './files.ts';
import { branchRef, type RepositoryProject } from './model.ts';

// Templates for the descriptions of issues and merge requests are Markdown files in the default branch.

const FOLDERS = {
  issues: '.gitlab/issue_templates',
  merge_requests: '.gitlab/merge_request_templates',
} as const;
export type TemplateKind = keyof typeof FOLDERS;
export const TEMPLATE_KINDS = ['issues', 'merge_requests'] as const satisfies readonly TemplateKind[];

/** Further files of a folder are no templates. */
const MAX_TEMPLATES = 1_000;
const EXTENSION = '.md';

export interface DescriptionTemplate {
  /** The name of the file without `.md`. */
  readonly name: string;
  /** The id of its content. */
  readonly oid: string;
}

/** Lists the templates of one kind by name. @throws DomainError as `requireAbility(read_code)` */
export const listDescriptionTemplates = async (
  ctx: Context,
  project: RepositoryProject,
  kind: TemplateKind,
): Promise<readonly DescriptionTemplate[]> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const tip =
    project.default_branch === null ? null : await git.resolve(project.disk_path, branchRef(project.default_branch));
  const folder = tip === null ? null : await git.findFile(project.disk_path, tip, FOLDERS[kind]);
  if (folder?.type !== 'tree') return [];
  const found: DescriptionTemplate[] = [];
  for await (const { path, oid, type, mode } of git.walkTree(project.disk_path, folder.oid, { signal: ctx.signal })) {
    // Links are not followed.
    const isTemplate = type === 'blob' && mode !== '120000' && path.endsWith(EXTENSION) && path !== EXTENSION;
    if (isTemplate) found.push({ name: path.slice(0, -EXTENSION.length), oid });
    if (found.length === MAX_TEMPLATES) break;
  }
  return found;
};

/**
 * Returns the text of a template.
 *
 * @throws DomainError `not_found` (Template), `too_large`, and as `requireAbility(read_code)`
 */
export const getDescriptionTemplate = async (
  ctx: Context,
  project: RepositoryProject,
  kind: TemplateKind,
  name: string,
): Promise<{ readonly name: string; readonly content: string }> => {
  const template = (await listDescriptionTemplates(ctx, project, kind)).find((each) => each.name === name);
  if (!template) throw notFound('Template');
  return { name, content: await templateContent(ctx, project, template) };
};

/** Returns the text of a listed template. Null if it is large or not text. */
export const findTemplateText = async (
  ctx: Context,
  project: RepositoryProject,
  { oid }: Pick<DescriptionTemplate, 'oid'>,
): Promise<string | null> => {
  const object = await ctx.services.git.findObject(project.disk_path, oid);
  return object && textOf(ctx, project, object);
};

/** Returns the text of a listed template. @throws DomainError `too_large` */
const templateContent = async (
  ctx: Context,
  project: RepositoryProject,
  { oid }: Pick<DescriptionTemplate, 'oid'>,
): Promise<string> => {
  const object = await ctx.services.git.findObject(project.disk_path, oid);
  if (!object) throw notFound('Template');
  return (await readWhole(ctx, project, object)).toString('utf8');
};

/** Returns the text of `Default.md`, which descriptions begin with. Null without it, and if it is large or not text. */
export const defaultDescription = async (
  ctx: Context,
  project: RepositoryProject,
  kind: TemplateKind,
): Promise<string | null> => {
  const templates = await listDescriptionTemplates(ctx, project, kind);
  const template = templates.find(({ name }) => name.toLowerCase() === 'default');
  const object = template && (await ctx.services.git.findObject(project.disk_path, template.oid));
  const text = object ? await textOf(ctx, project, object) : null;
  // Only the first bytes are searched for what is not text. Postgres stores no NUL.
  return text?.replaceAll('\0', '') ?? null;
};
