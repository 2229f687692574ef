import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { removeProjectFiles } from './jobs.ts';

/** A project that is about to go with its namespace. */
export interface LeavingProject {
  readonly id: number;
  readonly namespace_id: number;
  readonly full_path: string;
  readonly disk_path: string;
}

const PROJECTS_PER_JOB = 1_000;

/**
 * Sees to it that what the projects of these namespaces keep outside the database (repositories, archives, pictures) is
 * removed once the transaction, which is about to delete their rows, commits. Gives the projects.
 */
export const scheduleProjectFilesRemoval = async (
  tx: Tx,
  namespaceIds: readonly number[],
): Promise<LeavingProject[]> => {
  const { rows } = await sql<LeavingProject & { storage_keys: string[] }>`
    select p.id, p.namespace_id, p.full_path, p.disk_path, array_remove(
        array(select e.storage_key from project_exports e where e.project_id = p.id)
        || array(select i.storage_key from project_imports i where i.project_id = p.id) || p.avatar_key, null) as storage_keys
    from projects p where p.namespace_id = any (${namespaceIds}::bigint[]) order by p.id`.execute(tx.db);
  for (let i = 0; i < rows.length; i += PROJECTS_PER_JOB) {
    const chunk = rows.slice(i, i + PROJECTS_PER_JOB);
    tx.enqueue(removeProjectFiles, {
      disk_paths: chunk.map((project) => project.disk_path),
      storage_keys: chunk.flatMap((project) => project.storage_keys),
    });
  }
  return rows.map(({ storage_keys: _keys, ...project }) => project);
};
