import { type RawBuilder, sql } from 'kysely';
import { asTable, successions } from '#domains/planning/moved.ts';
import type { Tx } from '#platform/context.ts';
import { insertMilestone } from './commands.ts';

/** Replaces the milestones that moved projects use of their former groups. @throws DomainError as `nextIid` */
export const replaceMilestones = async (tx: Tx, projects: RawBuilder<unknown>): Promise<void> => {
  const replaced = await successions(tx, {
    table: 'milestones',
    projects,
    uses: sql`
      select i.project_id, i.milestone_id as id from moved join issues i on i.project_id = moved.id
      union select r.project_id, r.milestone_id from moved join merge_requests r on r.project_id = moved.id
      union select e.project_id, k.milestone_id from moved join releases e on e.project_id = moved.id
        join release_milestones k on k.release_id = e.id`,
    copy: async (project, ids) => {
      const milestones = await tx.db
        .selectFrom('milestones')
        .selectAll()
        .where('id', 'in', ids)
        .orderBy('id')
        .execute();
      // Groups above each other may each have one of the same title.
      const byTitle = new Map(milestones.map((milestone) => [milestone.title, milestone]));
      for (const milestone of byTitle.values()) await insertMilestone(tx, project, milestone);
    },
  });
  if (replaced.length === 0) return;
  const s = asTable(replaced);
  for (const table of ['issues', 'merge_requests'])
    await sql`update ${sql.table(table)} t set milestone_id = s.successor from ${s}
      where t.project_id = s.project_id and t.milestone_id = s.id`.execute(tx.db);
  const links = sql`from ${s} join release_milestones k on k.milestone_id = s.id
    join releases e on e.id = k.release_id and e.project_id = s.project_id`;
  await sql`insert into release_milestones (release_id, milestone_id) select k.release_id, s.successor ${links}
    on conflict do nothing`.execute(tx.db);
  await sql`delete from release_milestones where (release_id, milestone_id) in (
    select k.release_id, k.milestone_id ${links})`.execute(tx.db);
};
