import { type Kysely, sql } from 'kysely';

/** Group features: current sizes, deletion that can be undone, access requests, invitations. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table namespaces add column marked_for_deletion_by_id bigint references users (id) on delete set null;
    create index namespaces_marked on namespaces (marked_for_deletion_on) where marked_for_deletion_on is not null;
    create index namespaces_restricted on namespaces (id) where ip_restriction_ranges is not null;
    create index namespaces_demanding on namespaces (id) where require_two_factor_authentication;

    -- Lists in each order, with partial indexes for groups visible to everyone or to signed-in users.
    create index namespaces_groups_by_path on namespaces (path, id) where kind = 'group';
    create index namespaces_public_by_name on namespaces (name, id) where kind = 'group' and visibility_level >= 20;
    create index namespaces_public_by_path on namespaces (path, id) where kind = 'group' and visibility_level >= 20;
    create index namespaces_public_by_id on namespaces (id) where kind = 'group' and visibility_level >= 20;
    create index namespaces_internal_by_name on namespaces (name, id) where kind = 'group' and visibility_level >= 10;
    create index namespaces_internal_by_path on namespaces (path, id) where kind = 'group' and visibility_level >= 10;

    -- Requests for membership. One per user and container.
    create table access_requests (
      id bigint generated always as identity primary key,
      user_id bigint not null references users (id) on delete cascade,
      namespace_id bigint references namespaces (id) on delete cascade,
      project_id bigint references projects (id) on delete cascade,
      requested_at timestamptz not null default now(),
      check (num_nonnulls(namespace_id, project_id) = 1)
    );
    create unique index access_requests_namespace on access_requests (namespace_id, user_id) where namespace_id is not null;
    create unique index access_requests_project on access_requests (project_id, user_id) where project_id is not null;
    create index access_requests_user on access_requests (user_id);

    -- Memberships for users who prove that they own the address. The link in the mail contains the token.
    create table invitations (
      id bigint generated always as identity primary key,
      namespace_id bigint references namespaces (id) on delete cascade,
      project_id bigint references projects (id) on delete cascade,
      email text not null,
      access_level smallint not null check (access_level in (5, 10, 15, 20, 30, 40, 50)),
      expires_at date,
      digest bytea not null unique,
      created_by_id bigint references users (id) on delete set null,
      created_at timestamptz not null default now(),
      check (num_nonnulls(namespace_id, project_id) = 1)
    );
    create unique index invitations_namespace on invitations (namespace_id, lower(email)) where namespace_id is not null;
    create unique index invitations_project on invitations (project_id, lower(email)) where project_id is not null;
    create index invitations_email on invitations (lower(email));

    create index members_expiry on members (expires_at) where expires_at is not null;
    create index namespace_shares_expiry on namespace_shares (expires_at) where expires_at is not null;
    create index project_shares_expiry on project_shares (expires_at) where expires_at is not null;

    -- The sizes of all projects in a namespace and below it, as a sum of rows. A change adds a row, so that no
    -- transaction waits for the row of a large group, and a job combines the rows. Maintained by the triggers below.
    create table namespace_sizes (
      namespace_id bigint not null references namespaces (id) on delete cascade,
      repository_size bigint not null default 0,
      wiki_size bigint not null default 0,
      lfs_objects_size bigint not null default 0,
      job_artifacts_size bigint not null default 0,
      pipeline_artifacts_size bigint not null default 0,
      packages_size bigint not null default 0,
      snippets_size bigint not null default 0,
      uploads_size bigint not null default 0,
      container_registry_size bigint not null default 0
    );
    create index namespace_sizes_namespace on namespace_sizes (namespace_id);

    create function add_namespace_sizes(p_namespaces bigint[], s project_statistics, p_factor integer) returns void
    language sql as $$
      insert into namespace_sizes
        select n.id, s.repository_size * p_factor, s.wiki_size * p_factor, s.lfs_objects_size * p_factor,
               s.job_artifacts_size * p_factor, s.pipeline_artifacts_size * p_factor, s.packages_size * p_factor,
               s.snippets_size * p_factor, s.uploads_size * p_factor, s.container_registry_size * p_factor
          from namespaces n
          where n.id = any (p_namespaces)
            and (s.repository_size, s.wiki_size, s.lfs_objects_size, s.job_artifacts_size, s.pipeline_artifacts_size,
                 s.packages_size, s.snippets_size, s.uploads_size, s.container_registry_size)
              is distinct from (0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint)
    $$;

    -- Runs after a project's sizes change. The lock waits for a move of the tree, and does not lock the project's own
    -- row.
    create function project_sizes_changed() returns trigger language plpgsql as $$
    declare
      v_tree bigint[];
      v_change project_statistics;
    begin
      select n.traversal_ids into v_tree from projects p join namespaces n on n.id = p.namespace_id
        where p.id = new.project_id for key share of n;
      v_change := new;
      if tg_op = 'UPDATE' then
        v_change.repository_size := new.repository_size - old.repository_size;
        v_change.wiki_size := new.wiki_size - old.wiki_size;
        v_change.lfs_objects_size := new.lfs_objects_size - old.lfs_objects_size;
        v_change.job_artifacts_size := new.job_artifacts_size - old.job_artifacts_size;
        v_change.pipeline_artifacts_size := new.pipeline_artifacts_size - old.pipeline_artifacts_size;
        v_change.packages_size := new.packages_size - old.packages_size;
        v_change.snippets_size := new.snippets_size - old.snippets_size;
        v_change.uploads_size := new.uploads_size - old.uploads_size;
        v_change.container_registry_size := new.container_registry_size - old.container_registry_size;
      end if;
      perform add_namespace_sizes(v_tree, v_change, 1);
      return null;
    end $$;
    create trigger project_statistics_sizes after insert or update on project_statistics
      for each row execute function project_sizes_changed();

    -- Runs when a project is moved or deleted. If its namespace is gone too, there is nothing to subtract from.
    create function project_sizes_moved() returns trigger language plpgsql as $$
    declare
      v_sizes project_statistics;
      v_from bigint[];
      v_to bigint[];
    begin
      select traversal_ids into v_from from namespaces where id = old.namespace_id;
      if found then
        select * into v_sizes from project_statistics where project_id = old.id for update;
        if found then
          perform add_namespace_sizes(v_from, v_sizes, -1);
          if tg_op = 'UPDATE' then
            select traversal_ids into v_to from namespaces where id = new.namespace_id;
            perform add_namespace_sizes(v_to, v_sizes, 1);
          end if;
        end if;
      end if;
      if tg_op = 'DELETE' then return old; end if;
      return new;
    end $$;
    create trigger projects_sizes_deleted before delete on projects for each row execute function project_sizes_moved();
    create trigger projects_sizes_moved before update of namespace_id on projects
      for each row when (old.namespace_id <> new.namespace_id) execute function project_sizes_moved();

    -- Runs when a namespace is moved with its tree, or deleted. For a deleted tree, the topmost namespace subtracts the
    -- whole sum from its ancestors.
    create function namespace_sizes_moved() returns trigger language plpgsql as $$
    declare
      v_sizes project_statistics;
      v_own boolean := tg_op = 'UPDATE';
    begin
      if tg_op = 'DELETE' and old.parent_id is null then return old; end if;
      if tg_op = 'DELETE' and not exists (select 1 from namespaces where id = old.parent_id) then return old; end if;
      if v_own then
        select null, 0, coalesce(sum(s.repository_size), 0), coalesce(sum(s.wiki_size), 0), coalesce(sum(s.lfs_objects_size), 0),
               coalesce(sum(s.job_artifacts_size), 0), coalesce(sum(s.pipeline_artifacts_size), 0),
               coalesce(sum(s.packages_size), 0), coalesce(sum(s.snippets_size), 0), coalesce(sum(s.uploads_size), 0),
               coalesce(sum(s.container_registry_size), 0)
          into v_sizes from projects p join project_statistics s on s.project_id = p.id where p.namespace_id = old.id;
        perform add_namespace_sizes(old.traversal_ids, v_sizes, -1);
        perform add_namespace_sizes(new.traversal_ids, v_sizes, 1);
        return null;
      end if;
      select null, 0, coalesce(sum(repository_size), 0), coalesce(sum(wiki_size), 0), coalesce(sum(lfs_objects_size), 0),
             coalesce(sum(job_artifacts_size), 0), coalesce(sum(pipeline_artifacts_size), 0),
             coalesce(sum(packages_size), 0), coalesce(sum(snippets_size), 0), coalesce(sum(uploads_size), 0),
             coalesce(sum(container_registry_size), 0)
        into v_sizes from namespace_sizes where namespace_id = old.id;
      perform add_namespace_sizes(old.traversal_ids, v_sizes, -1);
      return old;
    end $$;
    create trigger namespaces_sizes_moved after update of traversal_ids on namespaces
      for each row when (old.traversal_ids <> new.traversal_ids) execute function namespace_sizes_moved();
    create trigger namespaces_sizes_deleted before delete on namespaces
      for each row execute function namespace_sizes_moved();

    insert into namespace_sizes
      select above.id, sum(s.repository_size), sum(s.wiki_size), sum(s.lfs_objects_size), sum(s.job_artifacts_size),
             sum(s.pipeline_artifacts_size), sum(s.packages_size), sum(s.snippets_size), sum(s.uploads_size),
             sum(s.container_registry_size)
        from project_statistics s
        join projects p on p.id = s.project_id
        join namespaces n on n.id = p.namespace_id
        cross join unnest(n.traversal_ids) above (id)
        group by above.id;
  `.execute(db);
};
