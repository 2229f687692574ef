/**
 * Why a git call failed: `invalid` for input that cannot be served, `conflict` for a ref that is not what it was
 * taken for, `missing` for no repository at that path, the rest as they say.
 */
export type GitErrorReason = 'failed' | 'invalid' | 'conflict' | 'missing' | 'too_large' | 'timeout' | 'aborted';

/** A git call that failed. `message` is plain and may be shown to users; `stderr` is for the log. */
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
