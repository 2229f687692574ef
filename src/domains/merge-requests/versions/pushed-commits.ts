import type { SystemNote } from '#domains/planning/system-notes.ts';
import { MAX_TITLE } from '#domains/planning/texts.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';
import { isDraftTitle, withDraftMark } from '../model.ts';
import type { MergeRequestRow } from '../queries.ts';

/** The system note of a push lists so many commits. */
const MAX_LISTED = 100;

/** Returns the ids of the commits in the newest version. */
export const knownCommits = async ({ db }: Pick<Context, 'db'>, id: number): Promise<ReadonlySet<string>> => {
  const rows = await db
    .selectFrom('merge_request_diff_commits')
    .innerJoin('merge_request_diffs', 'merge_request_diffs.id', 'merge_request_diff_commits.diff_id')
    .select('sha')
    .where('merge_request_id', '=', id)
    .where('is_latest', '=', true)
    .execute();
  return new Set(rows.map(({ sha }) => sha));
};

/** Returns the system note for the commits that a push added, oldest first, as upstream writes it. */
export const pushNote = (commits: readonly Commit[], known: ReadonlySet<string>): SystemNote[] => {
  const added = commits.filter(({ id }) => !known.has(id));
  if (added.length === 0) return [];
  const listed = added.slice(0, MAX_LISTED).reverse();
  const items = listed.map(({ short_id, title }) => `<li>${short_id} - ${escaped(title)}</li>`);
  const count = `${added.length} ${added.length === 1 ? 'commit' : 'commits'}`;
  return [{ action: 'commit', body: `added ${count}\n\n<ul>${items.join('')}</ul>` }];
};

/** Returns the system note for a source branch that was deleted, or is there again. */
export const branchNote = (
  what: 'deleted' | 'restored',
  { source_branch }: Pick<MergeRequestRow, 'source_branch'>,
): SystemNote => ({ action: 'branch', body: `${what} source branch \`${source_branch}\`` });

/** The effects of a push besides its code. */
export interface PushedMark {
  readonly title: string;
  readonly note: SystemNote;
}

/**
 * Returns the title of the merge request as a draft if a push added a commit with the mark of a draft, `fixup!` or
 * `squash!` (reference: merge-requests §2). Null otherwise.
 */
export const draftMark = (
  { title, draft }: Pick<MergeRequestRow, 'title' | 'draft'>,
  commits: readonly Commit[],
  known: ReadonlySet<string>,
): PushedMark | null => {
  const marks = (text: string) => isDraftTitle(text) || /^(?:fixup|squash)!\s/.test(text);
  const commit = draft ? undefined : commits.find((each) => !known.has(each.id) && marks(each.title));
  if (!commit) return null;
  const body = `marked this merge request as **draft** from ${commit.short_id}`;
  return { title: withDraftMark(title, true).slice(0, MAX_TITLE), note: { action: 'title', body } };
};

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').slice(0, 500);
