import { type Kysely, sql } from 'kysely';

/**
 * Projects that left a group before moves replaced labels and milestones still use those of that group. Each use gets
 * the one of the same title of the project or its nearest group, or a copy in the project, as moves do it now
 * (`domains/planning/moved.ts`).
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await replaceLabels(db);
  await replaceMilestones(db);
};

/**
 * Creates the table of the given name: what projects use of groups that do not contain them, with its successor. `uses`
 * reads what belongs to groups only, which is the smaller part.
 */
const findStrays = (db: Kysely<unknown>, name: string, table: 'labels' | 'milestones', uses: string) =>
  sql`
    create temporary table ${sql.table(name)} on commit drop as
    select used.project_id, o.id, o.title, (
      select s.id from ${sql.table(table)} s
      where s.title = o.title and (s.project_id = p.id or s.namespace_id = any (n.traversal_ids))
      order by s.project_id is null, array_position(n.traversal_ids, s.namespace_id) desc limit 1) as successor
    from (
        with o as (select id from ${sql.table(table)} where namespace_id is not null) ${sql.raw(uses)}
      ) used join ${sql.table(table)} o on o.id = used.id
      join projects p on p.id = used.project_id join namespaces n on n.id = p.namespace_id
    where o.namespace_id <> all (n.traversal_ids)`.execute(db);

const completeStrays = (db: Kysely<unknown>, name: string, table: 'labels' | 'milestones') =>
  sql`
    update ${sql.table(name)} stray set successor = s.id from ${sql.table(table)} s
    where stray.successor is null and s.project_id = stray.project_id and s.title = stray.title`.execute(db);

const replaceLabels = async (db: Kysely<unknown>): Promise<void> => {
  await findStrays(
    db,
    'stray_labels',
    'labels',
    `select i.project_id, o.id from o join label_links k on k.label_id = o.id join issues i on i.id = k.issue_id
     union select r.project_id, o.id from o join label_links k on k.label_id = o.id
       join merge_requests r on r.id = k.merge_request_id`,
  );
  await sql`
    insert into labels (project_id, title, color, description, priority, archived, lock_on_merge)
    select distinct on (s.project_id, s.title)
      s.project_id, l.title, l.color, l.description, l.priority, l.archived, l.lock_on_merge
    from stray_labels s join labels l on l.id = s.id where s.successor is null
    order by s.project_id, s.title, l.id`.execute(db);
  await completeStrays(db, 'stray_labels', 'labels');
  const links = sql`from stray_labels s join label_links k on k.label_id = s.id
    where s.project_id = coalesce((select project_id from issues where id = k.issue_id),
      (select project_id from merge_requests where id = k.merge_request_id))`;
  await sql`
    insert into label_links (label_id, issue_id, merge_request_id, created_at)
    select s.successor, k.issue_id, k.merge_request_id, k.created_at ${links}
    on conflict do nothing`.execute(db);
  await sql`delete from label_links where id in (select k.id ${links})`.execute(db);
};

const replaceMilestones = async (db: Kysely<unknown>): Promise<void> => {
  await findStrays(
    db,
    'stray_milestones',
    'milestones',
    `select i.project_id, o.id from o join issues i on i.milestone_id = o.id
     union select r.project_id, o.id from o join merge_requests r on r.milestone_id = o.id
     union select e.project_id, o.id from o join release_milestones k on k.milestone_id = o.id
       join releases e on e.id = k.release_id`,
  );
  await sql`
    insert into milestones (project_id, iid, title, description, state, due_date, start_date)
    select s.project_id, row_number() over (partition by s.project_id order by m.id) + greatest(
        (select coalesce(max(last_iid), 0) from project_counters where project_id = s.project_id and kind = 'milestone'),
        (select coalesce(max(iid), 0) from milestones where project_id = s.project_id)),
      m.title, m.description, m.state, m.due_date, m.start_date
    from (select distinct on (project_id, title) project_id, id from stray_milestones where successor is null
        order by project_id, title, id desc) s
      join milestones m on m.id = s.id`.execute(db);
  await sql`
    insert into project_counters (project_id, kind, last_iid)
    select project_id, 'milestone', max(iid) from milestones
    where project_id in (select project_id from stray_milestones where successor is null) group by project_id
    on conflict (project_id, kind) do update set last_iid = greatest(project_counters.last_iid, excluded.last_iid)`.execute(
    db,
  );
  await completeStrays(db, 'stray_milestones', 'milestones');
  for (const table of ['issues', 'merge_requests'])
    await sql`
      update ${sql.table(table)} t set milestone_id = s.successor from stray_milestones s
      where t.project_id = s.project_id and t.milestone_id = s.id`.execute(db);
  const links = sql`from stray_milestones s join release_milestones k on k.milestone_id = s.id
    join releases e on e.id = k.release_id and e.project_id = s.project_id`;
  await sql`
    insert into release_milestones (release_id, milestone_id) select k.release_id, s.successor ${links}
    on conflict do nothing`.execute(db);
  await sql`
    delete from release_milestones
    where (release_id, milestone_id) in (select k.release_id, k.milestone_id ${links})`.execute(db);
};
