import { ciConfigPathOf } from '#domains/projects/ci-config-path.ts';
import type { RepositoryProject } from '#domains/repositories/model.ts';
import type { Context } from '#platform/context.ts';
import { ConfigError } from './config-error.ts';
import { findFiles } from './included-files.ts';
import { withoutLead } from './path-globs.ts';
import type { RepositoryView } from './repository-view.ts';

export type CompilingProject = RepositoryProject & { readonly ci_config_path: string | null };

/** Where a project has its CI file. */
export type ConfigPath =
  | { readonly kind: 'own'; readonly path: string }
  | { readonly kind: 'remote'; readonly url: string }
  | { readonly kind: 'project'; readonly path: string; readonly project: string; readonly ref: string | null };

/** Reads `ci_config_path`: a path, a URL, `path@group/project` or `path@group/project:ref`. */
const parseConfigPath = (text: string): ConfigPath => {
  if (/^https?:\/\//i.test(text)) return { kind: 'remote', url: text };
  const [, path, project, ref = null] = /^([^@]+)@([^@:]+\/[^@:]+)(?::(.+))?$/.exec(text) ?? [];
  if (path === undefined || project === undefined) return { kind: 'own', path: withoutLead(text) };
  return { kind: 'project', path: withoutLead(path), project, ref };
};

interface FoundConfig {
  readonly text: string;
  /** The view that local includes of the file are read from. Null for a remote file. */
  readonly view: RepositoryView | null;
}

/** Returns the CI file of the project. @throws ConfigError, with `isMissing` if there is none */
export const findConfigFile = async (
  ctx: Context,
  project: CompilingProject,
  view: RepositoryView | null,
): Promise<FoundConfig> => {
  const place = parseConfigPath(await ciConfigPathOf(ctx, project));
  if (place.kind === 'own') {
    const text = (await view?.read(place.path)) ?? null;
    if (text === null) throw missingFile();
    return { text, view };
  }
  const target =
    place.kind === 'remote'
      ? ({ kind: 'remote', url: place.url, integrity: null } as const)
      : ({ kind: 'file', project: place.project, ref: place.ref, paths: [place.path] } as const);
  const [found] = await findFiles(ctx, target, { view }, { valueFor: () => null, signal: ctx.signal });
  if (!found) throw missingFile();
  return { text: found.text, view: found.origin.view };
};

export const MISSING_FILE = 'Missing CI config file';

const missingFile = () => new ConfigError(MISSING_FILE, { isMissing: true });

/** Returns whether the project has its CI file in its own repository, and the commit lacks it. */
export const lacksCiFile = async (
  ctx: Context,
  project: Pick<CompilingProject, 'ci_config_path' | 'disk_path'>,
  sha: string,
): Promise<boolean> => {
  const place = parseConfigPath(await ciConfigPathOf(ctx, project));
  if (place.kind !== 'own') return false;
  return (await ctx.services.git.findFile(project.disk_path, sha, place.path))?.type !== 'blob';
};
