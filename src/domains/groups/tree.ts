import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';

// Full paths and traversal ids of everything below a group depend on it. Commands that add a namespace or project lock
// its parent with `lockNamespace`. Commands that rename, move or remove a tree lock all of it with `lockTree`. The two
// locks exclude each other, so nothing is added under a path that is being changed.

/** The parent of something new, locked until the transaction ends. */
export interface TreePosition {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly path: string;
  readonly full_path: string;
  readonly full_name: string;
  readonly traversal_ids: readonly number[];
  readonly visibility_level: number;
  readonly shared_runners_setting: string;
}

/**
 * Locks the namespace that something is added to, or returns null if it is gone. The lock is shared with other
 * additions.
 */
export const lockNamespace = async (tx: Tx, id: number): Promise<TreePosition | null> =>
  (await tx.db
    .selectFrom('namespaces')
    .select([
      'id',
      'kind',
      'name',
      'path',
      'full_path',
      'full_name',
      'traversal_ids',
      'visibility_level',
      'shared_runners_setting',
    ])
    .where('id', '=', id)
    .forKeyShare()
    .executeTakeFirst()) ?? null;

/**
 * @throws DomainError `forbidden` if the place, or a group above it, is marked for deletion: nothing can be added there
 */
export const requireUnmarked = async (
  tx: Tx,
  { traversal_ids }: Pick<TreePosition, 'traversal_ids'>,
): Promise<void> => {
  const marked = await tx.db
    .selectFrom('namespaces')
    .select('id')
    .where(sql<boolean>`id = any (${traversal_ids}::bigint[])`)
    .where('marked_for_deletion_on', 'is not', null)
    .limit(1)
    .executeTakeFirst();
  if (marked) throw forbidden('The group is marked for deletion');
};

/**
 * Recomputes the deletion date of the namespace and everything below it, from its own mark and those of its ancestors.
 */
export const inheritMarks = async (tx: Tx, id: number): Promise<void> => {
  await sql`
    update namespaces n set deletion_marked_on = marked.day
    from (
      select d.id, (select min(above.marked_for_deletion_on) from namespaces above where above.id = any (d.traversal_ids)) as day
      from namespaces d where d.traversal_ids @> array[${id}::bigint]) as marked
    where n.id = marked.id and n.deletion_marked_on is distinct from marked.day`.execute(tx.db);
};

/**
 * Locks the namespace and everything below it against changes and additions until the transaction ends. Returns the
 * ids.
 */
export const lockTree = async (tx: Tx, id: number): Promise<number[]> => {
  // The next round finds what was added while this one waited for locks.
  for (let known = -1; ; ) {
    const rows = await tx.db
      .selectFrom('namespaces')
      .select('id')
      .where(sql<boolean>`traversal_ids @> array[${id}::bigint]`)
      .orderBy('id')
      .forUpdate()
      .execute();
    if (rows.length === known) return rows.map((row) => row.id);
    known = rows.length;
  }
};

interface Position {
  readonly full_path: string;
  readonly full_name: string;
  readonly traversal_ids: readonly number[];
}

/**
 * Updates the paths, names and ancestors of a moved tree, in one statement for namespaces and one for projects. The old
 * paths redirect to the new ones.
 */
export const relocateTree = async (tx: Tx, ids: readonly number[], from: Position, to: Position): Promise<void> => {
  const moved = from.full_path !== to.full_path;
  if (moved && from.full_path.toLowerCase() !== to.full_path.toLowerCase()) {
    await sql`
      insert into redirects (path, namespace_id, project_id)
        select lower(full_path), id, null from namespaces where id = any (${ids}::bigint[])
        union all
        select lower(full_path), null, id from projects where namespace_id = any (${ids}::bigint[])
      on conflict (path) do update set namespace_id = excluded.namespace_id, project_id = excluded.project_id`.execute(
      tx.db,
    );
    await dropRedirects(tx, to.full_path);
  }
  await sql`
    update namespaces set
      full_path = ${to.full_path}::text || substr(full_path, length(${from.full_path}::text) + 1),
      full_name = ${to.full_name}::text || substr(full_name, length(${from.full_name}::text) + 1),
      traversal_ids = ${to.traversal_ids}::bigint[] || traversal_ids[${from.traversal_ids.length + 1}::int:]
    where id = any (${ids}::bigint[])`.execute(tx.db);
  if (!moved) return;
  await sql`
    update projects set full_path = ${to.full_path}::text || substr(full_path, length(${from.full_path}::text) + 1)
    where namespace_id = any (${ids}::bigint[])`.execute(tx.db);
};

/** Removes redirects from the path and from below it: existing objects take precedence over redirects. */
export const dropRedirects = async (tx: Tx, path: string): Promise<void> => {
  await sql`delete from redirects where path = lower(${path}) or starts_with(path, lower(${path}) || '/')`.execute(
    tx.db,
  );
};

/** Locks a path that namespaces and projects share across two tables. Take it before the path is used. */
export const lockPath = async (tx: Tx, path: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('path:' || lower(${path}), 0))`.execute(tx.db);
};

/** Returns true if another namespace or a project has the path. Nobody else can take it until the transaction ends. */
export const isPathTaken = async (tx: Tx, path: string, exceptNamespaceId = 0): Promise<boolean> => {
  await lockPath(tx, path);
  const { rows } = await sql`
    select 1 from namespaces where lower(full_path) = lower(${path}) and id <> ${exceptNamespaceId}
    union all select 1 from projects where lower(full_path) = lower(${path})
    limit 1`.execute(tx.db);
  return rows.length > 0;
};
