/**
 * The reason of a failed git call: `invalid` for bad input, `conflict` for a ref whose value was not the expected one,
 * `missing` for a path without a repository, `no_space` for a full disk, and the others as named.
 */
export type GitErrorReason =
  | 'failed'
  | 'invalid'
  | 'conflict'
  | 'missing'
  | 'too_large'
  | 'no_space'
  | 'timeout'
  | 'aborted';

/** A git call that failed. `message` is safe to show to users; `stderr` is for the log. */
export class GitError extends Error {
  override readonly name = 'GitError';
  readonly reason: GitErrorReason;
  readonly command: string;
  readonly exitCode: number | null;
  readonly stderr: string;

  constructor(
    reason: GitErrorReason,
    message: string,
    details: { command?: string; exitCode?: number | null; stderr?: string; cause?: unknown } = {},
  ) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.reason = reason;
    this.command = details.command ?? '';
    this.exitCode = details.exitCode ?? null;
    this.stderr = details.stderr ?? '';
  }
}
