import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { decrypt } from '#platform/secrets.ts';
import { MIB } from '#platform/values/units.ts';
import { ByteProgress } from '../byte-progress.ts';
import { type ImportRow, TransferError } from '../model.ts';
import { finishCopy } from './finish.ts';
import { openRemote } from './remote.ts';

const TIMEOUT_MS = 2 * 60 * 60_000;

/** Clones the repository from the import's `source_url`. It has no checkpoint, so after a crash it starts over. */
export const cloneRepository = async (ctx: Context, row: ImportRow, project: ProjectRow): Promise<void> => {
  if (row.source_url === null) throw new TransferError('The address of the repository is gone.');
  const settings = await getSettings(ctx);
  const address = decrypt(ctx.services.secretKey, row.source_url);
  const maxBytes = settings.max_decompressed_archive_size * MIB;
  const progress = new ByteProgress(ctx, row, project, (bytes) => ({ bytes: sql`greatest(bytes, ${bytes}::bigint)` }));
  try {
    const remote = await openRemote(ctx, address, {
      policy: await outboundPolicy(ctx),
      maxBytes,
      timeoutMs: TIMEOUT_MS,
    });
    const { branches, defaultBranch } = await ctx.services.git.cloneRemote(project.disk_path, remote, {
      maxInputBytes: maxBytes,
      maxFiles: settings.push_max_files,
      timeoutMs: TIMEOUT_MS,
      signal: ctx.signal,
      onProgress: (bytes) => progress.report(bytes),
    });
    await progress.settled();
    await finishCopy(ctx, row, project, { branches, defaultBranch });
  } catch (error) {
    await progress.settled().catch(() => undefined);
    if (ctx.signal.aborted) throw error;
    const reason = reasonOf(error);
    throw reason === null ? error : new TransferError(reason);
  }
};

/**
 * Returns the reason if the remote is at fault, or null if the hub may be. Reasons hold neither secrets nor our
 * addresses.
 */
const reasonOf = (error: unknown): string | null => {
  if (error instanceof OutboundError) return `The repository could not be fetched: ${sentence(error.message)}`;
  const ofTheirs = error instanceof GitError && ['invalid', 'too_large', 'timeout'].includes(error.reason);
  return ofTheirs ? `The repository could not be imported: ${sentence(error.message)}` : null;
};

const sentence = (text: string): string => (text.endsWith('.') ? text : `${text}.`);
