import { type Kysely, sql } from 'kysely';

/**
 * Renaming, merging or deleting a topic takes effect at once, however many projects have it. The projects are updated
 * in batches. Until then, the former name stands for the new topic.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table topic_moves (
      id bigint generated always as identity primary key,
      former_name text not null unique,
      -- null: projects lose the topic
      topic_id bigint references topics (id) on delete set null
    );
    create index topic_moves_name on topic_moves (lower(former_name));
    create index topic_moves_topic on topic_moves (topic_id) where topic_id is not null;

    create function topic_named(p_name text) returns bigint language sql stable as $$
      select coalesce((select id from topics where lower(name) = lower(btrim(p_name))),
        (select topic_id from topic_moves where lower(former_name) = lower(btrim(p_name)) order by id desc limit 1))
    $$;
    create or replace function settled_topics(p_names text[]) returns text[] language sql stable as $$
      select coalesce(array_agg(found.name order by found.place), '{}') from (
        select t.name, min(given.place) as place
        from unnest(p_names) with ordinality as given (topic, place)
        join topics t on t.id = topic_named(given.topic)
        group by t.name) as found
    $$;

    -- A command that renames, merges or deletes a topic takes this lock exclusively. Then no transaction is assigning
    -- or counting topics.
    create function lock_topics() returns void language sql as $$
      select pg_advisory_xact_lock_shared(hashtextextended('millrace:topics', 0))
    $$;
    create or replace function project_topics_settle() returns trigger language plpgsql as $$
    declare
      v_names text[];
    begin
      perform lock_topics();
      select coalesce(array_agg(name order by lower(name)), '{}') into v_names
        from (select distinct on (lower(btrim(given.name))) btrim(given.name) as name
              from unnest(new.topics) with ordinality as given (name, place)
              where btrim(given.name) <> '' order by lower(btrim(given.name)), given.place) as named;
      insert into topics (name, title)
        select given.topic, given.topic from unnest(v_names) as given (topic)
        where not exists (select 1 from topics t where lower(t.name) = lower(given.topic))
          and not exists (select 1 from topic_moves m where lower(m.former_name) = lower(given.topic))
        on conflict (lower(name)) do nothing;
      new.topics := settled_topics(new.topics);
      return new;
    end $$;
    create or replace function project_topics_count() returns trigger language plpgsql as $$
    begin
      perform lock_topics();
      with change as (
        select id,
               coalesce(sum(by) filter (where level = 20), 0) as open,
               coalesce(sum(by) filter (where level = 10), 0) as internal,
               coalesce(sum(by) filter (where level = 0), 0) as closed
        from (select distinct topic_named(name) as id, old.visibility_level as level, -1 as by from unnest(old.topics) as name
              union all select distinct topic_named(name), new.visibility_level, 1 from unnest(new.topics) as name) as moved
        where id is not null group by id
      ), locked as (
        select t.id, change.open, change.internal, change.closed from topics t join change on t.id = change.id
        where (change.open, change.internal, change.closed) <> (0, 0, 0)
        order by t.id for no key update of t
      )
      update topics t
        set public_count = t.public_count + locked.open, internal_count = t.internal_count + locked.internal,
            private_count = t.private_count + locked.closed
        from locked where t.id = locked.id;
      return null;
    end $$;
  `.execute(db);
};
