/** The archive itself is invalid, so a retry cannot help. The message is a plain sentence for its owner. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}
