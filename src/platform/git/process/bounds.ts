import { createTurns, type TurnLimits, type Turns } from '../../caller/turns.ts';
import { GitError } from '../git-error.ts';

/** The number of concurrent processes for short calls. Fetches and pushes have the same number each. */
export const DEFAULT_PROCESSES = 24;

/**
 * Limits the number of concurrent git processes of each kind. Each caller (a user, or an address without a credential)
 * gets only a part of them, so that no caller can take them all. The jobs of the hub itself count only against the
 * total, and wait as long as needed.
 */
export interface ProcessBounds {
  /** Short calls, each of which ends by itself. */
  readonly questions: Turns;
  readonly fetches: Turns;
  readonly pushes: Turns;
  /** Large files, for as long as a client reads them. */
  readonly files: Turns;
  readonly archives: Turns;
}

/** Creates the bounds. An aborted wait fails with a GitError `aborted`. */
export const createProcessBounds = (processes: number): ProcessBounds => {
  const ofCaller = Math.max(1, Math.floor(processes / 3));
  const waiting = { ofCaller: 100, ofAll: 1_000 };
  return {
    questions: gitTurns({ ofCaller, ofAll: processes, waiting }),
    fetches: gitTurns({ ofCaller, ofAll: processes, waiting }),
    pushes: gitTurns({ ofCaller, ofAll: processes, waiting }),
    files: gitTurns({ ofCaller: 10, ofAll: 40 }),
    archives: gitTurns({ ofCaller: 4, ofAll: 16 }),
  };
};

const gitTurns = (limits: TurnLimits): Turns =>
  createTurns(limits, {
    busy: 'The hub is busy with other repositories. Try again in a moment.',
    aborted: () => new GitError('aborted', 'The repository operation was cancelled'),
  });
