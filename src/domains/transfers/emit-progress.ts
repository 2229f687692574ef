import { MAINTAINER } from '#domains/access/model.ts';
import { projectScope } from '#domains/projects/model.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import type { EventDefinition } from '#platform/events.ts';
import { type ExportProgress, type ImportProgress, importProgress } from './events.ts';
import type { ExportRow, ImportRow } from './model.ts';
import { readCounts } from './progress.ts';
import { readExportState } from './queries.ts';

type Project = Pick<ProjectRow, 'id' | 'namespace' | 'visibility_level'>;

/** Emits an event with the state of the export in this transaction. */
export const emitExport = async (
  tx: Tx,
  given: Project | null,
  row: ExportRow,
  definition: EventDefinition<ExportProgress>,
): Promise<void> => {
  const project = given ?? (await findAsHub(tx, row.project_id));
  if (!project) return;
  const { status } = await readExportState(tx, row.project_id);
  tx.emit(definition, {
    ...projectScope(project),
    subject: { type: 'ProjectExport', id: row.id },
    min_access_level: MAINTAINER,
    payload: {
      id: row.id,
      status,
      percentage: row.percentage,
      relations: readCounts(row.relations),
      bytes: row.bytes,
      total_bytes: row.total_bytes,
      user_id: row.user_id,
      size: row.size,
      error: row.error,
    },
  });
};

/** Emits an event with the state of the import in this transaction. */
export const emitImport = async (
  tx: Tx,
  given: Project | null,
  row: ImportRow,
  definition: EventDefinition<ImportProgress>,
): Promise<void> => {
  const project = given ?? (await findAsHub(tx, row.project_id));
  if (!project) return;
  // The transaction may have recorded failures after it read the row.
  const { failures } = await tx.db
    .selectFrom('project_imports')
    .select('failures')
    .where('id', '=', row.id)
    .executeTakeFirstOrThrow();
  tx.emit(definition, {
    ...projectScope(project),
    subject: { type: 'ProjectImport', id: row.id },
    min_access_level: MAINTAINER,
    user_ids: row.user_id === null ? [] : [row.user_id],
    payload: {
      id: row.id,
      status: importProgress.shape.status.parse(row.status),
      percentage: row.percentage,
      relations: readCounts(row.relations),
      bytes: row.bytes,
      total_bytes: row.total_bytes,
      user_id: row.user_id,
      failed_relations: failures,
      download_bytes: row.download_bytes,
      download_size: row.download_size,
      error: row.import_error,
    },
  });
};

const findAsHub = (tx: Tx, id: number) => findProject(tx.as(systemActor), { id });
