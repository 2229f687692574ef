import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { invalid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { ancestorIds, type Container, ownerColumns } from './container.ts';

const MAX_TITLE = 255;

/**
 * Trims the title of a label or milestone. @throws DomainError `invalid` if it is empty or too long
 *
 * @param field The attribute that errors name
 */
export const trimTitle = (given: string, field: string): string => {
  const title = given.trim();
  if (title === '') throw invalid({ [field]: ["can't be blank"] });
  if (isLongerThan(title, MAX_TITLE)) throw invalid({ [field]: [tooLong(MAX_TITLE)] });
  return title;
};

/** Returns whether another label or milestone of the container, or of a group above it, has this title. */
export const isTitleTaken = async (
  tx: Tx,
  table: 'labels' | 'milestones',
  container: Container,
  title: string,
  exceptId: number | null,
): Promise<boolean> => {
  const { project_id, namespace_id } = ownerColumns(container);
  const { rows } = await sql`
    select 1 from ${sql.table(table)}
    where title = ${title} and id <> ${exceptId ?? 0}
      and (project_id = ${project_id} or namespace_id = ${namespace_id} or namespace_id = any (${ancestorIds(container)}::bigint[]))
    limit 1`.execute(tx.db);
  return rows.length > 0;
};
