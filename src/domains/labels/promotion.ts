import { sql } from 'kysely';
import {
  type Container,
  containerScope,
  groupOf,
  lockContainer,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { conflict, notFound } from '#platform/errors.ts';
import { labelUpdated } from './events.ts';
import { getLabel, type LabelRow } from './queries.ts';

/**
 * Turns a label of a project into a label of its group. Labels with the same title in other projects below the group are
 * merged into it: their issues and merge requests keep a label of that title.
 *
 * @throws DomainError `not_found`, `forbidden`, `bad_request` if the project is not in a group, `conflict` if the group, or
 * one above or below it, has a label of this title
 */
export const promoteLabel = async (ctx: Context, project: ProjectRow, idOrTitle: string): Promise<LabelRow> => {
  const source: Container = { kind: 'project', project };
  const given = await getLabel(ctx, source, idOrTitle, false);
  const group = await groupOf(ctx, project);
  requireContainerAbility(ctx, source, 'admin_label');
  requireContainerAbility(ctx, group, 'admin_label');
  return ctx.transaction(async (tx) => {
    const container = await lockContainer(tx, group, 'admin_label');
    const before = await tx.db
      .selectFrom('labels')
      .selectAll()
      .where('id', '=', given.id)
      .where('project_id', '=', project.id)
      .forUpdate()
      .executeTakeFirst();
    if (!before) throw notFound('Label');
    const { rows: taken } = await sql`
      select from labels l join namespaces n on n.id = l.namespace_id
      where l.title = ${before.title} and (n.traversal_ids @> array[${group.group.id}::bigint]
        or n.id = any (${group.group.traversal_ids}::bigint[])) limit 1`.execute(tx.db);
    if (taken.length > 0) throw conflict('Label already exists');
    const { rows: others } = await sql<{ id: number }>`
      select l.id from labels l join projects p on p.id = l.project_id join namespaces n on n.id = p.namespace_id
      where l.title = ${before.title} and l.id <> ${before.id} and n.traversal_ids @> array[${group.group.id}::bigint]
      order by l.id for update of l`.execute(tx.db);
    const ids = others.map(({ id }) => id);
    await tx.db
      .updateTable('label_links')
      .set({ label_id: before.id })
      .where(sql<boolean>`label_id = any (${ids}::bigint[])`)
      .execute();
    await tx.db.deleteFrom('labels').where(sql<boolean>`id = any (${ids}::bigint[])`).execute();
    const label = await tx.db
      .updateTable('labels')
      .set({ project_id: null, namespace_id: group.group.id, updated_at: sql`now()` })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    const { id, title, color, description } = label;
    tx.emit(labelUpdated, {
      ...containerScope(container),
      subject: { type: 'Label', id },
      payload: {
        ...{ id, title, color, description, project_id: null, group_id: label.namespace_id },
        changes: {
          project_id: { previous: before.project_id, current: null },
          group_id: { previous: null, current: label.namespace_id },
        },
      },
    });
    return label;
  });
};
