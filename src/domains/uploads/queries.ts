import { type Selectable, sql } from 'kysely';
import {
  type Container,
  type ContainerAddress,
  type ContainerKind,
  getContainer,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Uploads } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { type Address, containerId, pictureTypeOf } from './model.ts';

export type UploadRow = Selectable<Uploads>;

/**
 * Returns the group or project if the caller may administer its uploads (specification 3 §4.4).
 *
 * @throws as `getContainer`, `forbidden`
 */
export const administeredContainer = async (ctx: Context, name: ContainerAddress): Promise<Container> => {
  const container = await getContainer(ctx, name.kind, name.id);
  requireContainerAbility(ctx, container, 'admin_uploads');
  return container;
};

/** Lists the uploads of a group or project, newest first. @throws as `administeredContainer` */
export const listUploads = async (ctx: Context, name: ContainerAddress): Promise<List<UploadRow>> => {
  const container = await administeredContainer(ctx, name);
  return listOf(ctx.db, inContainer(ctx, container.kind, containerId(container)), sortKeys, 'desc');
};

/** Lists the uploads of many groups or projects at once. The caller checks access. */
export const listUploadsBelow = (ctx: Context, kind: ContainerKind): BatchedList<UploadRow> =>
  batchedListOf(ctx.db, (id) => inContainer(ctx, kind, id), sortKeys, 'desc');

/** Returns an upload by its id. @throws as `administeredContainer`, `not_found` (Upload) */
export const getUpload = async (ctx: Context, name: ContainerAddress, id: number): Promise<UploadRow> => {
  const container = await administeredContainer(ctx, name);
  const row = await inContainer(ctx, container.kind, containerId(container)).where('id', '=', id).executeTakeFirst();
  if (!row) throw notFound('Upload');
  return row;
};

/** Returns an upload by its URL. @throws as `administeredContainer`, `not_found` (Upload) */
export const getUploadAt = async (ctx: Context, name: ContainerAddress, address: Address): Promise<UploadRow> => {
  const container = await administeredContainer(ctx, name);
  return atAddress(ctx, container, address);
};

/**
 * Returns an upload by its URL, for everyone who can see the group or project. Images of projects without
 * `enforce_auth_checks_on_uploads` are returned to everyone who knows the URL.
 *
 * @throws as `getContainer`, `not_found` (Upload)
 */
export const readUploadAt = async (ctx: Context, name: ContainerAddress, address: Address): Promise<UploadRow> =>
  (await findOpenPicture(ctx, name, address)) ?? atAddress(ctx, await getContainer(ctx, name.kind, name.id), address);

/**
 * Returns an upload of the project that has this path, or had it before, under the same rules.
 *
 * @throws as `readUploadAt`
 */
export const readUploadBelow = async (ctx: Context, fullPath: string, address: Address): Promise<UploadRow> => {
  const { rows } = await sql<{ id: number | null }>`select coalesce(
    (select id from projects where lower(full_path) = lower(${fullPath})),
    (select project_id from redirects where path = lower(${fullPath}))) as id`.execute(ctx.db);
  const id = rows[0]?.id ?? null;
  if (id === null) throw notFound('Project');
  return readUploadAt(ctx, { kind: 'project', id: { id } }, address);
};

const findOpenPicture = async (
  ctx: Context,
  { kind, id }: ContainerAddress,
  address: Address,
): Promise<UploadRow | null> => {
  if (kind === 'group' || pictureTypeOf(address.filename) === null) return null;
  const row = await ctx.db
    .selectFrom('uploads')
    .innerJoin('projects', 'projects.id', 'uploads.project_id')
    .selectAll('uploads')
    .where('uploads.secret', '=', address.secret)
    .where('uploads.filename', '=', address.filename)
    .where(
      id.path === undefined
        ? sql<boolean>`projects.id = ${id.id}`
        : sql<boolean>`lower(projects.full_path) = lower(${id.path})`,
    )
    .where(
      sql<boolean>`not projects.enforce_auth_checks_on_uploads and not projects.hidden and not projects.pending_delete`,
    )
    .executeTakeFirst();
  return row ?? null;
};

const atAddress = async (ctx: Context, container: Container, { secret, filename }: Address): Promise<UploadRow> => {
  const row = await inContainer(ctx, container.kind, containerId(container))
    .where('secret', '=', secret)
    .where('filename', '=', filename)
    .executeTakeFirst();
  if (!row) throw notFound('Upload');
  return row;
};

const inContainer = (ctx: Pick<Context, 'db'>, kind: ContainerKind, id: unknown) =>
  ctx.db
    .selectFrom('uploads')
    .selectAll('uploads')
    .where(sql<boolean>`${sql.ref(kind === 'group' ? 'uploads.namespace_id' : 'uploads.project_id')} = ${id}`);

const sortKeys: readonly SortKey<UploadRow>[] = [
  { by: sql.ref('uploads.created_at'), of: (row) => row.created_at },
  { by: sql.ref('uploads.id'), of: (row) => row.id },
];
