import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import type { Position } from '../positions/model.ts';
import { readLines } from './file-lines.ts';
import { suggestedOn } from './queries.ts';

/** A comment at its place in the newest version. */
interface Placed {
  readonly id: number;
  readonly position: Position;
}

/**
 * Returns the ids of those suggestions in the comments whose lines have changed. A comment follows its own line, so only
 * suggestions over several lines can be outdated while their comment is not.
 */
export const outdatedSuggestions = async (
  ctx: Context,
  disk_path: string,
  comments: readonly Placed[],
): Promise<readonly number[]> => {
  if (comments.length === 0) return [];
  const rows = await ctx.db
    .selectFrom('suggestions')
    .select(['id', 'note_id', 'lines_above', 'lines_below', 'from_content'])
    .where(sql<boolean>`note_id = any (${comments.map(({ id }) => id)}::bigint[])`)
    .where(sql<boolean>`not applied and not outdated and lines_above + lines_below > 0`)
    .execute();
  const positions = new Map(comments.map(({ id, position }) => [id, position]));
  const placed = rows.flatMap((row) => {
    const on = suggestedOn(positions.get(row.note_id));
    return on ? [{ ...row, on }] : [];
  });
  const outdated: number[] = [];
  for (const own of Map.groupBy(placed, ({ on }) => `${on.head_sha} ${on.new_path}`).values()) {
    const [{ on: file } = {}] = own;
    const lines = file && (await readLines(ctx, { disk_path, sha: file.head_sha, path: file.new_path }));
    for (const { id, on, lines_above, lines_below, from_content } of own) {
      const current = lines?.slice(Math.max(on.new_line - 1 - lines_above, 0), on.new_line + lines_below);
      if (current?.join('') !== from_content) outdated.push(id);
    }
  }
  return outdated;
};

export const markOutdated = async (tx: Tx, ids: readonly number[]): Promise<void> => {
  if (ids.length === 0) return;
  await sql`update suggestions set outdated = true where id = any (${ids}::bigint[])`.execute(tx.db);
};
