/** The archive itself is at fault, finally: trying again cannot help. The message is a plain sentence for its owner. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}
