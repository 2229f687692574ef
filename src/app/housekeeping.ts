import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { DAY_MS } from '#platform/values/units.ts';
import { sweepUploads } from '#rest/upload.ts';

/**
 * The job `storage.sweep`: removes files that killed processes left in storage. Keeps uploads that an import still
 * needs.
 */
export const sweepStorage = defineJob({
  name: 'storage.sweep',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '23 * * * *',
  run: async ({ db, services: { storage }, clock, log }) => {
    const waiting = await db
      .selectFrom('project_imports')
      .select('storage_key')
      .where('storage_key', 'is not', null)
      .unionAll(db.selectFrom('relation_imports').select('storage_key').where('storage_key', 'is not', null))
      .execute();
    const kept = new Set(waiting.flatMap(({ storage_key: key }) => key ?? []));
    const uploads = await sweepUploads(storage, new Date(clock.now().getTime() - DAY_MS), kept);
    await storage.sweepTemporary(DAY_MS);
    if (uploads > 0) log.info({ uploads }, 'removed unclaimed uploads');
  },
});
