import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { codeOf } from './error-code.ts';

/** The path of a socket has at most 107 bytes. This leaves room for the name of a socket. */
const MAX_BYTES = 80;

/**
 * Creates a temporary folder that only this account can enter. Its path is so short that a Unix socket fits into it.
 * Tries TMPDIR, `/tmp` and then the `others`.
 *
 * @throws Error that says what to do if none of them can take it
 */
export const shortTemporaryFolder = async (prefix: string, others: readonly string[] = []): Promise<string> => {
  const problems: string[] = [];
  for (const parent of new Set([tmpdir(), '/tmp', ...others])) {
    const path = join(parent, prefix);
    if (Buffer.byteLength(path) > MAX_BYTES) {
      problems.push(`the path ${parent} is too long`);
      continue;
    }
    try {
      return await mkdtemp(path);
    } catch (error) {
      if (!(error instanceof Error) || codeOf(error) === null) throw error;
      problems.push(error.message);
    }
  }
  throw new Error(
    `There is no folder for temporary files (${problems.join('; ')}). Set TMPDIR to one with a short path.`,
  );
};
