import { type Kysely, sql } from 'kysely';

/** Projects marked for deletion, the languages of projects, and their fetch counts. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table projects add column marked_for_deletion_by_id bigint references users (id) on delete set null;
    alter table projects add column build_coverage_regex text;
    create index projects_marked on projects (marked_for_deletion_on, id) where marked_for_deletion_on is not null;
    create index projects_marked_by on projects (marked_for_deletion_by_id) where marked_for_deletion_by_id is not null;

    -- The earliest day on which the namespace or an ancestor was marked: everything in a marked group is deleted with
    -- it. Updated by the commands that mark, restore and move groups.
    alter table namespaces add column deletion_marked_on date;
    update namespaces n set deletion_marked_on = marked.day
      from (select d.id, min(above.marked_for_deletion_on) as day
            from namespaces above join namespaces d on d.traversal_ids @> array[above.id]
            where above.marked_for_deletion_on is not null group by d.id) as marked
      where n.id = marked.id;
    create index namespaces_deletion_marked on namespaces (deletion_marked_on, id) where deletion_marked_on is not null;

    create table project_languages (
      project_id bigint not null references projects (id) on delete cascade,
      name text not null,
      -- percent of all bytes whose language is known
      share double precision not null,
      bytes bigint not null,
      primary key (project_id, name)
    );
    create index project_languages_name on project_languages (lower(name), project_id);
    -- The commit from which the languages were last read.
    alter table repository_upkeep add column languages_of text;

    create table project_fetches (
      project_id bigint not null references projects (id) on delete cascade,
      day date not null,
      count bigint not null,
      primary key (project_id, day)
    );
    create index project_fetches_day on project_fetches (day);
  `.execute(db);
};
