import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';

/** Removes what the projects of a deleted user or group kept outside the database; what is gone already is fine. */
export const removeProjectFiles = defineJob({
  name: 'users.remove_project_files',
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
