import { describe, expect, it } from 'vitest';
import { expectedAnswer, expectedStatus, type Situation } from './merging-model.ts';

// merging-model.soak.test.ts compares the model with merges of random merge requests.

const easy: Situation = {
  method: 'merge',
  squash_option: 'default_off',
  squashOnCreation: undefined,
  squashOnMerge: undefined,
  squashMessage: undefined,
  protection: 'none',
  isDeveloper: false,
  pipeline: 'none',
  needsPipeline: false,
  skippedIsEnough: false,
  draft: false,
  hasOpenThread: false,
  needsResolution: false,
  approvalsRequired: 0,
  isApproved: false,
  sha: 'none',
};
const fine = { commits: 1, conflicts: false, isLinear: true };

describe('the model of merging', () => {
  it('agrees with the reference', () => {
    expect([expectedStatus(easy, fine), expectedAnswer(easy, fine)]).toEqual(['mergeable', 200]);
    const diverged = { ...fine, isLinear: false };
    expect(expectedStatus({ ...easy, method: 'ff' }, diverged)).toBe('need_rebase');
    expect(expectedAnswer({ ...easy, method: 'ff' }, diverged)).toBe(422);
    const both = { ...easy, needsPipeline: true };
    expect(expectedStatus(both, { ...fine, conflicts: true })).toBe('conflict');
    expect(expectedAnswer(both, { ...fine, conflicts: true })).toBe(405);
    expect(expectedAnswer(easy, { ...fine, conflicts: true })).toBe(422);
    expect([expectedStatus(both, fine), expectedAnswer(both, fine)]).toEqual(['ci_must_pass', 405]);
  });
});
