import { type Kysely, sql } from 'kysely';

/**
 * Forks contain the content of their source, so only owners of the source may make them more visible. Each project
 * records the highest visibility that it may have without them. It keeps this limit when it is no longer a fork.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table projects add column visibility_ceiling smallint not null default 20;

    with recursive forks as (
      select f.id, least(f.visibility_level, s.visibility_level) as open, s.visibility_level as ceiling
        from projects f join projects s on s.id = f.forked_from_id where s.forked_from_id is null
      union all
      select f.id, least(f.visibility_level, forks.open), forks.open
        from projects f join forks on forks.id = f.forked_from_id
    )
    update projects p set visibility_ceiling = forks.ceiling from forks where p.id = forks.id and forks.ceiling < 20;

    -- Updates the source only if its count changes, because thousands of forks may become less visible with it.
    create or replace function forks_counted() returns trigger language plpgsql as $$
    begin
      if tg_op = 'UPDATE' and new.forked_from_id is not distinct from old.forked_from_id then
        update projects set forks_count = forks_count + case when new.visibility_level >= visibility_level then 1 else -1 end
          where id = new.forked_from_id
            and (new.visibility_level >= visibility_level) <> (old.visibility_level >= visibility_level);
        return null;
      end if;
      if tg_op <> 'INSERT' and old.forked_from_id is not null then
        update projects set forks_count = forks_count - 1
          where id = old.forked_from_id and old.visibility_level >= visibility_level;
      end if;
      if tg_op <> 'DELETE' and new.forked_from_id is not null then
        update projects set forks_count = forks_count + 1
          where id = new.forked_from_id and new.visibility_level >= visibility_level;
      end if;
      return null;
    end $$;

    -- Ordered so that the index finds the first row. If few projects have all the forks, the planner would read the
    -- table.
    create or replace function forks_counted_anew() returns trigger language plpgsql as $$
    begin
      update projects set forks_count = (select count(*) from projects f
          where f.forked_from_id = new.id and f.visibility_level >= new.visibility_level)
        where id = new.id and (forks_count > 0 or (select f.forked_from_id from projects f
          where f.forked_from_id = new.id order by f.forked_from_id, f.visibility_level limit 1) is not null);
      return null;
    end $$;
  `.execute(db);
};
