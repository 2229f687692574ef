// A naive model of merging, written from the reference (merge-requests §3 and §4) and not from the code.

export const PIPELINES = ['none', 'success', 'failed', 'running', 'skipped', 'of an older commit'] as const;
export const PROTECTIONS = [
  'none',
  'developers merge',
  'maintainers only',
  'maintainers merge, no one pushes',
] as const;

/** The facts that decide about a merge, apart from the commits. */
export interface Situation {
  readonly method: 'merge' | 'rebase_merge' | 'ff';
  readonly squash_option: 'never' | 'default_off' | 'default_on' | 'always';
  /** The options of the author, and those of the person who merges. */
  readonly squashOnCreation: boolean | undefined;
  readonly squashOnMerge: boolean | undefined;
  readonly squashMessage: string | undefined;
  readonly protection: (typeof PROTECTIONS)[number];
  /** Whether the person who merges is only a Developer. */
  readonly isDeveloper: boolean;
  readonly pipeline: (typeof PIPELINES)[number];
  readonly needsPipeline: boolean;
  readonly skippedIsEnough: boolean;
  readonly draft: boolean;
  readonly hasOpenThread: boolean;
  readonly needsResolution: boolean;
  readonly approvalsRequired: 0 | 1;
  readonly isApproved: boolean;
  readonly sha: 'none' | 'head' | 'another';
}

/** The facts about the branches by plain git. */
export interface Branches {
  readonly commits: number;
  readonly conflicts: boolean;
  /** The source contains the tip of the target. */
  readonly isLinear: boolean;
}

const ciOf = ({ pipeline, needsPipeline, skippedIsEnough }: Situation): 'ok' | 'ci_still_running' | 'ci_must_pass' => {
  if (!needsPipeline || pipeline === 'success') return 'ok';
  if (pipeline === 'skipped' && skippedIsEnough) return 'ok';
  return pipeline === 'running' ? 'ci_still_running' : 'ci_must_pass';
};

/** The first of these that holds, in the order of the reference. */
export const expectedStatus = (situation: Situation, { commits, conflicts, isLinear }: Branches): string => {
  const { method, approvalsRequired, isApproved, draft, hasOpenThread, needsResolution } = situation;
  const ci = ciOf(situation);
  const reasons: readonly (readonly [boolean, string])[] = [
    [approvalsRequired > 0 && !isApproved, 'not_approved'],
    [draft, 'draft_status'],
    [commits === 0, 'commits_status'],
    [hasOpenThread && needsResolution, 'discussions_not_resolved'],
    [conflicts, 'conflict'],
    [method !== 'merge' && !isLinear, 'need_rebase'],
    [ci !== 'ok', ci],
  ];
  return reasons.find(([holds]) => holds)?.[1] ?? 'mergeable';
};

/** The status of the answer to `PUT .../merge`. */
export const expectedAnswer = (situation: Situation, branches: Branches): number => {
  const { protection, isDeveloper, sha } = situation;
  const isShutOut = isDeveloper && protection !== 'none' && protection !== 'developers merge';
  if (isShutOut) return 401;
  const status = expectedStatus(situation, branches);
  const isOfTheCode = status === 'conflict' || status === 'need_rebase';
  if (status !== 'mergeable' && !isOfTheCode) return 405;
  if (isOfTheCode) return ciOf(situation) === 'ok' ? 422 : 405;
  return sha === 'another' ? 409 : 200;
};

const isSquashed = ({ squash_option, squashOnCreation, squashOnMerge }: Situation): boolean => {
  if (squash_option === 'always') return true;
  if (squash_option === 'never') return false;
  return squashOnMerge ?? squashOnCreation ?? squash_option === 'default_on';
};

/** The commits that a merge adds to the target branch, apart from those of the source branch. */
export const expectedCommits = (situation: Situation, { commits }: Branches) => ({
  /** A single commit without a message of its own stays as it is. */
  squash: isSquashed(situation) && (commits > 1 || situation.squashMessage !== undefined),
  merge: situation.method !== 'ff',
});
