import type { CompiledJob } from '#domains/ci-config/model.ts';

type Release = NonNullable<CompiledJob['release']>;

/** The keys of `release`, and the options of the older tool, in its order. */
const OPTIONS = [
  ['name', 'name'],
  ['description', 'description'],
  ['tag_name', 'tag-name'],
  ['tag_message', 'tag-message'],
  ['ref', 'ref'],
  ['released_at', 'released-at'],
] as const;

/** The same of `glab`, whose first argument is the tag. */
const GLAB_OPTIONS = [
  ['name', 'name'],
  ['description', 'notes'],
  ['tag_message', 'tag-message'],
  ['ref', 'ref'],
  ['released_at', 'released-at'],
] as const;

const GLAB_LOGIN =
  'glab auth login --job-token "$CI_JOB_TOKEN" --hostname "$CI_SERVER_FQDN" --api-protocol "$CI_SERVER_PROTOCOL"';
const GLAB_CREATE = 'GITLAB_HOST="$CI_SERVER_URL" glab -R "$CI_PROJECT_PATH" release create';

/**
 * Returns the script of a `release` step. It calls the tool that images for release jobs contain: `glab`, or the older
 * `release-cli`. Shells of Windows, which do not understand the choice, get the older one. Values are quoted so that the
 * shell replaces variables in them and nothing else.
 */
export const releaseScript = (release: Release, platform: string | undefined): string[] => {
  if (platform === 'windows') return [withReleaseCli(release)];
  const lines = [
    'if command -v glab >/dev/null 2>&1; then',
    GLAB_LOGIN,
    withGlab(release),
    'else',
    withReleaseCli(release),
    'fi',
  ];
  return [lines.join('\n')];
};

const withReleaseCli = (release: Release): string =>
  [
    'release-cli create',
    ...optionsOf(release, OPTIONS),
    ...milestonesOf(release),
    ...linksOf(release).map((link) => `--assets-link ${quoted(JSON.stringify(link))}`),
  ].join(' ');

/** It neither looks for a newer version nor closes milestones. */
const withGlab = (release: Release): string => {
  const links = linksOf(release);
  return [
    GLAB_CREATE,
    quoted(String(release.tag_name)),
    ...optionsOf(release, GLAB_OPTIONS),
    ...milestonesOf(release),
    ...(links.length === 0 ? [] : [`--assets-links ${quoted(JSON.stringify(links))}`]),
    '--no-update --no-close-milestone',
  ].join(' ');
};

const optionsOf = (release: Release, options: readonly (readonly [key: string, option: string])[]): string[] =>
  options.flatMap(([key, option]) => {
    const value = release[key];
    return typeof value === 'string' || typeof value === 'number' ? [`--${option} ${quoted(String(value))}`] : [];
  });

const milestonesOf = ({ milestones = [] }: Release): string[] =>
  [milestones].flat().flatMap((title) => (typeof title === 'string' ? [`--milestone ${quoted(title)}`] : []));

const linksOf = ({ assets }: Release): readonly unknown[] =>
  typeof assets === 'object' && assets !== null && 'links' in assets && Array.isArray(assets.links) ? assets.links : [];

/** Command substitutions stay text. References to variables (`$NAME`, `${NAME}`) are replaced by the shell. */
const quoted = (value: string): string => `"${value.replace(/[\\"`]/g, '\\$&').replace(/\$\(/g, '\\$(')}"`;
