import { type RawBuilder, sql } from 'kysely';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { AliasRow } from './model.ts';

/** Lists all aliases by id. @throws DomainError `unauthenticated`, `forbidden` */
export const listAliases = (ctx: Context): List<AliasRow> => {
  requireAdministrator(ctx);
  return listOf(ctx.db, aliasQuery(ctx), [{ by: sql.ref('project_aliases.id'), of: ({ id }) => id }], 'asc');
};

/** Returns the alias by name, case-insensitive. @throws DomainError `unauthenticated`, `forbidden`, `not_found` */
export const getAlias = async (ctx: Context, name: string): Promise<AliasRow> => {
  requireAdministrator(ctx);
  const row = await findAlias(ctx, name);
  if (!row) throw notFound('Project Alias');
  return row;
};

/** Finds the project of an alias, if the caller can see it. For git. */
export const findAliasedProject = async (ctx: Context, name: string): Promise<ProjectRow | null> => {
  const row = await findAlias(ctx, name);
  return row ? findProject(ctx, { id: row.project_id }) : null;
};

const findAlias = (ctx: Context, name: string): Promise<AliasRow | undefined> =>
  aliasQuery(ctx).where(aliasIs(name)).executeTakeFirst();

const aliasQuery = (ctx: Context) => ctx.db.selectFrom('project_aliases').select(['id', 'project_id', 'name']);

export const aliasIs = (name: string): RawBuilder<boolean> => sql`lower(project_aliases.name) = lower(${name})`;
