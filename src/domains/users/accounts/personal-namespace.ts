import { sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { PUBLIC } from '#domains/access/model.ts';
import type { Tx } from '#platform/context.ts';

interface Named {
  readonly username: string;
  readonly name: string;
}

/**
 * Creates the personal namespace of a new user. Fails on the constraint `namespaces_full_path` when a group has the
 * path.
 */
export const createPersonalNamespace = async (tx: Tx, userId: number, { username, name }: Named): Promise<void> => {
  const { rows } = await sql<{ id: number }>`
    with next as (select nextval(pg_get_serial_sequence('namespaces', 'id')) as id)
    insert into namespaces (id, kind, owner_id, traversal_ids, name, path, full_path, full_name, visibility_level)
    select id, 'user', ${userId}::bigint, array[id], ${name}, ${username}, ${username}, ${name}, ${PUBLIC}::smallint
    from next returning id`.execute(tx.db);
  // The new namespace takes precedence over redirects from its path.
  await dropRedirects(tx, username);
  await refreshAccess(
    tx,
    rows.map((row) => row.id),
    [userId],
  );
};

/** Renames the personal namespace and its projects after the user. The old paths redirect to the new ones. */
export const renamePersonalNamespace = async (
  tx: Tx,
  { id, username, name }: Named & { readonly id: number },
): Promise<void> => {
  const before = await tx.db
    .selectFrom('namespaces')
    .select(['id', 'full_path'])
    .where('owner_id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (!before) return;
  await tx.db
    .updateTable('namespaces')
    .set({ name, full_name: name, path: username, full_path: username, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .execute();
  if (before.full_path === username) return;
  if (before.full_path.toLowerCase() !== username.toLowerCase()) {
    await sql`
      insert into redirects (path, namespace_id, project_id)
        select lower(${before.full_path}), ${before.id}::bigint, null
        union all select lower(p.full_path), null, p.id from projects p where p.namespace_id = ${before.id}
      on conflict (path) do update set namespace_id = excluded.namespace_id, project_id = excluded.project_id`.execute(
      tx.db,
    );
    await dropRedirects(tx, username);
  }
  await sql`update projects set full_path = ${username} || '/' || path where namespace_id = ${before.id}`.execute(
    tx.db,
  );
};

const dropRedirects = (tx: Tx, path: string) =>
  sql`delete from redirects where path = lower(${path}) or starts_with(path, lower(${path}) || '/')`.execute(tx.db);
