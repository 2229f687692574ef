/** A version by Semantic Versioning 2.0.0, such as `1.2.3` or `1.2.3-rc.1`. */
export const VERSION =
  /^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?$/;

export interface Version {
  readonly numbers: readonly number[];
  /** The parts of a pre-release; empty for a release. */
  readonly pre: readonly string[];
}

/** Parses the version in a tag or heading, with or without a `v`; null for anything else. */
export const versionOf = (name: string): Version | null => {
  const match = name.length > 255 ? null : VERSION.exec(name.replace(/^v/, ''));
  if (!match) return null;
  return { numbers: match.slice(1, 4).map(Number), pre: match[4]?.split('.') ?? [] };
};

/** Returns a negative number if `a` precedes `b` (Semantic Versioning 2.0.0 §11). */
export const compareVersions = (a: Version, b: Version): number => {
  for (const [index, number] of a.numbers.entries()) {
    const difference = number - (b.numbers[index] ?? 0);
    if (difference !== 0) return difference;
  }
  if (a.pre.length === 0 || b.pre.length === 0) return b.pre.length - a.pre.length;
  for (const [index, part] of a.pre.entries()) {
    const other = b.pre[index];
    if (other === undefined) return 1;
    if (part !== other) return comparePart(part, other);
  }
  return a.pre.length - b.pre.length;
};

const comparePart = (a: string, b: string): number => {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isNumber && isOtherNumber) return Number(a) - Number(b);
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  return a < b ? -1 : 1;
};

export interface ChangelogEntry {
  /** The value of the commit's trailer. */
  readonly category: string;
  readonly title: string;
  /** `group/project@sha` */
  readonly commit: string;
  /** `group/project!1`, the merge request that contains the commit. */
  readonly merge_request: string | null;
}

/** Returns the section of one version, in Markdown. */
export const sectionOf = (version: string, date: string, entries: readonly ChangelogEntry[]): string => {
  const categories = [...Map.groupBy(entries, ({ category }) => category)];
  const parts = categories.map(([category, of]) => {
    const lines = of.map(({ title, commit, merge_request }) =>
      merge_request === null
        ? `- [${title}](${commit})`
        : `- [${title}](${commit}) ([merge request](${merge_request}))`,
    );
    return `### ${category} (${of.length} ${of.length === 1 ? 'change' : 'changes'})\n\n${lines.join('\n')}\n`;
  });
  return `## ${version} (${date})\n\n${parts.length === 0 ? 'No changes.\n' : parts.join('\n')}`;
};

/**
 * Inserts the section into a changelog, above the first lower version or at the end. Returns null if the changelog
 * already has the version.
 */
export const withSection = (content: string, version: string, section: string): string | null => {
  const added = versionOf(version);
  let place = content.length;
  for (const heading of content.matchAll(/^## +(\S+)/gm)) {
    const other = versionOf(heading[1] ?? '');
    if (!added || !other) continue;
    const order = compareVersions(other, added);
    if (order === 0) return null;
    if (order < 0 && place === content.length) place = heading.index;
  }
  const [before, after] = [content.slice(0, place), content.slice(place)];
  const gap = before === '' || before.endsWith('\n\n') ? '' : before.endsWith('\n') ? '\n' : '\n\n';
  return `${before}${gap}${section}${after === '' ? '' : `\n${after}`}`;
};
