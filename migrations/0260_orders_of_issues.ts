import { type Kysely, sql } from 'kysely';

/**
 * For lists of all issues that a caller can see, by the other orders. Few issues have a date, a weight or a position, so
 * three of the indexes are small: the others follow their id. The issues of an author are in the usual orders too:
 * otherwise Postgres walked all issues of the hub in search of theirs.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index issues_title on issues (title, id);
    create index issues_due on issues (due_date, id) where due_date is not null;
    create index issues_weight on issues (weight, id) where weight is not null;
    create index issues_position on issues (relative_position, id) where relative_position is not null;
    create index issues_author_created on issues (author_id, created_at, id);
    create index issues_author_updated on issues (author_id, updated_at, id);
    drop index issues_author;
  `.execute(db);
};
