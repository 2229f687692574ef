import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';

/**
 * Returns the account that stands in for removed authors, and creates it on first use. Nobody can sign in with it: it
 * has no password, no confirmed address and no namespace. Locks until the transaction ends, so that only one is ever
 * created.
 */
export const ghostUser = async (tx: Tx): Promise<number> => {
  await sql`select pg_advisory_xact_lock(hashtext('users.ghost'))`.execute(tx.db);
  const found = await tx.db
    .selectFrom('users')
    .select('id')
    // A literal, because a generic plan would not use the partial index of ghosts for a parameter.
    .where(sql<boolean>`user_type = 'ghost'`)
    .orderBy('id')
    .executeTakeFirst();
  if (found) return found.id;
  const username = await freeName(tx);
  const { id } = await tx.db
    .insertInto('users')
    .values({
      username,
      name: 'Ghost User',
      email: `${username}@users.noreply.${new URL(tx.services.urls.base).hostname}`,
      user_type: 'ghost',
      bio: 'Stands in for users who were removed.',
      projects_limit: 0,
      can_create_group: false,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
};

/** Returns a free user name, because somebody may already be called `ghost`. */
const freeName = async (tx: Tx): Promise<string> => {
  const { rows } = await sql<{ username: string }>`
    select lower(username) as username from users where lower(username) ~ '^ghost[0-9]*$'
    union select lower(full_path) from namespaces where lower(full_path) ~ '^ghost[0-9]*$'`.execute(tx.db);
  const taken = new Set(rows.map((row) => row.username));
  for (let number = 0; ; number++) {
    const name = number === 0 ? 'ghost' : `ghost${number}`;
    if (!taken.has(name)) return name;
  }
};

/** The columns that name an author or actor, by table. */
const AUTHORSHIPS = {
  issues: ['author_id', 'closed_by_id', 'updated_by_id', 'last_edited_by_id'],
  merge_requests: ['author_id', 'merge_user_id', 'closed_by_id', 'updated_by_id', 'last_edited_by_id'],
  notes: ['author_id', 'resolved_by_id', 'updated_by_id'],
  releases: ['author_id'],
  snippets: ['author_id'],
  timelogs: ['user_id'],
  resource_events: ['user_id'],
} as const;

/** Moves the user's contributions to the ghost user, so that they keep an author. */
export const moveContributions = async (tx: Tx, userId: number): Promise<void> => {
  const ghost = await ghostUser(tx);
  for (const [table, columns] of Object.entries(AUTHORSHIPS)) {
    for (const column of columns) {
      await sql`update ${sql.table(table)} set ${sql.ref(column)} = ${ghost} where ${sql.ref(column)} = ${userId}`.execute(
        tx.db,
      );
    }
  }
  // Drops a reaction that the ghost user already has on the same object.
  await sql`
    update award_emoji a set user_id = ${ghost} where a.user_id = ${userId} and not exists (
      select 1 from award_emoji g where g.user_id = ${ghost} and g.name = a.name
        and (g.issue_id = a.issue_id or g.merge_request_id = a.merge_request_id or g.note_id = a.note_id))`.execute(
    tx.db,
  );
};

/** Deletes the user's issues, merge requests, notes and snippets with everything that belongs to them. */
export const deleteContributions = async (tx: Tx, userId: number): Promise<void> => {
  const { rows } = await sql<{ project_id: number }>`
    delete from issues where author_id = ${userId} returning project_id`.execute(tx.db);
  for (const table of ['merge_requests', 'notes', 'snippets'] as const) {
    await tx.db.deleteFrom(table).where('author_id', '=', userId).execute();
  }
  const projectIds = [...new Set(rows.map((row) => row.project_id))].sort((left, right) => left - right);
  await sql`
    update projects set open_issues_count = (
      select count(*) from issues i where i.project_id = projects.id and i.state = 'opened' and not i.confidential)
    where id = any (${projectIds}::bigint[])`.execute(tx.db);
};
