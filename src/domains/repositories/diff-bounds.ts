import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { DiffOptions } from '#platform/git/reading.ts';

/** Returns the limits for diffs from the settings. */
export const diffBounds = async (
  ctx: Context,
): Promise<Pick<DiffOptions, 'maxFiles' | 'maxLines' | 'maxPatchBytes'>> => {
  const { diff_max_files, diff_max_lines, diff_max_patch_bytes } = await getSettings(ctx);
  return { maxFiles: diff_max_files, maxLines: diff_max_lines, maxPatchBytes: diff_max_patch_bytes };
};
