import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';

// Full paths and traversal ids of everything below a group hang on it. Whoever adds a namespace or project takes its
// parent with `lockPlace`, and whoever renames, moves or removes a tree takes all of it with `lockTree`: the two wait
// for each other, so that nothing is added under a path that is just changing.

/** Where something is put: the parent as it stands in this transaction, and stays until its end. */
export interface Place {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly path: string;
  readonly full_path: string;
  readonly full_name: string;
  readonly traversal_ids: readonly number[];
  readonly visibility_level: number;
}

/** The namespace that something is about to be put into, or null when it has gone. Others may add to it meanwhile. */
export const lockPlace = async (tx: Tx, id: number): Promise<Place | null> =>
  (await tx.db
    .selectFrom('namespaces')
    .select(['id', 'kind', 'name', 'path', 'full_path', 'full_name', 'traversal_ids', 'visibility_level'])
    .where('id', '=', id)
    .forKeyShare()
    .executeTakeFirst()) ?? null;

/**
 * @throws DomainError `forbidden` for a place that is about to be deleted, itself or with a group above it: nothing new
 * comes in
 */
export const requireUnmarked = async (tx: Tx, { traversal_ids }: Pick<Place, 'traversal_ids'>): Promise<void> => {
  const marked = await tx.db
    .selectFrom('namespaces')
    .select('id')
    .where(sql<boolean>`id = any (${traversal_ids}::bigint[])`)
    .where('marked_for_deletion_on', 'is not', null)
    .limit(1)
    .executeTakeFirst();
  if (marked) throw forbidden('The group is marked for deletion');
};

/** Says anew of all that is below the namespace, and of itself, since when it is about to go, alone or with what is above. */
export const inheritMarks = async (tx: Tx, id: number): Promise<void> => {
  await sql`
    update namespaces n set deletion_marked_on = marked.day
    from (
      select d.id, (select min(above.marked_for_deletion_on) from namespaces above where above.id = any (d.traversal_ids)) as day
      from namespaces d where d.traversal_ids @> array[${id}::bigint]) as marked
    where n.id = marked.id and n.deletion_marked_on is distinct from marked.day`.execute(tx.db);
};

/** Ids of the namespace and all below it, which nobody else can change or add to until the end of the transaction. */
export const lockTree = async (tx: Tx, id: number): Promise<number[]> => {
  // What was added while we waited for the locks is found in the next round.
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
 * Brings the paths, names and ancestors of the tree from where it was to where it is now, a statement for namespaces
 * and one for projects; the old paths lead on to the new ones.
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

/** What stands under the path now wins over what once did. */
export const dropRedirects = async (tx: Tx, path: string): Promise<void> => {
  await sql`delete from redirects where path = lower(${path}) or starts_with(path, lower(${path}) || '/')`.execute(
    tx.db,
  );
};

/** Namespaces and projects share their paths, over two tables: whoever is about to take one lets others wait. */
export const lockPath = async (tx: Tx, path: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('path:' || lower(${path}), 0))`.execute(tx.db);
};

/** Whether a namespace other than this one, or a project, has the path; nobody takes it until the transaction ends. */
export const isPathTaken = async (tx: Tx, path: string, exceptNamespaceId = 0): Promise<boolean> => {
  await lockPath(tx, path);
  const { rows } = await sql`
    select 1 from namespaces where lower(full_path) = lower(${path}) and id <> ${exceptNamespaceId}
    union all select 1 from projects where lower(full_path) = lower(${path})
    limit 1`.execute(tx.db);
  return rows.length > 0;
};
