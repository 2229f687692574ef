import type { CompiledJob } from '#domains/ci-config/model.ts';

/** The keys of `release` and the options of the tool that makes a release, in its order. */
const OPTIONS = [
  ['name', 'name'],
  ['description', 'description'],
  ['tag_name', 'tag-name'],
  ['tag_message', 'tag-message'],
  ['ref', 'ref'],
  ['released_at', 'released-at'],
] as const;

/**
 * Returns the script of a `release` step. It calls the tool that images for release jobs contain. Values are quoted so
 * that the shell replaces variables in them and nothing else.
 */
export const releaseScript = (release: NonNullable<CompiledJob['release']>): string[] => {
  const parts = ['release-cli create'];
  for (const [key, option] of OPTIONS) {
    const value = release[key];
    if (typeof value === 'string' || typeof value === 'number') parts.push(`--${option} ${quoted(String(value))}`);
  }
  if (Array.isArray(release.milestones)) {
    for (const milestone of release.milestones) parts.push(`--milestone ${quoted(String(milestone))}`);
  }
  const { assets } = release;
  if (typeof assets === 'object' && assets !== null && 'links' in assets && Array.isArray(assets.links)) {
    for (const link of assets.links) parts.push(`--assets-link ${quoted(JSON.stringify(link))}`);
  }
  return [parts.join(' ')];
};

/** Command substitutions stay text. References to variables (`$NAME`, `${NAME}`) are replaced by the shell. */
const quoted = (value: string): string => `"${value.replace(/[\\"`]/g, '\\$&').replace(/\$\(/g, '\\$(')}"`;
