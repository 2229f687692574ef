import { z } from 'zod';
import { defineJob } from './jobs.ts';

/**
 * The job `files.remove`: removes repositories, and files in storage, whose rows are gone. Added in the transaction that
 * deletes the rows; what is gone already is fine, so it may run again.
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
