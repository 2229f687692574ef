import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import type { RefRefusal, RefUpdate } from '#platform/git/http.ts';
import type { NewObjects } from '#platform/git/objects.ts';
import { commitChecks } from './commit-checks.ts';
import { createMatcher, type Matcher } from './matcher.ts';
import type { PushRule } from './model.ts';
import { testOf } from './patterns.ts';
import { isSecretFile } from './secret-files.ts';

// Pushed objects are read as a stream, so memory use does not grow with the push. The time and the number of refusals
// are limited.

const TIME_LIMIT_MS = 120_000;
const MAX_REFUSALS = 10;
/** Limits the number of updates that are searched for the one that contains a commit. */
const MAX_TIPS_ASKED = 50;
/** Yields the event loop regularly while many commits are checked. */
const TURN_MS = 20;
const BATCH = 500;
const MEBIBYTE = 1024 * 1024;

/** Returns why the rule refuses a new branch of this name; null if it does not. */
export const refusalOfBranchName = (rule: PushRule, branch: string): string | null => {
  const matches = testOf('branch_name_regex', rule.branch_name_regex);
  return matches === null || matches(branch)
    ? null
    : `the branch name does not match "${rule.branch_name_regex}" (push rule branch_name_regex)`;
};

/** Returns why the rule refuses to delete tags; null if it does not. */
export const refusalOfTagDeletion = (rule: PushRule): string | null =>
  rule.deny_delete_tag ? 'tags cannot be deleted (push rule deny_delete_tag)' : null;

/** A problem, with the commit that causes it if known. */
interface Finding {
  readonly commit: string | null;
  readonly problem: string;
}

/** Returns up to ten reasons why the rule refuses the commits and files of the updates. */
export const refusalsOfObjects = async (
  ctx: Context,
  project: ProjectRow,
  rule: PushRule,
  updates: readonly RefUpdate[],
  objects: NewObjects,
): Promise<readonly RefRefusal[]> => {
  const tips = [...new Set(updates.flatMap(({ newOid }) => newOid ?? []))];
  const [first] = updates;
  if (tips.length === 0 || !first) return [];
  const startedAt = performance.now();
  const timeLeftMs = () => Math.max(1, Math.ceil(TIME_LIMIT_MS - (performance.now() - startedAt)));
  const call = () => ({ timeoutMs: timeLeftMs() });
  const matcher = createMatcher(rule, timeLeftMs);
  const review: Review = { ctx, rule, tips, objects, matcher, call };
  try {
    const found: Finding[] = [];
    for (const check of [badCommits, badFiles, bigFiles]) {
      for await (const finding of check(review)) {
        if (found.push(finding) >= MAX_REFUSALS) break;
      }
      if (found.length >= MAX_REFUSALS) break;
    }
    return await Promise.all(
      found.map(async ({ commit, problem }) => {
        const asked = tips.slice(0, MAX_TIPS_ASKED);
        const tip = commit === null || tips.length === 1 ? tips[0] : await objects.holderOf(asked, commit, call());
        const { ref } = updates.find(({ newOid }) => newOid === tip) ?? first;
        return { ref, reason: commit === null ? problem : `commit ${commit.slice(0, 8)}: ${problem}` };
      }),
    );
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    ctx.log.warn({ err: error, project_id: project.id }, 'a push could not be checked against its push rule');
    const reason =
      error.reason === 'timeout'
        ? 'the push is too large to be checked at once; push it in parts'
        : 'the push could not be checked';
    return updates.map(({ ref }) => ({ ref, reason }));
  } finally {
    await matcher.close();
  }
};

/** The context of every check. */
interface Review {
  readonly ctx: Context;
  readonly rule: PushRule;
  readonly tips: readonly string[];
  readonly objects: NewObjects;
  readonly matcher: Matcher;
  /** Returns the remaining time, for calls of git. */
  call(): { readonly timeoutMs: number };
}

type Check = (review: Review) => AsyncGenerator<Finding>;

const badCommits: Check = async function* ({ ctx, rule, tips, objects, matcher, call }) {
  const checks = await commitChecks(ctx, rule, matcher);
  if (checks === null) return;
  const turn = turns(call);
  let batch: { readonly id: string; readonly emails: readonly string[] }[] = [];
  const strangers = async function* () {
    const known = await checks.knownAddresses(batch.flatMap(({ emails }) => emails));
    for (const { id, emails } of batch) {
      for (const email of new Set(emails)) {
        if (known.has(email.toLowerCase())) continue;
        yield { commit: id, problem: `"${email}" is not the address of a user (push rule member_check)` };
      }
    }
    batch = [];
  };
  for await (const commit of objects.commits(tips, call())) {
    for (const problem of await checks.problemsOf(commit)) yield { commit: commit.id, problem };
    if (rule.member_check) batch.push({ id: commit.id, emails: [commit.author_email, commit.committer_email] });
    if (batch.length >= BATCH) yield* strangers();
    await turn();
  }
  if (batch.length > 0) yield* strangers();
};

const badFiles: Check = async function* ({ rule, tips, objects, matcher, call }) {
  const isNamed = matcher.has('file_name_regex');
  if (!isNamed && !rule.prevent_secrets) return;
  const turn = turns(call);
  for await (const { commit, path } of objects.files(tips, call())) {
    if (rule.prevent_secrets && isSecretFile(path)) {
      yield { commit, problem: `"${shown(path)}" looks like a file with secrets (push rule prevent_secrets)` };
    }
    if (isNamed && (await matcher.finds('file_name_regex', path))) {
      const pattern = rule.file_name_regex;
      yield { commit, problem: `the file name "${shown(path)}" matches "${pattern}" (push rule file_name_regex)` };
    }
    await turn();
  }
};

const bigFiles: Check = async function* ({ rule, tips, objects, call }) {
  if (rule.max_file_size === 0) return;
  for await (const { oid, size, path } of objects.blobsOver(tips, rule.max_file_size * MEBIBYTE, call())) {
    const name = path === '' ? `the object ${oid.slice(0, 8)}` : `"${shown(path)}"`;
    const mebibytes = (size / MEBIBYTE).toFixed(1);
    yield {
      commit: await objects.commitWith(tips, oid, call()),
      problem: `${name} has ${mebibytes} MiB, more than ${rule.max_file_size} (push rule max_file_size)`,
    };
  }
};

const MAX_SHOWN = 200;
const shown = (path: string): string => (path.length > MAX_SHOWN ? `…${path.slice(-MAX_SHOWN)}` : path);

/** Yields the event loop now and then, and ends checks that exceed the time limit after git has finished. */
const turns = (call: Review['call']) => {
  let turnedAt = performance.now();
  return async (): Promise<void> => {
    if (performance.now() - turnedAt < TURN_MS) return;
    await nextTurn();
    turnedAt = performance.now();
    if (call().timeoutMs <= 1) throw new GitError('timeout', 'The push takes too long to check');
  };
};
