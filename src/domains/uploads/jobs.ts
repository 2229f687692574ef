import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';

/** The job `uploads.drop_unclaimed` removes a file whose request ended or died before its row was inserted. */
export const dropUnclaimed = defineJob({
  name: 'uploads.drop_unclaimed',
  input: z.object({ storage_key: z.string() }),
  maxAttempts: 25,
  run: async ({ db, services }, { storage_key }) => {
    const row = await db.selectFrom('uploads').select('id').where('storage_key', '=', storage_key).executeTakeFirst();
    if (!row) await services.storage.remove(storage_key);
  },
});

/** The job `uploads.remove_folder` removes all files of a deleted group or project. */
export const removeFolder = defineJob({
  name: 'uploads.remove_folder',
  input: z.object({ folder: z.string().endsWith('/') }),
  maxAttempts: 25,
  run: async ({ services: { storage }, signal }, { folder }) => {
    for await (const { key } of storage.list(folder)) {
      signal.throwIfAborted();
      await storage.remove(key);
    }
  },
});
