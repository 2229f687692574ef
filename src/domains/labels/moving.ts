import { type RawBuilder, sql } from 'kysely';
import { asTable, successions } from '#domains/planning/moved.ts';
import type { Tx } from '#platform/context.ts';
import { insertLabels } from './commands.ts';

/** Replaces the labels that moved projects use of their former groups. */
export const replaceLabels = async (tx: Tx, projects: RawBuilder<unknown>): Promise<void> => {
  const replaced = await successions(tx, {
    table: 'labels',
    projects,
    uses: sql`
      select i.project_id, k.label_id as id from moved join issues i on i.project_id = moved.id
        join label_links k on k.issue_id = i.id
      union select r.project_id, k.label_id from moved join merge_requests r on r.project_id = moved.id
        join label_links k on k.merge_request_id = r.id`,
    copy: async (project, ids) => {
      const labels = await tx.db.selectFrom('labels').selectAll().where('id', 'in', ids).orderBy('id').execute();
      await insertLabels(tx, project, labels);
    },
  });
  if (replaced.length === 0) return;
  const links = sql`from ${asTable(replaced)} join label_links k on k.label_id = s.id
    where s.project_id = coalesce((select project_id from issues where id = k.issue_id),
      (select project_id from merge_requests where id = k.merge_request_id))`;
  // The issue may have the successor, too.
  await sql`
    insert into label_links (label_id, issue_id, merge_request_id, created_at)
    select s.successor, k.issue_id, k.merge_request_id, k.created_at ${links}
    on conflict do nothing`.execute(tx.db);
  await sql`delete from label_links where id in (select k.id ${links})`.execute(tx.db);
};
