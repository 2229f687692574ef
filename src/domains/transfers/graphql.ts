import { JUDGED, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { IMPORT_STATUSES } from '#domains/projects/model.ts';
import { can, POLICY_COLUMNS } from '#domains/projects/policy.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { subscriptionField, type Update, updateFields, updateOf } from '#graphql/subscription.ts';
import type { Context } from '#platform/context.ts';
import { apiUrl } from '#platform/urls.ts';
import { scheduleExport } from './commands.ts';
import {
  EXPORT_KINDS,
  type ExportProgress,
  exportProgress,
  IMPORT_KINDS,
  type ImportProgress,
  importProgress,
} from './events.ts';
import { loadImport } from './graphql/import-state.ts';
import { type ExportState, type ImportRow, importTypeOf, type RelationCounts } from './model.ts';
import { readCounts } from './progress.ts';
import {
  areExportsOn,
  canSeeProblems,
  exportStatesByProjects,
  findReplacement,
  getProjectOfTransfers,
  type ImportFailureRow,
  importFailuresBelow,
  readExportState,
} from './queries.ts';

const loadExportState = loader(exportStatesByProjects);
const failuresOf = batchedConnection((ctx) => importFailuresBelow(ctx));

const ExportStatusEnum = builder.enumType('ProjectExportStatus', {
  description: 'The status of an export.',
  values: {
    NONE: { value: 'none' },
    QUEUED: { value: 'queued' },
    STARTED: { value: 'started' },
    FINISHED: { value: 'finished' },
    REGENERATION_IN_PROGRESS: { value: 'regeneration_in_progress' },
  } as const,
});

const ImportStatusEnum = builder.enumType('ImportStatus', {
  description: 'The status of an import.',
  values: {
    NONE: { value: 'none' },
    SCHEDULED: { value: 'scheduled' },
    STARTED: { value: 'started' },
    FINISHED: { value: 'finished' },
    FAILED: { value: 'failed' },
  } as const,
});

interface RelationProgress {
  readonly name: string;
  readonly done: number;
  readonly total: number;
}

export const RelationProgressRef = builder.objectRef<RelationProgress>('TransferRelationProgress').implement({
  description: 'The progress of one relation, such as `issues`, in items.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    done: t.exposeInt('done', { nullable: false }),
    total: t.exposeInt('total', { nullable: false }),
  }),
});

export const relationsOf = (counts: RelationCounts): RelationProgress[] =>
  Object.entries(counts).map(([name, { done, total }]) => ({ name, done, total }));

const downloadUrl = (ctx: Context, project: Pick<ProjectRow, 'id'>): string =>
  apiUrl(ctx, `projects/${project.id}/export/download`);

interface ProjectWithExport extends ExportState {
  readonly project: Pick<ProjectRow, 'id' | 'full_path'>;
}

const ProjectExportRef = builder.objectRef<ProjectWithExport>('ProjectExport').implement({
  description: 'The latest export of a project, and the file that can be downloaded.',
  fields: (t) => ({
    status: t.field({ type: ExportStatusEnum, nullable: false, resolve: ({ status }) => status }),
    startedAt: t.field({ type: 'Time', resolve: ({ latest }) => latest?.started_at }),
    finishedAt: t.field({ type: 'Time', resolve: ({ latest }) => latest?.finished_at }),
    progress: t.float({
      description: 'Progress of the latest export, in percent.',
      resolve: ({ latest }) => latest?.percentage,
    }),
    relations: t.field({
      type: [RelationProgressRef],
      nullable: { list: false, items: false },
      resolve: ({ latest }) => relationsOf(readCounts(latest?.relations)),
    }),
    size: t.field({ type: 'BigInt', description: 'Size of the file in bytes.', resolve: ({ file }) => file?.size }),
    filename: t.string({ resolve: ({ file }) => file?.filename }),
    downloadUrl: t.string({ resolve: ({ file, project }, _args, ctx) => (file ? downloadUrl(ctx, project) : null) }),
    apiUrl: t.string({ resolve: ({ file, project }, _args, ctx) => (file ? downloadUrl(ctx, project) : null) }),
    expiresAt: t.field({ type: 'Time', resolve: ({ file }) => file?.expires_at }),
    error: t.string({
      description: 'Why the latest export failed.',
      resolve: ({ latest }) => latest?.error,
    }),
  }),
});

const ImportFailureRef = builder.objectRef<ImportFailureRow>('ImportFailure').implement({
  description: 'An item of an archive that could not be imported.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => String(id) }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    exceptionClass: t.exposeString('exception_class', { nullable: false }),
    exceptionMessage: t.exposeString('exception_message', { nullable: false }),
    source: t.exposeString('source', { nullable: false }),
    relationName: t.exposeString('relation_name', { nullable: false }),
    lineNumber: t.exposeInt('line_number', { nullable: false, description: 'Counts from zero.' }),
  }),
});
const ImportFailureConnection = builder.connectionObject(
  { type: ImportFailureRef, name: 'ImportFailureConnection' },
  { name: 'ImportFailureEdge' },
);

interface SeenImport extends ImportRow {
  readonly seesProblems: boolean;
}

const ProjectImportRef = builder.objectRef<SeenImport>('ProjectImport').implement({
  description: 'The import that created a project.',
  fields: (t) => ({
    status: t.field({
      type: ImportStatusEnum,
      nullable: false,
      resolve: ({ status }) => IMPORT_STATUSES.find((each) => each === status) ?? 'none',
    }),
    type: t.string({ resolve: importTypeOf }),
    error: t.string({
      description: 'Only for Maintainers and above.',
      resolve: ({ seesProblems, import_error }) => (seesProblems ? import_error : null),
    }),
    correlationId: t.exposeString('correlation_id'),
    stats: t.field({ type: 'JSON', resolve: ({ stats }) => stats }),
    progress: t.exposeFloat('percentage', { nullable: false, description: 'In percent.' }),
    relations: t.field({
      type: [RelationProgressRef],
      nullable: { list: false, items: false },
      resolve: ({ relations }) => relationsOf(readCounts(relations)),
    }),
    bytes: t.expose('bytes', { type: 'BigInt', nullable: false }),
    totalBytes: t.expose('total_bytes', { type: 'BigInt' }),
    downloadedBytes: t.expose('download_bytes', { type: 'BigInt', nullable: false }),
    downloadSize: t.expose('download_size', { type: 'BigInt', description: 'Size of a remote archive.' }),
    startedAt: t.expose('started_at', { type: 'Time' }),
    finishedAt: t.expose('finished_at', { type: 'Time' }),
    failedRelations: t.connection(
      {
        type: ImportFailureRef,
        nullable: true,
        description: 'Newest first. Only for Maintainers and above.',
        resolve: (row, args, ctx, info) => (row.seesProblems ? failuresOf(row.project_id, args, ctx, info) : null),
      },
      ImportFailureConnection,
    ),
  }),
});

projectField('export', ['id', 'full_path', ...POLICY_COLUMNS, 'access_level'], (t) =>
  t.field({
    type: ProjectExportRef,
    description: 'Only for Maintainers and above. Null while exports are turned off.',
    resolve: async (project, _args, ctx) => {
      if (!can(ctx, project, 'export') || !(await areExportsOn(ctx))) return null;
      const state = await loadExportState(ctx, project.id);
      return state && { project, ...state };
    },
  }),
);

projectField('import', JUDGED, (t) =>
  t.field({
    type: ProjectImportRef,
    description: 'Null for a project that was not imported, and for anonymous callers.',
    resolve: async (project, _args, ctx) => {
      const found = await loadImport(ctx, project.id);
      return found && { ...found, seesProblems: canSeeProblems(ctx, project) };
    },
  }),
);

const HttpMethodEnum = builder.enumType('ProjectExportUploadMethod', { values: ['PUT', 'POST'] as const });
const UploadInput = builder.inputType('ProjectExportUploadInput', {
  description: 'The address that the finished archive is uploaded to.',
  fields: (t) => ({ url: t.string({ required: true }), httpMethod: t.field({ type: HttpMethodEnum }) }),
});

mutationField('projectExport', {
  description: 'Schedules an export of a project. Repeating the request while that export is running changes nothing.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    description: t.string({ description: "Replaces the project's own description in the archive." }),
    upload: t.field({ type: UploadInput }),
  }),
  payload: { project: ProjectRef, export: ProjectExportRef },
  run: async (ctx, { projectPath, description, upload }) => {
    const project = await getProject(ctx, { path: String(projectPath) });
    await scheduleExport(ctx, project, {
      description,
      upload: upload ? { url: upload.url, http_method: upload.httpMethod ?? undefined } : null,
    });
    return { project, export: { project, ...(await readExportState(ctx, project.id)) } };
  },
});

interface TransferUpdate<Progress> extends Update {
  readonly payload: Progress;
}

/** Returns the fields that the updates of exports and imports share. */
const progressFields = <Transfer extends TransferUpdate<ExportProgress | ImportProgress>>(
  t: PothosSchemaTypes.ObjectFieldBuilder<Types, Transfer>,
) => ({
  ...updateFields(t),
  progress: t.float({ nullable: false, description: 'In percent.', resolve: ({ payload }) => payload.percentage }),
  relations: t.field({
    type: [RelationProgressRef],
    nullable: { list: false, items: false },
    resolve: ({ payload }) => relationsOf(payload.relations),
  }),
  bytes: t.field({ type: 'BigInt', nullable: false, resolve: ({ payload }) => payload.bytes }),
  totalBytes: t.field({ type: 'BigInt', resolve: ({ payload }) => payload.total_bytes }),
  error: t.string({ resolve: ({ payload }) => payload.error }),
});

const ExportUpdateRef = builder.objectRef<TransferUpdate<ExportProgress>>('ProjectExportUpdate').implement({
  description: 'The state of an export at one moment.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    ...progressFields(t),
    exportId: t.id({ nullable: false, resolve: ({ payload }) => String(payload.id) }),
    status: t.field({ type: ExportStatusEnum, nullable: false, resolve: ({ payload }) => payload.status }),
    size: t.field({ type: 'BigInt', resolve: ({ payload }) => payload.size }),
  }),
});

subscriptionField('projectExportUpdated', {
  description: 'Follows the exports of a project. Only for its Maintainers.',
  type: ExportUpdateRef,
  args: (t) => ({ fullPath: t.id({ required: true }) }),
  open: async (ctx, { fullPath }) => {
    const { id } = await getProjectOfTransfers(ctx, String(fullPath));
    return { kinds: EXPORT_KINDS, project_id: id };
  },
  resolve: async (event) => ({
    ...updateOf(event),
    payload: exportProgress.parse(event.payload),
  }),
});

const ImportUpdateRef = builder.objectRef<TransferUpdate<ImportProgress>>('ProjectImportUpdate').implement({
  description: 'The state of an import at one moment.',
  extensions: { viewerIndependent: true },
  fields: (t) => ({
    ...progressFields(t),
    importId: t.id({ nullable: false, resolve: ({ payload }) => String(payload.id) }),
    status: t.field({ type: ImportStatusEnum, nullable: false, resolve: ({ payload }) => payload.status }),
    downloadedBytes: t.field({ type: 'BigInt', nullable: false, resolve: ({ payload }) => payload.download_bytes }),
    downloadSize: t.field({ type: 'BigInt', resolve: ({ payload }) => payload.download_size }),
    failedRelationsCount: t.int({ nullable: false, resolve: ({ payload }) => payload.failed_relations }),
  }),
});

subscriptionField('projectImportUpdated', {
  description:
    'Follows the import of a project. Only for its Maintainers and the user who started it. For a project that an import is about to replace, it follows that import.',
  type: ImportUpdateRef,
  args: (t) => ({ fullPath: t.id({ required: true }) }),
  open: async (ctx, { fullPath }) => {
    const { id } = await getProjectOfTransfers(ctx, String(fullPath));
    const replacement = await findReplacement(ctx, id);
    return { kinds: IMPORT_KINDS, project_id: replacement?.project_id ?? id };
  },
  resolve: async (event) => ({
    ...updateOf(event),
    payload: importProgress.parse(event.payload),
  }),
});
