import { ArchiveError } from './archive-error.ts';

/**
 * Returns the relative path of an entry, without leading `./` or trailing `/`. The root folder is an empty path.
 *
 * @throws ArchiveError for names that point outside, or are longer or deeper than in any legitimate archive
 */
export const toEntryName = (raw: string): string => {
  if (raw.includes('\0')) throw new ArchiveError('The archive contains an entry with a NUL byte in its name.');
  if (Buffer.byteLength(raw) > MAX_NAME_BYTES)
    throw new ArchiveError('The archive contains an entry whose name is too long.');
  if (raw.startsWith('/') || raw.includes('\\') || /^[A-Za-z]:/.test(raw)) {
    throw new ArchiveError(`The archive contains an absolute or foreign path: ${show(raw)}.`);
  }
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..'))
    throw new ArchiveError(`The archive contains a path that leads outside of it: ${show(raw)}.`);
  if (parts.length > MAX_DEPTH) throw new ArchiveError('The archive contains folders that are nested too deeply.');
  return parts.join('/');
};

/** Quotes a name for messages: well-formed, without raw control characters, and limited in length. */
export const show = (name: string): string => JSON.stringify(name.toWellFormed().slice(0, 100));

const MAX_NAME_BYTES = 1024;
const MAX_DEPTH = 32;
