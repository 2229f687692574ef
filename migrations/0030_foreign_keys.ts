import { type Kysely, sql } from 'kysely';

/**
 * Indexes for foreign keys that are checked when a project or a group is deleted. Without one, Postgres reads the whole
 * table for each deleted stage, label and milestone.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index jobs_stage on jobs (stage_id);
    create index resource_events_label on resource_events (label_id) where label_id is not null;
    create index resource_events_milestone on resource_events (milestone_id) where milestone_id is not null;
    create index release_milestones_milestone on release_milestones (milestone_id);
    create index protection_levels_group on protection_levels (group_id) where group_id is not null;
    create index protection_levels_user on protection_levels (user_id) where user_id is not null;
    create index oauth_device_grants_application on oauth_device_grants (application_id);
    create index namespaces_marked_by on namespaces (marked_for_deletion_by_id) where marked_for_deletion_by_id is not null;
  `.execute(db);
};
