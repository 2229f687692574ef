import { type Kysely, sql } from 'kysely';

/**
 * Events record the visibility of their container when they happened, and webhook payloads record who could read their
 * event. Events from before this migration count as private.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table events add column visibility_level smallint check (visibility_level in (0, 10, 20));

    -- decides who may read the content (domains/events/visibility.ts); null: only administrators
    alter table webhook_payloads add column moment jsonb;
    update webhook_payloads p set moment = jsonb_build_object(
      'project_id', e.project_id, 'namespace_ids', e.namespace_ids, 'min_access_level', e.min_access_level,
      'user_ids', e.user_ids, 'about_people', e.subject_type ~ 'Member$')
    from events e where e.id = p.event_id;
  `.execute(db);
};
