import type { Selectable } from 'kysely';
import type { PushRules } from '#platform/db/tables.ts';

/** The rule of a group or project, under the names of the specification (3 §2.3). */
export type PushRule = Selectable<PushRules>;

/** The switches of a rule, each with what it refuses. */
export const FLAGS = {
  commit_committer_check: "Commits whose committer's address is not a confirmed address of the user who pushes.",
  commit_committer_name_check: "Commits whose committer's name is not the name of the user who pushes.",
  reject_unsigned_commits: 'Commits without a signature. It is not verified.',
  reject_non_dco_commits: 'Commits without a `Signed-off-by: Name <address>` line.',
  deny_delete_tag: 'The deletion of tags.',
  member_check: 'Commits whose author or committer has no confirmed address of a user.',
  prevent_secrets: 'New files with a name that usually holds a secret.',
} as const;
export type Flag = keyof typeof FLAGS;

/** Regular expressions (RE2) that match anywhere in the text. An empty pattern is not checked. */
export const PATTERNS = {
  commit_message_regex: 'Every commit message must match this pattern.',
  commit_message_negative_regex: 'No commit message may match this pattern.',
  branch_name_regex: 'The names of new branches must match this pattern. The default branch may have any name.',
  author_email_regex: 'The addresses of the author and the committer must match this pattern.',
  file_name_regex: 'No path of a new or renamed file may match this pattern.',
} as const;
export type Pattern = keyof typeof PATTERNS;

export const MAX_FILE_SIZE = 'Maximum size of a new file in MiB; 0 for no limit.';

/** The attributes of a rule. Absent attributes stay unchanged. Null or an empty text removes a pattern. */
export type PushRuleAttributes = { readonly [K in Flag]?: boolean | undefined } & {
  readonly [K in Pattern]?: string | null | undefined;
} & { readonly max_file_size?: number | null | undefined };

const isFlag = (name: string): name is Flag => name in FLAGS;
const isPattern = (name: string): name is Pattern => name in PATTERNS;
export const FLAG_NAMES: readonly Flag[] = Object.keys(FLAGS).filter(isFlag);
export const PATTERN_NAMES: readonly Pattern[] = Object.keys(PATTERNS).filter(isPattern);
