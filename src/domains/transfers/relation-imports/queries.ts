import { type RawBuilder, sql } from 'kysely';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { RelationImportRow } from './model.ts';

/** Returns the relation imports of the project, newest first. @throws DomainError `forbidden` */
export const listRelationImports = (ctx: Context, project: ProjectRow): List<RelationImportRow> => {
  requireAbility(ctx, project, 'export');
  return listOf(ctx.db, of(ctx, sql`${project.id}`), BY_ID, 'desc');
};

/** Returns the same for many projects. Does not check permissions. */
export const relationImportsBelow = (ctx: Context): BatchedList<RelationImportRow> =>
  batchedListOf(ctx.db, (projectId) => of(ctx, projectId), BY_ID, 'desc');

const of = (ctx: Context, projectId: RawBuilder<number>) =>
  ctx.db.selectFrom('relation_imports').selectAll().where('project_id', '=', projectId);

const BY_ID: readonly SortKey<RelationImportRow>[] = [{ by: sql`relation_imports.id`, of: ({ id }) => id }];
