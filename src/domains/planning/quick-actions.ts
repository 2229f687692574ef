import { withoutCode } from './prose.ts';

/** The words of lines such as `/label ~bug`, and what they mean. */
const NAMES = {
  label: 'label',
  labels: 'label',
  unlabel: 'unlabel',
  remove_label: 'unlabel',
  relabel: 'relabel',
  assign: 'assign',
  unassign: 'unassign',
  remove_assignee: 'unassign',
  assign_reviewer: 'assign_reviewer',
  reviewer: 'assign_reviewer',
  request_review: 'assign_reviewer',
  unassign_reviewer: 'unassign_reviewer',
  remove_reviewer: 'unassign_reviewer',
  milestone: 'milestone',
  remove_milestone: 'remove_milestone',
  close: 'close',
  reopen: 'reopen',
  draft: 'draft',
  ready: 'ready',
  title: 'title',
  estimate: 'estimate',
  estimate_time: 'estimate',
  remove_estimate: 'remove_estimate',
  remove_time_estimate: 'remove_estimate',
  spend: 'spend',
  spent: 'spend',
  spend_time: 'spend',
  remove_time_spent: 'remove_time_spent',
  lock: 'lock',
  unlock: 'unlock',
  subscribe: 'subscribe',
  unsubscribe: 'unsubscribe',
  target_branch: 'target_branch',
  due: 'due',
  remove_due_date: 'remove_due_date',
  weight: 'weight',
  clear_weight: 'clear_weight',
  confidential: 'confidential',
  approve: 'approve',
  unapprove: 'unapprove',
  merge: 'merge',
  rebase: 'rebase',
  submit_review: 'submit_review',
} as const;

export type QuickActionName = (typeof NAMES)[keyof typeof NAMES];

/** For merge requests only. */
const OF_MERGE_REQUESTS: ReadonlySet<string> = new Set<QuickActionName>([
  'assign_reviewer',
  'unassign_reviewer',
  'draft',
  'ready',
  'target_branch',
]);
/** For issues only. */
const OF_ISSUES: ReadonlySet<string> = new Set<QuickActionName>([
  'due',
  'remove_due_date',
  'weight',
  'clear_weight',
  'confidential',
]);

/** Actions of comments on merge requests. In descriptions they are text. */
const COMMANDS = ['approve', 'unapprove', 'merge', 'rebase', 'submit_review'] as const satisfies QuickActionName[];
export type QuickCommand = (typeof COMMANDS)[number];

export type IssuableKind = 'issue' | 'merge_request';

export interface QuickAction {
  readonly name: QuickActionName;
  /** The rest of the line, without spaces around it. */
  readonly argument: string;
}

const LINE = /^\/([a-z_]{1,30})(?:[ \t]+(.*))?$/;
export const isCommand = (name: QuickActionName): name is QuickCommand => COMMANDS.some((each) => each === name);
const isName = (word: string): word is keyof typeof NAMES => Object.hasOwn(NAMES, word);

/**
 * Takes the quick actions out of a text: lines that begin with `/` and a word that is known for issues or merge requests.
 * Lines inside code stay. Takes linear time.
 *
 * @param inComment also takes the commands of comments on merge requests
 */
export const takeQuickActions = (
  text: string,
  kind: IssuableKind,
  inComment = false,
): { readonly text: string; readonly actions: readonly QuickAction[] } => {
  if (!/^\//m.test(text)) return { text, actions: [] };
  const actions: QuickAction[] = [];
  const prose = withoutCode(text).split('\n');
  const kept = text.split('\n').filter((line, index) => {
    const found = prose[index]?.startsWith('/') ? LINE.exec(line.trimEnd()) : null;
    const word = found?.[1] ?? '';
    if (!found || !isName(word)) return true;
    const name = NAMES[word];
    if ((kind === 'issue' ? OF_MERGE_REQUESTS : OF_ISSUES).has(name)) return true;
    if (isCommand(name) && !(inComment && kind === 'merge_request')) return true;
    actions.push({ name, argument: (found[2] ?? '').trim() });
    return false;
  });
  return actions.length === 0 ? { text, actions } : { text: kept.join('\n').trim(), actions };
};

const NAME = /[~%]?"([^"]{1,255})"|[~%]?([^\s"]{1,255})/g;

/** Splits `~bug ~"needs work"` into names. */
export const namesIn = (argument: string): string[] =>
  [...argument.matchAll(NAME)].map((found) => found[1] ?? found[2] ?? '').filter(Boolean);
