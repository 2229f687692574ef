import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { ProjectRow } from './model.ts';

const USUAL_PATH = '.gitlab-ci.yml';

/** Returns where the project has its CI file: a path, a URL, or `path@group/project`. The instance sets the default. */
export const ciConfigPathOf = async (
  ctx: Context,
  { ci_config_path }: Pick<ProjectRow, 'ci_config_path'>,
): Promise<string> => ci_config_path || (await getSettings(ctx)).default_ci_config_path || USUAL_PATH;
