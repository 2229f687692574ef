import { type Kysely, sql } from 'kysely';

/** Files uploaded to groups count in the group sizes, like the storage of projects. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- If the namespace is gone too, there is nothing to subtract from.
    create function group_upload_sizes_changed() returns trigger language plpgsql as $$
    declare
      v_upload uploads := coalesce(new, old);
    begin
      insert into namespace_sizes (namespace_id, uploads_size)
        select above.id, case tg_op when 'INSERT' then v_upload.size else -v_upload.size end
        from namespaces n join namespaces above on above.id = any (n.traversal_ids)
        where n.id = v_upload.namespace_id
        for key share of n;
      return null;
    end $$;
    create trigger uploads_sizes_added after insert on uploads
      for each row when (new.namespace_id is not null) execute function group_upload_sizes_changed();
    create trigger uploads_sizes_removed after delete on uploads
      for each row when (old.namespace_id is not null) execute function group_upload_sizes_changed();

    insert into namespace_sizes (namespace_id, uploads_size)
      select above.id, sum(u.size) from uploads u
      join namespaces n on n.id = u.namespace_id join namespaces above on above.id = any (n.traversal_ids)
      group by above.id;

    -- Moves the sizes of the namespace's own uploads when it moves, in addition to namespace_sizes_moved().
    create function group_upload_sizes_moved() returns trigger language plpgsql as $$
    declare
      v_size bigint;
    begin
      select sum(size) into v_size from uploads where namespace_id = old.id;
      if v_size is not null then
        insert into namespace_sizes (namespace_id, uploads_size)
          select id, -v_size from namespaces where id = any (old.traversal_ids)
          union all select id, v_size from namespaces where id = any (new.traversal_ids);
      end if;
      return null;
    end $$;
    create trigger namespaces_upload_sizes_moved after update of traversal_ids on namespaces
      for each row when (old.traversal_ids <> new.traversal_ids) execute function group_upload_sizes_moved();
  `.execute(db);
};
