import type { Selectable } from 'kysely';
import type { PushRules } from '#platform/db/tables.ts';

/** The rule of a group or project, under the names of the specification (3 §2.3). */
export type PushRule = Selectable<PushRules>;

/** What can be switched on, and what it then refuses. */
export const FLAGS = {
  commit_committer_check: "Commits whose committer's address is not a confirmed one of the person who pushes.",
  commit_committer_name_check: "Commits whose committer's name is not the name of the person who pushes.",
  reject_unsigned_commits: 'Commits without a signature. It is not verified.',
  reject_non_dco_commits: 'Commits without a `Signed-off-by: Name <address>` line.',
  deny_delete_tag: 'The deletion of tags.',
  member_check: 'Commits whose author or committer has no confirmed address of a user.',
  prevent_secrets: 'New files with a name that usually holds a secret.',
} as const;
export type Flag = keyof typeof FLAGS;

/** Regular expressions (RE2), found anywhere in what they are held against; an empty one says nothing. */
export const PATTERNS = {
  commit_message_regex: 'What every commit message must match.',
  commit_message_negative_regex: 'What no commit message may match.',
  branch_name_regex: 'What the names of new branches must match. The default branch may have any name.',
  author_email_regex: 'What the addresses of author and committer must match.',
  file_name_regex: 'What the path of no new or renamed file may match.',
} as const;
export type Pattern = keyof typeof PATTERNS;

export const MAX_FILE_SIZE = 'Mebibytes that a new file may have at most; 0 for any size.';

/** What can be said of a rule. Absent is unchanged; null and an empty text are nothing. */
export type PushRuleAttributes = { readonly [K in Flag]?: boolean | undefined } & {
  readonly [K in Pattern]?: string | null | undefined;
} & { readonly max_file_size?: number | null | undefined };

const isFlag = (name: string): name is Flag => name in FLAGS;
const isPattern = (name: string): name is Pattern => name in PATTERNS;
export const FLAG_NAMES: readonly Flag[] = Object.keys(FLAGS).filter(isFlag);
export const PATTERN_NAMES: readonly Pattern[] = Object.keys(PATTERNS).filter(isPattern);
