import { sql } from 'kysely';
import { z } from 'zod';
import { OWNER, visibilityName } from '#domains/access/model.ts';
import { holdersOfProject } from '#domains/access/roles.ts';
import type { Tx } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';

/** A snapshot of the project, so that webhook bodies stay right after it changes or is deleted. */
export const projectPayload = z.object({
  id: z.number(),
  name: z.string(),
  path: z.string(),
  path_with_namespace: z.string(),
  namespace_id: z.number(),
  visibility_level: z.number(),
  created_at: z.string(),
  updated_at: z.string(),
  /** Everyone who can read the project sees the event, without the owners. */
  hook_only: z.object({ owners: z.array(z.object({ name: z.string(), email: z.string() })) }),
});
export type ProjectPayload = z.output<typeof projectPayload>;

/** Returns the function that builds the webhook body of a project event (reference: webhooks §3). */
export const projectBody =
  (event_name: 'project_create' | 'project_destroy') =>
  async (_ctx: unknown, _event: EventRow, payload: ProjectPayload): Promise<Record<string, unknown>> => ({
    event_name,
    created_at: isoTime(payload.created_at),
    updated_at: isoTime(payload.updated_at),
    name: payload.name,
    path: payload.path,
    path_with_namespace: payload.path_with_namespace,
    project_id: payload.id,
    project_namespace_id: payload.namespace_id,
    owners: payload.hook_only.owners,
    project_visibility: visibilityName(payload.visibility_level),
  });

interface ProjectDetails {
  readonly payload: ProjectPayload;
  readonly namespace_ids: readonly number[];
  readonly disk_path: string;
  /** The storage keys of its files: archives and pictures. */
  readonly storage_keys: readonly string[];
}

const MAX_OWNERS = 100;

/** Returns the projects as events describe them, in order of id. Locks them until the transaction ends. */
export const describeProjects = async (
  tx: Tx,
  wanted: { readonly projectIds: readonly number[] } | { readonly namespaceIds: readonly number[] },
): Promise<ProjectDetails[]> => {
  const chosen =
    'projectIds' in wanted
      ? sql`p.id = any (${wanted.projectIds}::bigint[])`
      : sql`p.namespace_id = any (${wanted.namespaceIds}::bigint[])`;
  const { rows } = await sql<
    Omit<ProjectPayload, 'hook_only'> &
      Omit<ProjectDetails, 'payload'> & { owners: ProjectPayload['hook_only']['owners'] }
  >`
    select p.id, p.name, p.path, p.full_path as path_with_namespace, p.namespace_id, p.visibility_level,
      p.created_at, p.updated_at, p.disk_path, n.traversal_ids as namespace_ids,
      array_remove(
        array(select e.storage_key from project_exports e where e.project_id = p.id)
        || array(select unnest(i.storage_key || i.download_parts) from project_imports i where i.project_id = p.id)
        || array(select r.storage_key from relation_imports r where r.project_id = p.id)
        || array(select k.storage_key from kept_files k where k.project_id = p.id) || p.avatar_key, null) as storage_keys,
      array(
        select json_build_object('name', u.name, 'email', coalesce(nullif(u.public_email, ''), '[REDACTED]'))
        from users u where u.id in (${holdersOfProject('p', { least: sql.lit(OWNER) })})
        order by u.id limit ${sql.lit(MAX_OWNERS)}) as owners
    from projects p join namespaces n on n.id = p.namespace_id
    where ${chosen} order by p.id for update of p`.execute(tx.db);
  return rows.map(({ owners, namespace_ids, disk_path, storage_keys, ...project }) => ({
    payload: {
      ...project,
      created_at: isoTime(project.created_at),
      updated_at: isoTime(project.updated_at),
      hook_only: { owners },
    },
    namespace_ids,
    disk_path,
    storage_keys,
  }));
};
