import type { Tx } from '#platform/context.ts';
import { removeFiles } from '#platform/remove-files.ts';
import { projectDeleted } from './events.ts';
import { describeProjects } from './project-payload.ts';

/** A project that is about to be deleted with its namespace. */
interface LeavingProject {
  readonly id: number;
  readonly namespace_id: number;
  readonly full_path: string;
  readonly disk_path: string;
}

const PROJECTS_PER_JOB = 1_000;

/**
 * Emits an event for each project of these namespaces that is about to be deleted, and queues the removal of its files
 * (repositories, archives, pictures) for after the commit. Call it before the rows are deleted. Returns the projects.
 */
export const dismissProjects = async (tx: Tx, namespaceIds: readonly number[]): Promise<LeavingProject[]> => {
  const projects = await describeProjects(tx, { namespaceIds });
  for (let i = 0; i < projects.length; i += PROJECTS_PER_JOB) {
    const chunk = projects.slice(i, i + PROJECTS_PER_JOB);
    tx.enqueue(removeFiles, {
      disk_paths: chunk.map(({ disk_path }) => disk_path),
      storage_keys: chunk.flatMap(({ storage_keys }) => storage_keys),
    });
  }
  for (const { payload, namespace_ids } of projects) {
    const subject = { type: 'Project', id: payload.id };
    const { visibility_level } = payload;
    tx.emit(projectDeleted, { subject, project_id: payload.id, namespace_ids, visibility_level, payload });
  }
  return projects.map(({ payload, disk_path }) => ({
    id: payload.id,
    namespace_id: payload.namespace_id,
    full_path: payload.path_with_namespace,
    disk_path,
  }));
};
