import { getProject } from '#domains/projects/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { aliasCreated, aliasDeleted } from './events.ts';
import { type AliasRow, aliasNameProblem } from './model.ts';
import { aliasIs } from './queries.ts';

/**
 * Gives the project's repository another name for git.
 *
 * @throws DomainError `unauthenticated`, `forbidden`, `invalid` for a name that is invalid or taken (case-insensitive),
 *   `not_found` (Project)
 */
export const createAlias = async (
  ctx: Context,
  { name, project: wanted }: { readonly name: string; readonly project: IdOrPath },
): Promise<AliasRow> => {
  requireAdministrator(ctx);
  const problem = aliasNameProblem(name);
  if (problem !== null) throw invalid({ name: [problem] });
  const project = await getProject(ctx, wanted);
  return ctx.transaction(async (tx) => {
    const row = await tx.db
      .insertInto('project_aliases')
      .values({ name, project_id: project.id })
      .onConflict((clash) => clash.doNothing())
      .returning(['id', 'project_id', 'name'])
      .executeTakeFirst();
    if (!row) throw invalid({ name: ['has already been taken'] });
    tx.emit(aliasCreated, { subject: { type: 'ProjectAlias', id: row.id }, payload: row });
    return row;
  });
};

/** Deletes an alias. The project stays. @throws DomainError `unauthenticated`, `forbidden`, `not_found` */
export const deleteAlias = (ctx: Context, name: string): Promise<AliasRow> => {
  requireAdministrator(ctx);
  return ctx.transaction(async (tx) => {
    const row = await tx.db
      .deleteFrom('project_aliases')
      .where(aliasIs(name))
      .returning(['id', 'project_id', 'name'])
      .executeTakeFirst();
    if (!row) throw notFound('Project Alias');
    tx.emit(aliasDeleted, { subject: { type: 'ProjectAlias', id: row.id }, payload: row });
    return row;
  });
};
