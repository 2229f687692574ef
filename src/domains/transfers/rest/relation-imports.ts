import { z } from 'zod';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { MIB } from '#platform/values/units.ts';
import { fileUpload, idOrPath, oneOf, text } from '#rest/params.ts';
import { listRoute, route } from '#rest/route.ts';
import { scheduleRelationImport } from '../relation-imports/commands.ts';
import { IMPORTABLE_RELATIONS, RELATION_IMPORT_STATUSES, type RelationImportRow } from '../relation-imports/model.ts';
import { listRelationImports } from '../relation-imports/queries.ts';

const tag = 'Exports and imports';

/** The size limit of uploaded archives. */
export const uploadedArchive = {
  setting: 'max_import_size',
  maxBytes: async (ctx: Context): Promise<number | null> => {
    const { max_import_size } = await getSettings(ctx);
    return max_import_size === 0 ? null : max_import_size * MIB;
  },
};

/** A relation import (specification 1 §2.3). */
const head = {
  id: z.int(),
  project_path: z.string(),
  relation: z.enum(IMPORTABLE_RELATIONS),
  status: z.enum(RELATION_IMPORT_STATUSES),
};
const relationImportRecord = z.object(head).meta({ id: 'RelationImport' });
const relationImportStatus = z
  .object({ ...head, created_at: z.string(), updated_at: z.string() })
  .meta({ id: 'RelationImportStatus' });

const toRecord = (row: RelationImportRow, project: ProjectRow): z.output<typeof relationImportRecord> =>
  relationImportRecord.parse({
    id: row.id,
    project_path: project.full_path,
    relation: row.relation,
    status: row.status,
  });

export const relationImportRoutes = [
  route({
    method: 'POST',
    path: '/projects/import-relation',
    tag,
    summary: 'Import one relation of an archive into a project',
    description:
      'Skips items that the project has already, by their number. Returns 409 while another import of the project is running.',
    input: {
      file: fileUpload(uploadedArchive),
      path: text({ max: 1_024 }).describe('The full path of the project.'),
      relation: oneOf(IMPORTABLE_RELATIONS),
    },
    response: relationImportRecord,
    run: async (ctx, { file, path, relation }) => {
      const project = await getProject(ctx, { path });
      const row = await scheduleRelationImport(ctx, project, { relation, storageKey: file.key });
      file.keep();
      return toRecord(row, project);
    },
  }),
  listRoute({
    path: '/projects/:id/relation-imports',
    tag,
    summary: 'List the relation imports of a project',
    description: 'Newest first.',
    paging: 'offset',
    input: { id: idOrPath() },
    item: relationImportStatus,
    run: async (ctx, { id }, page) => {
      const project = await getProject(ctx, id);
      const found = await readPage(listRelationImports(ctx, project), page);
      const items = found.items.map((row) => ({
        ...toRecord(row, project),
        created_at: isoTime(row.created_at),
        updated_at: isoTime(row.updated_at),
      }));
      return { ...found, items };
    },
  }),
];
