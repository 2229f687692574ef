import { type Kysely, sql } from 'kysely';

/**
 * Events say how visible their place was when they happened, and what hooks were told keeps who could read it then.
 * Earlier events say nothing of it: they count as private.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table events add column visibility_level smallint check (visibility_level in (0, 10, 20));

    -- an event as readers are judged by it; null where that is not known, and administrators alone read it
    alter table webhook_payloads add column moment jsonb;
    update webhook_payloads p set moment = jsonb_build_object(
      'project_id', e.project_id, 'namespace_ids', e.namespace_ids, 'min_access_level', e.min_access_level,
      'user_ids', e.user_ids, 'about_people', e.subject_type ~ 'Member$')
    from events e where e.id = p.event_id;
  `.execute(db);
};
