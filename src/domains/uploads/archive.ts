import type { Readable } from 'node:stream';
import type { Context } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import type { Database } from '#platform/db/pool.ts';
import { addToStatistics } from './commands.ts';
import { type Address, safeName, uploadFolder } from './model.ts';
import type { UploadRow } from './queries.ts';

const PAGE = 100;

/** Yields the uploads of a project for its export archive. */
export async function* uploadsToArchive(db: Database, projectId: number): AsyncGenerator<UploadRow> {
  for (let after = 0; ; ) {
    const rows = await db
      .selectFrom('uploads')
      .selectAll()
      .where('project_id', '=', projectId)
      .where('id', '>', after)
      .orderBy('id')
      .limit(PAGE)
      .execute();
    yield* rows;
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    after = last.id;
  }
}

/**
 * Stores an upload of an imported project under the secret that its texts name, without an event. Repeating it changes
 * nothing.
 */
export const importUpload = async (
  ctx: Context,
  projectId: number,
  userId: number,
  { secret, filename }: Address,
  content: Readable,
): Promise<void> => {
  const storage_key = uploadFolder('project', projectId) + secret;
  const { size } = await ctx.services.storage.write(storage_key, content, { signal: ctx.signal });
  const insertion = ctx.transaction(async (tx) => {
    const row = await tx.db
      .insertInto('uploads')
      .values({
        project_id: projectId,
        secret,
        filename: safeName(filename),
        size,
        storage_key,
        uploaded_by_id: userId,
      })
      .onConflict((clash) => clash.doNothing())
      .returning('id')
      .executeTakeFirst();
    if (row) await addToStatistics(tx, projectId, size);
  });
  await insertion.catch(async (error: unknown) => {
    // The project was deleted meanwhile, and its files were removed before this one was there.
    if (brokenConstraint(error) === 'uploads_project_id_fkey') await ctx.services.storage.remove(storage_key);
    throw error;
  });
};
