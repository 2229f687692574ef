/** The archive itself is invalid, so a retry cannot help. The message is a plain sentence for its owner. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}

/** The archive is beyond a limit that the caller set. */
export class ArchiveLimitError extends ArchiveError {
  readonly limit: 'bytes' | 'time';

  constructor(limit: 'bytes' | 'time', message: string) {
    super(message);
    this.limit = limit;
  }
}
