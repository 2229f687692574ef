import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';

/** Removes the repositories of a deleted user's own projects; what is gone already is fine. */
export const removeRepositories = defineJob({
  name: 'users.remove_repositories',
  input: z.object({ disk_paths: z.array(z.string()) }),
  maxAttempts: 10,
  run: async (ctx, { disk_paths }) => {
    for (const path of disk_paths) {
      ctx.signal.throwIfAborted();
      await ctx.services.git.remove(path);
    }
  },
});
