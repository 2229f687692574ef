import { isUtf8 } from 'node:buffer';
import type { Context } from '#platform/context.ts';

/** Suggestions cannot change larger files. */
const MAX_BYTES = 10 * 1024 * 1024;

interface FileAt {
  readonly disk_path: string;
  readonly sha: string;
  readonly path: string;
}

/** Returns the lines of a text file with their line breaks. Null if there is none, or if it is too large or no text. */
export const readLines = async (ctx: Context, { disk_path, sha, path }: FileAt): Promise<string[] | null> => {
  const { git } = ctx.services;
  const entry = await git.findFile(disk_path, sha, path);
  if (entry?.type !== 'blob' || entry.mode === '120000' || (entry.size ?? 0) > MAX_BYTES) return null;
  const content = await git.readBytes(disk_path, entry.oid, MAX_BYTES, { signal: ctx.signal });
  if (!content || !isUtf8(content) || content.includes(0)) return null;
  return linesOf(content.toString('utf8'));
};

/** Splits after each line break. */
export const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
