import { z } from 'zod';
import { defineJob } from '../jobs.ts';

/**
 * The job `files.remove`: removes repositories and stored files whose rows were deleted. Added in the transaction that
 * deletes the rows. Idempotent: missing files are not an error.
 */
export const removeFiles = defineJob({
  name: 'files.remove',
  input: z.object({ disk_paths: z.array(z.string()), storage_keys: z.array(z.string()) }),
  maxAttempts: 25,
  run: async (ctx, { disk_paths, storage_keys }) => {
    for (const path of disk_paths) {
      ctx.signal.throwIfAborted();
      await ctx.services.git.remove(path);
    }
    for (const key of storage_keys) {
      ctx.signal.throwIfAborted();
      await ctx.services.storage.remove(key);
    }
  },
});
