import { type RawBuilder, sql } from 'kysely';
import { type EventScopeColumns, eventScope, SCOPE_COLUMNS } from '#domains/ci/payloads.ts';
import type { Tx } from '#platform/context.ts';
import { removeDueFiles } from '#platform/storage/removals.ts';
import { artifactsDeleted } from './events.ts';

export interface DeletedArtifact {
  readonly id: number;
  readonly job_id: number;
  readonly file_type: string;
}

/**
 * Deletes the rows of the artifacts that the condition on `job_artifacts` selects, and emits an event for each project.
 * The database lists their files for removal (migration 0084), and a job removes them.
 */
export const deleteArtifacts = async (tx: Tx, condition: RawBuilder<unknown>): Promise<DeletedArtifact[]> => {
  const { rows } = await sql<EventScopeColumns & DeletedArtifact>`
    with gone as (delete from job_artifacts where ${condition} returning id, job_id, project_id, file_type)
    select gone.*, ${SCOPE_COLUMNS} from gone
      join projects p on p.id = gone.project_id join namespaces n on n.id = p.namespace_id
    order by gone.id`.execute(tx.db);
  for (const [project_id, each] of Map.groupBy(rows, (row) => row.project_id)) {
    const [first] = each;
    if (!first) continue;
    tx.emit(artifactsDeleted, {
      ...eventScope(first),
      subject: { type: 'Project', id: project_id },
      payload: { artifacts: each.map(({ id, job_id, file_type }) => ({ id, job_id, file_type })) },
    });
  }
  if (rows.length > 0) tx.enqueue(removeDueFiles, {}, { key: removeDueFiles.name });
  return rows;
};
