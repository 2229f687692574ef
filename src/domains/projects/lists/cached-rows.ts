import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { createRowCache } from '#platform/db/row-cache.ts';
import type { ProjectColumns, ProjectNamespace } from '../model.ts';
import type { RawProject } from './assemble.ts';
import { projectColumns } from './parts.ts';

/** The columns of projects, about ninety, by version. */
export const withColumns = createRowCache<ProjectColumns>(
  'projects',
  sql.join(projectColumns.map((column) => sql.ref(`projects.${column}`))),
);

const withNamespaceColumns = createRowCache<ProjectNamespace>(
  'namespaces',
  sql`namespaces.id, namespaces.name, namespaces.path, namespaces.kind, namespaces.full_path, namespaces.full_name,
    namespaces.parent_id, namespaces.owner_id, namespaces.visibility_level, namespaces.traversal_ids,
    namespaces.deletion_marked_on, namespaces.avatar_key`,
);

/** Returns the namespaces of the projects by id, as one shared object per namespace. */
export const namespacesOf = async (
  ctx: Context,
  projects: readonly RawProject[],
): Promise<ReadonlyMap<number, ProjectNamespace>> => {
  const versions = new Map(
    projects.map(({ namespace_id: id, ns_xmin: row_xmin, ns_ctid: row_ctid, ns_owner_avatar_key }) => [
      id,
      { id, row_xmin, row_ctid, ns_owner_avatar_key },
    ]),
  );
  const namespaces = await withNamespaceColumns(ctx, [...versions.values()]);
  return new Map(
    namespaces.map(({ row_xmin: _, row_ctid: __, remembered: ___, ns_owner_avatar_key, ...namespace }) => [
      namespace.id,
      namespace.kind === 'user' ? { ...namespace, avatar_key: ns_owner_avatar_key } : namespace,
    ]),
  );
};
