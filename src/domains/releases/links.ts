import { sql } from 'kysely';
import pg from 'pg';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { invalid, notFound, requireValid } from '#platform/errors.ts';
import { checkLink, type LinkAttributes, type NewLink, TAKEN } from './attributes.ts';
import { releaseUpdated } from './events.ts';
import { getRelease, type ReleaseLinkRow } from './queries.ts';
import { lockForWrite, releaseEvent, requireWrite } from './write.ts';

/** Lists the links of the release to external files, newest first. @throws DomainError as `getRelease` */
export const listLinks = async (ctx: Context, project: ProjectRow, tag: string): Promise<List<ReleaseLinkRow>> => {
  const { id } = await getRelease(ctx, project, tag);
  const query = ctx.db.selectFrom('release_links').selectAll('release_links').where('release_id', '=', id);
  return listOf(ctx.db, query, [{ by: sql.ref('release_links.id'), of: (row) => row.id }], 'desc');
};

/** @throws DomainError `not_found` */
export const getLink = async (ctx: Context, project: ProjectRow, tag: string, id: number): Promise<ReleaseLinkRow> => {
  const release = await getRelease(ctx, project, tag);
  const link = await ctx.db
    .selectFrom('release_links')
    .selectAll()
    .where('id', '=', id)
    .where('release_id', '=', release.id)
    .executeTakeFirst();
  if (!link) throw notFound();
  return link;
};

/** Returns the URL of the link with this path (`bin/linux`) below the release. @throws DomainError `not_found` */
export const getLinkTarget = async (ctx: Context, project: ProjectRow, tag: string, path: string): Promise<string> => {
  const release = await getRelease(ctx, project, tag);
  const link = await ctx.db
    .selectFrom('release_links')
    .select('url')
    .where('release_id', '=', release.id)
    .where(sql<boolean>`ltrim(filepath, '/') = ${path}`)
    .orderBy('id')
    .executeTakeFirst();
  if (!link) throw notFound();
  return link.url;
};

/**
 * Returns the project and release of a link by its id. @throws DomainError `not_found`, also if the caller cannot see
 * it
 */
export const getLinkPlace = async (
  ctx: Context,
  id: number,
): Promise<{ readonly project: ProjectRow; readonly tag: string }> => {
  const found = await ctx.db
    .selectFrom('release_links')
    .innerJoin('releases', 'releases.id', 'release_links.release_id')
    .select(['releases.project_id', 'releases.tag'])
    .where('release_links.id', '=', id)
    .executeTakeFirst();
  const project = found && (await findProject(ctx, { id: found.project_id }));
  if (!project || !can(ctx, project, 'read_release')) throw notFound();
  await getRelease(ctx, project, found.tag);
  return { project, tag: found.tag };
};

/** @throws DomainError `not_found`, `forbidden`, `invalid` by attribute */
export const createLink = async (
  ctx: Context,
  project: ProjectRow,
  tag: string,
  input: NewLink,
): Promise<ReleaseLinkRow> => {
  const { id } = await getRelease(ctx, project, tag);
  await requireWrite(ctx, project, tag);
  checkLink(input);
  return changing(ctx, project, tag, async (tx) => {
    await requireFree(tx, id, input);
    return insertLink(tx, id, input);
  });
};

/** Changes a link. Undefined attributes stay as they are. @throws DomainError as `createLink` */
export const updateLink = async (
  ctx: Context,
  project: ProjectRow,
  tag: string,
  id: number,
  changes: LinkAttributes,
): Promise<ReleaseLinkRow> => {
  const link = await getLink(ctx, project, tag, id);
  await requireWrite(ctx, project, tag);
  checkLink(changes);
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
  if (Object.keys(given).length === 0) return link;
  return changing(ctx, project, tag, async (tx) => {
    await requireFree(tx, link.release_id, changes, id);
    return tx.db.updateTable('release_links').set(given).where('id', '=', id).returningAll().executeTakeFirstOrThrow();
  });
};

/** @throws DomainError `not_found`, `forbidden` */
export const deleteLink = async (
  ctx: Context,
  project: ProjectRow,
  tag: string,
  id: number,
): Promise<ReleaseLinkRow> => {
  const link = await getLink(ctx, project, tag, id);
  await requireWrite(ctx, project, tag);
  return changing(ctx, project, tag, async (tx) => {
    await tx.db.deleteFrom('release_links').where('id', '=', id).execute();
    return link;
  });
};

/** Stores a link that has been checked. @throws DomainError `invalid` if the release already has a link of this name */
export const insertLink = (
  tx: Tx,
  release_id: number,
  { name, url, filepath, link_type }: NewLink,
): Promise<ReleaseLinkRow> =>
  reportTaken(() =>
    tx.db
      .insertInto('release_links')
      .values({ release_id, name, url, filepath: filepath ?? null, link_type: link_type ?? 'other' })
      .returningAll()
      .executeTakeFirstOrThrow(),
  );

/** The links of a release have different URLs and paths. Locks the release. @throws DomainError `invalid` by attribute */
const requireFree = async (
  tx: Tx,
  releaseId: number,
  { url, filepath }: LinkAttributes,
  exceptId: number | null = null,
): Promise<void> => {
  if (url === undefined && filepath == null) return;
  await tx.db.selectFrom('releases').select('id').where('id', '=', releaseId).forUpdate().execute();
  const others = await tx.db
    .selectFrom('release_links')
    .select(['url', 'filepath'])
    .where('release_id', '=', releaseId)
    .where(sql<boolean>`(url = ${url ?? null} or filepath = ${filepath ?? null})`)
    .where(sql<boolean>`id is distinct from ${exceptId}::bigint`)
    .execute();
  requireValid({
    ...(others.some((other) => other.url === url) ? { url: [TAKEN] } : {}),
    ...(filepath != null && others.some((other) => other.filepath === filepath) ? { filepath: [TAKEN] } : {}),
  });
};

/** Runs a change of a link, which also counts as a change of its release. */
const changing = (
  ctx: Context,
  seen: ProjectRow,
  tag: string,
  change: (tx: Tx) => Promise<ReleaseLinkRow>,
): Promise<ReleaseLinkRow> =>
  reportTaken(() =>
    ctx.transaction(async (tx) => {
      const project = await lockForWrite(tx, seen, tag);
      const link = await change(tx);
      tx.emit(releaseUpdated, await releaseEvent(tx, project, await getRelease(tx, project, tag)));
      return link;
    }),
  );

const reportTaken = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    const isTaken = error instanceof pg.DatabaseError && error.constraint === 'release_links_release_id_name_key';
    throw isTaken ? invalid({ name: [TAKEN] }) : error;
  }
};
