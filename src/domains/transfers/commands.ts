import { MAINTAINER } from '#domains/access/model.ts';
import { lockPlaceFor } from '#domains/groups/locks.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { NamespaceRow } from '#domains/groups/queries.ts';
import { requireRunnersAllowed } from '#domains/groups/shared-runners.ts';
import { readAttributes } from '#domains/projects/attributes.ts';
import { checkLimit, checkStorage, payloadOf, targetNamespace } from '#domains/projects/commands.ts';
import { requireDeletionRight } from '#domains/projects/deletion.ts';
import { projectCreated } from '#domains/projects/events.ts';
import { initialBranch } from '#domains/projects/initial-branch.ts';
import { checkFree, insertProject } from '#domains/projects/insert.ts';
import { projectScope } from '#domains/projects/model.ts';
import { withNewRepository } from '#domains/projects/new-repository.ts';
import { type Overrides, readOverrides } from '#domains/projects/overrides.ts';
import { checkNameAndPath } from '#domains/projects/path.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject, getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, forbidden, invalid, notFound, unauthenticated } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { decrypt, encrypt, randomToken } from '#platform/secrets.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { beginImport, type ImportSource, requireNoImport } from './begin-import.ts';
import { emitExport } from './emit-progress.ts';
import { exportQueued } from './events.ts';
import { checkUploadUrl } from './exporting/upload.ts';
import { limitImportsByUrl } from './import-limit.ts';
import { exportKey, exportProject } from './jobs.ts';
import { IMPORT_TYPE, REPLACEMENT_MARK, RUNNING_EXPORT } from './model.ts';
import { areExportsOn } from './queries.ts';

export interface ExportOptions {
  /** Replaces the project's own description in the archive. */
  readonly description?: string | null | undefined;
  readonly upload?: { readonly url: string; readonly http_method?: 'PUT' | 'POST' | undefined } | null | undefined;
}

/**
 * Schedules an export of the project (specification 1 §4.1). Repeating the request while that export is running changes
 * nothing.
 *
 * @throws DomainError `not_found` while exports are turned off, `forbidden`, `invalid` for a bad upload URL or a long
 * description, `conflict` if an export with another upload or description is running, or while the project is being
 * imported or forked: the archive would hold a part of it
 */
export const scheduleExport = async (ctx: Context, project: ProjectRow, options: ExportOptions = {}): Promise<void> => {
  requireAbility(ctx, project, 'export');
  if (!(await areExportsOn(ctx))) throw notFound();
  readAttributes({ description: options.description });
  const { upload } = options;
  if (upload) await checkUploadUrl(ctx, upload.url);
  await limitAction(ctx, 'project_export_limit');
  await ctx.transaction(async (tx) => {
    await requireNoImport(tx, project);
    const row = await tx.db
      .insertInto('project_exports')
      .values({
        project_id: project.id,
        user_id: ctx.actor.userId,
        by_administrator: ctx.actor.isAdmin,
        description: options.description || null,
        upload_url: upload ? encrypt(ctx.services.secretKey, upload.url) : null,
        upload_method: upload ? (upload.http_method ?? 'PUT') : null,
        correlation_id: ctx.requestId,
      })
      .onConflict((on) => on.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (!row) return requireSame(tx, project.id, options);
    tx.enqueue(exportProject, { export_id: row.id }, { key: exportKey(row.id) });
    await emitExport(tx, project, row, exportQueued);
  });
};

/** Refuses another upload or description, because the running export would silently drop it. */
const requireSame = async (tx: Tx, projectId: number, { description, upload }: ExportOptions): Promise<void> => {
  if (!upload && !description) return;
  const running = await tx.db
    .selectFrom('project_exports')
    .select(['description', 'upload_url', 'upload_method'])
    .where('project_id', '=', projectId)
    .where('status', 'in', RUNNING_EXPORT)
    .executeTakeFirst();
  const url = running?.upload_url ? decrypt(tx.services.secretKey, running.upload_url) : null;
  const isSame =
    running?.description === (description || null) &&
    (!upload || (url === upload.url && running.upload_method === (upload.http_method ?? 'PUT')));
  if (!isSame) throw conflict('409 Conflict - another export of the project is running; ask again when it has ended');
};

export interface ImportOptions {
  readonly path: string;
  readonly name?: string | null | undefined;
  /** Defaults to the caller's own namespace. */
  readonly namespace?: IdOrPath | null | undefined;
  readonly override_params?: Readonly<Record<string, unknown>> | null | undefined;
  readonly overwrite?: boolean | undefined;
}

/** The storage key of an archive, which the import owns from now on, or the encrypted source of a remote one. */
export type ImportedArchive = Pick<ImportSource, 'storage_key'> | Pick<ImportSource, 'source_url'>;

/** An import that the caller may start. */
export interface CheckedImport {
  readonly namespace: NamespaceRow;
  readonly name: string;
  readonly path: string;
  readonly overwrite: boolean;
  readonly overrides: Overrides;
  readonly default_branch: string;
}

/**
 * Creates the project and schedules the import of the archive (specification 1 §4.1). With `overwrite` the existing
 * project at the path stays until the new one is complete.
 *
 * @throws DomainError `not_found` (Namespace), `forbidden`, `invalid`, `conflict` while another import replaces the
 * same project
 */
export const scheduleImport = async (
  ctx: Context,
  { storageKey, ...options }: ImportOptions & { readonly storageKey: string },
): Promise<ProjectRow> => createImport(ctx, await checkImport(ctx, options), { storage_key: storageKey });

/** Checks everything about an import but its archive, and counts it. @throws DomainError as `scheduleImport` */
export const checkImport = async (ctx: Context, options: ImportOptions): Promise<CheckedImport> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  if (!(await getSettings(ctx)).import_sources.includes(IMPORT_TYPE))
    throw forbidden('imports of archives are turned off on this instance');
  await limitAction(ctx, 'project_import_limit');
  const namespace = await targetNamespace(ctx, options.namespace ?? null);
  requireTarget(ctx, namespace);
  const {
    name: newName,
    path: newPath,
    repository_storage,
    ...overrides
  } = readOverrides(options.override_params ?? {});
  requireRunnersAllowed(namespace, overrides.shared_runners_enabled);
  const { overwrite = false } = options;
  const path = pathWithin(namespace, options.path);
  if (newPath !== undefined && newPath !== path) throw invalid({ path: ['differs from the path of the import'] });
  const name = newName ?? (options.name || path);
  checkNameAndPath({ name, path });
  checkStorage(ctx, repository_storage);
  const default_branch = overrides.default_branch ?? (await initialBranch(ctx, namespace));
  return { namespace, name, path, overwrite, overrides, default_branch };
};

/** The path of a new project may be its full path. */
const pathWithin = ({ full_path }: Pick<NamespaceRow, 'full_path'>, path: string): string =>
  path.toLowerCase().startsWith(`${full_path.toLowerCase()}/`) ? path.slice(full_path.length + 1) : path;

/** Creates the project of an import and schedules its job. @throws DomainError as `scheduleImport` */
export const createImport = async (
  ctx: Context,
  { namespace, name, path, overwrite, overrides, default_branch }: CheckedImport,
  archive: ImportedArchive,
): Promise<ProjectRow> =>
  withNewRepository(ctx, async (tx, init) => {
    if ('source_url' in archive) await limitImportsByUrl(tx);
    const place = await lockPlaceFor(tx, namespace, 'import_projects');
    const replaced = overwrite ? await findReplaced(tx, namespace, path) : null;
    // The import takes its name at its end. Refuse a name that another project has before all that work.
    if (replaced) await checkFree(tx, { id: replaced.id, namespace_id: namespace.id, name });
    else await checkLimit(tx, namespace);
    const suffix = replaced ? `${REPLACEMENT_MARK}${randomToken(12).replace(/[^A-Za-z0-9]/g, '0')}` : '';
    const { id, disk_path } = await insertProject(tx, {
      namespace,
      creator_id: namespace.kind === 'user' && ctx.actor.isAdmin ? namespace.owner_id : ctx.actor.userId,
      name: name.slice(0, 255 - suffix.length) + suffix,
      path: path.slice(0, 255 - suffix.length) + suffix,
      // The project stays private until the import is complete.
      visibility_level: 0,
      default_branch,
      attributes: {},
      import_type: IMPORT_TYPE,
      unprotected: true,
    });
    await init(disk_path, default_branch);
    await addImporter(tx, id, place);
    const created = await getProject(tx, { id });
    tx.emit(projectCreated, {
      ...projectScope(created),
      subject: { type: 'Project', id },
      payload: await payloadOf(tx, created),
    });
    await beginImport(tx, created, {
      import_type: IMPORT_TYPE,
      ...archive,
      override_params: toJsonb(overrides),
      replaces_project_id: replaced?.id ?? null,
      target_name: replaced ? name : null,
      target_path: replaced ? path : null,
    });
    return getProject(tx, { id });
  });

/** Maintainers may import into a group, people into their own namespace. */
const requireTarget = (ctx: Context, namespace: NamespaceRow): void => {
  requireGroupAbility(ctx, namespace, 'import_projects');
  if (namespace.kind === 'user' && namespace.owner_id !== ctx.actor.userId && !ctx.actor.isAdmin) throw forbidden();
};

const findReplaced = async (tx: Tx, namespace: NamespaceRow, path: string): Promise<ProjectRow | null> => {
  const found = await findProject(tx, { path: `${namespace.full_path}/${path}` });
  if (!found) return null;
  requireAbility(tx, found, 'remove_project');
  await requireDeletionRight(tx);
  if (found.import_status === 'scheduled' || found.import_status === 'started')
    throw conflict('409 Conflict - the project is being imported');
  return found;
};

/** Makes the importer a member, with a role no higher than in the group (reference: export-archive §5). */
const addImporter = async (tx: Tx, projectId: number, namespace: NamespaceRow): Promise<void> => {
  const access_level = tx.actor.isAdmin ? MAINTAINER : Math.min(MAINTAINER, namespace.access_level);
  await tx.db
    .insertInto('members')
    .values({ project_id: projectId, user_id: tx.actor.userId, access_level, created_by_id: tx.actor.userId })
    .onConflict((on) => on.doNothing())
    .execute();
};
