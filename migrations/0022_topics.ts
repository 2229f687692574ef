import { type Kysely, sql } from 'kysely';

/** Topics as separate rows, kept in sync with the topics of projects by triggers. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table topics (
      id bigint generated always as identity primary key,
      name text not null,
      title text not null,
      description text,
      avatar_key text,
      -- created or changed by an administrator: visible even if no visible project has it
      curated boolean not null default false,
      -- the number of projects that have it, by visibility
      public_count integer not null default 0,
      internal_count integer not null default 0,
      private_count integer not null default 0,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    create unique index topics_name on topics (lower(name));
    create index topics_by_public on topics (public_count, id);
    create index topics_by_open on topics ((public_count + internal_count), id);
    create index topics_by_all on topics ((public_count + internal_count + private_count), id);
    create index topics_search on topics using gin (name gin_trgm_ops, title gin_trgm_ops);
    create index topics_avatar on topics (avatar_key) where avatar_key is not null;
    create index project_stars_newest on project_stars (project_id, created_at, user_id);
    drop index project_stars_project;

    insert into topics (name, title)
      select distinct on (lower(name)) name, name
      from (select btrim(unnest(topics)) as name, id from projects) as carried
      where name <> '' order by lower(name), id;

    -- Returns the topics with these names, each once and in the given order.
    create function settled_topics(p_names text[]) returns text[] language sql stable as $$
      select coalesce(array_agg(found.name order by found.place), '{}') from (
        select t.name, min(given.place) as place
        from unnest(p_names) with ordinality as given (topic, place)
        join topics t on lower(t.name) = lower(btrim(given.topic))
        group by t.name) as found
    $$;
    update projects set topics = settled_topics(topics)
      where topics <> '{}' and topics <> settled_topics(topics);
    update topics set public_count = counted.open, internal_count = counted.internal, private_count = counted.closed
      from (select carried.topic, count(*) filter (where p.visibility_level = 20) as open,
                   count(*) filter (where p.visibility_level = 10) as internal,
                   count(*) filter (where p.visibility_level = 0) as closed
            from projects p, unnest(p.topics) as carried (topic) group by carried.topic) as counted
      where topics.name = counted.topic;

    -- Creates missing topics of a project and normalises the spelling to that of the existing topic. A command that
    -- renames, merges or deletes a topic locks it, and waits here for projects that are getting it.
    create function project_topics_settle() returns trigger language plpgsql as $$
    declare
      v_names text[];
    begin
      select coalesce(array_agg(name order by lower(name)), '{}') into v_names
        from (select distinct on (lower(btrim(given.name))) btrim(given.name) as name
              from unnest(new.topics) with ordinality as given (name, place)
              where btrim(given.name) <> '' order by lower(btrim(given.name)), given.place) as named;
      perform 1 from topics where lower(name) = any (select lower(given.topic) from unnest(v_names) as given (topic)) order by id for key share;
      insert into topics (name, title)
        select given.topic, given.topic from unnest(v_names) as given (topic)
        where not exists (select 1 from topics t where lower(t.name) = lower(given.topic))
        on conflict (lower(name)) do nothing;
      new.topics := settled_topics(new.topics);
      return new;
    end $$;
    create trigger projects_topics_given before insert on projects
      for each row when (new.topics <> '{}') execute function project_topics_settle();
    create trigger projects_topics_changed before update of topics on projects
      for each row when (new.topics <> '{}' and new.topics <> old.topics) execute function project_topics_settle();

    -- Counts at commit, so that transactions with the same topic wait for each other only briefly.
    create function project_topics_count() returns trigger language plpgsql as $$
    begin
      with change as (
        select lower(name) as name,
               coalesce(sum(by) filter (where level = 20), 0) as open,
               coalesce(sum(by) filter (where level = 10), 0) as internal,
               coalesce(sum(by) filter (where level = 0), 0) as closed
        from (select unnest(old.topics) as name, old.visibility_level as level, -1 as by
              union all select unnest(new.topics), new.visibility_level, 1) as moved
        group by lower(name)
      ), locked as (
        select t.id, change.* from topics t join change on lower(t.name) = change.name
        where (change.open, change.internal, change.closed) <> (0, 0, 0)
        order by t.id for no key update of t
      )
      update topics t
        set public_count = t.public_count + locked.open, internal_count = t.internal_count + locked.internal,
            private_count = t.private_count + locked.closed
        from locked where t.id = locked.id;
      return null;
    end $$;
    create constraint trigger projects_topics_added after insert on projects deferrable initially deferred
      for each row when (new.topics <> '{}') execute function project_topics_count();
    create constraint trigger projects_topics_moved after update of topics, visibility_level on projects
      deferrable initially deferred
      for each row when (old.topics <> new.topics or (old.visibility_level <> new.visibility_level and new.topics <> '{}'))
      execute function project_topics_count();
    create constraint trigger projects_topics_gone after delete on projects deferrable initially deferred
      for each row when (old.topics <> '{}') execute function project_topics_count();
  `.execute(db);
};
