import type { Commit } from '#platform/git/objects.ts';

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
  /** References to the issues that the merge closes. */
  readonly issues: readonly string[];
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

%{issues}

See merge request %{reference}`;

const SQUASH_TEMPLATE = '%{title}';

const MAX_COMMITS = 100;
const MAX_BODY_BYTES = 100 * 1024;
/** The length of a whole message, in characters. */
const MAX_MESSAGE = 1_048_576;

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
  // A template may repeat a long description.
  return lines.join('\n').trim().slice(0, MAX_MESSAGE).toWellFormed();
};

const valuesOf = (facts: MessageFacts): Readonly<Record<string, string>> => {
  const { commits, oldest } = facts;
  const multiline = commits.findLast(({ message }) => message.trim().includes('\n'));
  return {
    source_branch: facts.source_branch,
    target_branch: facts.target_branch,
    title: facts.title,
    description: facts.description,
    issues: facts.issues.length === 0 ? '' : `Closes ${sentence(facts.issues)}`,
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

/** `#1`, `#1 and #2`, `#1, #2, and #3`. */
const sentence = (words: readonly string[]): string =>
  words.length < 3 ? words.join(' and ') : `${words.slice(0, -1).join(', ')}, and ${words.at(-1)}`;

/** Everyone who wrote a commit, once. */
const coAuthors = ({ commits }: MessageFacts): string => {
  const people = new Set(commits.map(({ author_name, author_email }) => `${author_name} <${author_email}>`));
  return [...people].map((person) => `Co-authored-by: ${person}`).join('\n');
};
