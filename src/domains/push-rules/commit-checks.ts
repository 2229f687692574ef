import { RE2JS } from 're2js';
import { confirmedAmong, confirmedEmailsOf } from '#domains/users/emails.ts';
import type { Context } from '#platform/context.ts';
import type { NewCommit } from '#platform/git/objects.ts';
import type { Matcher } from './matcher.ts';
import type { PushRule } from './model.ts';

/** Longer messages are refused instead of being matched. */
const MAX_MESSAGE = 64 * 1024;
/** Matches in linear time for any message. */
const SIGNED_OFF = RE2JS.compile('^Signed-off-by: .+ <[^<>]+@[^<>]+>\\s*$', RE2JS.MULTILINE | RE2JS.CASE_INSENSITIVE);

export interface CommitChecks {
  /** Returns the checks that the commit fails, except `member_check`. */
  problemsOf(commit: NewCommit): Promise<readonly string[]>;
  /** Returns those addresses, in lower case, that a user has confirmed. */
  knownAddresses(emails: readonly string[]): Promise<ReadonlySet<string>>;
}

/** Returns the rule's checks for each commit; null if there are none. */
export const commitChecks = async (ctx: Context, rule: PushRule, matcher: Matcher): Promise<CommitChecks | null> => {
  const checks: ((commit: NewCommit) => readonly string[] | Promise<readonly string[]>)[] = [];

  const isWanted = matcher.has('commit_message_regex');
  if (isWanted || matcher.has('commit_message_negative_regex')) {
    checks.push(async ({ message }) => {
      if (message.length > MAX_MESSAGE) return ['the message is too long to be checked'];
      const problems: string[] = [];
      if (isWanted && !(await matcher.finds('commit_message_regex', message)))
        problems.push(`the message does not match "${rule.commit_message_regex}" (push rule commit_message_regex)`);
      if (await matcher.finds('commit_message_negative_regex', message)) {
        const pattern = rule.commit_message_negative_regex;
        problems.push(`the message matches "${pattern}" (push rule commit_message_negative_regex)`);
      }
      return problems;
    });
  }
  if (matcher.has('author_email_regex')) {
    checks.push(async (commit) => {
      const problems: string[] = [];
      for (const email of new Set([commit.author_email, commit.committer_email])) {
        if (await matcher.finds('author_email_regex', email)) continue;
        problems.push(`"${email}" does not match "${rule.author_email_regex}" (push rule author_email_regex)`);
      }
      return problems;
    });
  }
  if (rule.reject_non_dco_commits) {
    checks.push(({ message }) =>
      SIGNED_OFF.test(message)
        ? []
        : ['the message has no "Signed-off-by: Name <address>" line (push rule reject_non_dco_commits)'],
    );
  }
  if (rule.reject_unsigned_commits) {
    checks.push(({ isSigned }) => (isSigned ? [] : ['it is not signed (push rule reject_unsigned_commits)']));
  }
  if (rule.commit_committer_check) {
    const own = new Set((await confirmedEmailsOf(ctx, ctx.actor.userId ?? 0)).map((email) => email.toLowerCase()));
    checks.push(({ committer_email: email }) =>
      own.has(email.toLowerCase())
        ? []
        : [`the committer's "${email}" is not a confirmed address of yours (push rule commit_committer_check)`],
    );
  }
  if (rule.commit_committer_name_check) {
    const user = await ctx.db
      .selectFrom('users')
      .select('name')
      .where('id', '=', ctx.actor.userId ?? 0)
      .executeTakeFirst();
    checks.push(({ committer_name: name }) =>
      name === user?.name
        ? []
        : [`the committer's name "${name}" is not yours, "${user?.name}" (push rule commit_committer_name_check)`],
    );
  }
  if (checks.length === 0 && !rule.member_check) return null;
  return {
    problemsOf: async (commit) => {
      if (!commit.isWhole) return ['it is too big to be checked against the push rule'];
      const problems: string[] = [];
      for (const check of checks) problems.push(...(await check(commit)));
      return problems;
    },
    knownAddresses: (emails) => confirmedAmong(ctx, emails),
  };
};
