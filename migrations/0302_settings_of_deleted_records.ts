import { type Kysely, sql } from 'kysely';

/** Settings that kept the id of a deleted group or project, or of none, become null. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    update application_settings set attributes = jsonb_set(attributes, '{file_template_project_id}', 'null')
    where attributes ->> 'file_template_project_id' is not null and not exists (
      select from projects p where p.id::text = attributes ->> 'file_template_project_id')`.execute(db);
  await sql`
    update application_settings set attributes = jsonb_set(attributes, '{performance_bar_allowed_group_id}', 'null')
    where attributes ->> 'performance_bar_allowed_group_id' is not null and not exists (
      select from namespaces n where n.kind = 'group' and n.id::text = attributes ->> 'performance_bar_allowed_group_id')`.execute(
    db,
  );
};
