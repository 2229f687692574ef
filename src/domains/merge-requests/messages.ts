import type { Commit } from '#platform/git/types.ts';

/** The facts that a template for a commit message may name (reference: merge-requests §4). */
export interface MessageFacts {
  readonly source_branch: string;
  readonly target_branch: string;
  readonly title: string;
  readonly description: string;
  /** `group/project!7`, and `!7`. */
  readonly reference: string;
  readonly local_reference: string;
  readonly source_project_id: number | null;
  readonly url: string;
  /** Newest first. */
  readonly commits: readonly Commit[];
  readonly oldest: Commit | null;
  /** `Name <address>` of each. */
  readonly reviewed_by: readonly string[];
  readonly approved_by: readonly string[];
  readonly merged_by: string;
}

const MERGE_TEMPLATE = `Merge branch '%{source_branch}' into '%{target_branch}'

%{title}

See merge request %{reference}`;

const SQUASH_TEMPLATE = '%{title}';

const MAX_COMMITS = 100;
const MAX_BODY_BYTES = 100 * 1024;

/** Returns the message of a merge commit, by the template of the project or the default one. */
export const mergeMessage = (template: string | null, facts: MessageFacts): string =>
  fill(template?.trim() ? template : MERGE_TEMPLATE, facts);

/** Returns the message of a squashed commit. */
export const squashMessage = (template: string | null, facts: MessageFacts): string =>
  fill(template?.trim() ? template : SQUASH_TEMPLATE, facts);

const PLACEHOLDER = /%\{([a-z_]+)\}/g;

/**
 * Replaces the placeholders. A line that holds nothing but an empty placeholder goes, with the blank line before it.
 * Unknown placeholders stay as they are.
 */
const fill = (template: string, facts: MessageFacts): string => {
  const values = valuesOf(facts);
  const lines: string[] = [];
  for (const line of template.replaceAll('\r', '').split('\n')) {
    const filled = line.replace(
      PLACEHOLDER,
      (all, name: string) => (Object.hasOwn(values, name) ? values[name] : all) ?? '',
    );
    if (filled.trim() === '' && line.trim() !== '' && line.replace(PLACEHOLDER, '').trim() === '') {
      if (lines.at(-1) === '') lines.pop();
      continue;
    }
    lines.push(filled);
  }
  return lines.join('\n').trim();
};

const valuesOf = (facts: MessageFacts): Readonly<Record<string, string>> => {
  const { commits, oldest } = facts;
  const multiline = commits.findLast(({ message }) => message.trim().includes('\n'));
  return {
    source_branch: facts.source_branch,
    target_branch: facts.target_branch,
    title: facts.title,
    description: facts.description,
    // Closing issues is not part of merging yet, so none are named.
    issues: '',
    reference: facts.reference,
    local_reference: facts.local_reference,
    source_project_id: facts.source_project_id === null ? '' : String(facts.source_project_id),
    first_commit: oldest?.message.trim() ?? '',
    first_multiline_commit: multiline?.message.trim() ?? facts.title,
    url: facts.url,
    reviewed_by: facts.reviewed_by.map((person) => `Reviewed-by: ${person}`).join('\n'),
    approved_by: facts.approved_by.map((person) => `Approved-by: ${person}`).join('\n'),
    merged_by: facts.merged_by,
    co_authored_by: coAuthors(facts),
    all_commits: commits
      .slice(0, MAX_COMMITS)
      .filter(({ message }) => Buffer.byteLength(message) <= MAX_BODY_BYTES)
      .map(({ message }) => `* ${message.trim()}`)
      .join('\n\n'),
  };
};

/** Everyone who wrote a commit, once. */
const coAuthors = ({ commits }: MessageFacts): string => {
  const people = new Set(commits.map(({ author_name, author_email }) => `${author_name} <${author_email}>`));
  return [...people].map((person) => `Co-authored-by: ${person}`).join('\n');
};
