import { ArchiveError } from '#platform/archive/archive-error.ts';
import { DomainError } from '#platform/errors.ts';
import { TransferError } from '../model.ts';

/** Returns the message if a retry of the import would not help, or null if it might. */
export const reasonOf = (error: unknown): string | null => {
  if (error instanceof ArchiveError || error instanceof TransferError) return error.message;
  if (error instanceof DomainError && error.code === 'not_found') return 'The archive is gone.';
  return null;
};
