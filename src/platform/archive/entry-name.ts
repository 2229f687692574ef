import { ArchiveError } from './archive-error.ts';

/**
 * The relative path that an entry is known by, without `./` in front or `/` at the end; empty for the root folder.
 * Throws ArchiveError for names that point outside, or are longer or deeper than any honest archive has.
 */
export const toEntryName = (raw: string): string => {
  if (raw.includes('\0')) throw new ArchiveError('The archive holds an entry with a NUL byte in its name.');
  if (Buffer.byteLength(raw) > MAX_NAME_BYTES)
    throw new ArchiveError('The archive holds an entry with too long a name.');
  if (raw.startsWith('/') || raw.includes('\\') || /^[A-Za-z]:/.test(raw)) {
    throw new ArchiveError(`The archive holds an absolute or foreign path: ${show(raw)}.`);
  }
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw new ArchiveError(`The archive holds a path that leads outside of it: ${show(raw)}.`);
  if (parts.length > MAX_DEPTH) throw new ArchiveError('The archive holds folders that are nested too deeply.');
  return parts.join('/');
};

/** Names go into messages, so control characters stay out and length is bounded. */
export const show = (name: string): string => JSON.stringify(name.toWellFormed().slice(0, 100));

const MAX_NAME_BYTES = 1024;
const MAX_DEPTH = 32;
