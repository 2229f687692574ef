select projects.id, projects.namespace_id, "projects"."xmin" as row_xmin, "projects"."ctid" as row_ctid, n.xmin as ns_xmin, n.ctid as ns_ctid,
case n.kind when 'user' then (select u.avatar_key from users u where u.id = n.owner_id) end as ns_owner_avatar_key, (select max(a.access_level) from namespace_access a where a.user_id = $1 and a.namespace_id = "projects"."namespace_id" and a.access_level >= 10 and a.expires_at > current_date) as level_by_namespace, case when exists (select 1 from members m where m.user_id = $2 and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) then (select max(m.access_level) from members m where m.user_id = $3 and m.project_id = "projects"."id" and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) end as level_by_membership,
(select array[i.status, i.import_error] from project_imports i where i.project_id = projects.id) as import_state,
(select json_agg(json_build_object('group_id', g.id, 'group_name', g.name, 'group_full_path', g.full_path,
'group_access_level', s.access_level, 'expires_at', s.expires_at, 'visibility_level', g.visibility_level, 'level',
(select max(least(s.access_level, a.access_level)) from namespace_access a where a.user_id = $4 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= 10 and a.namespace_id = s.shared_with_id and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date))) order by s.id)
from project_shares s join namespaces g on g.id = s.shared_with_id
where s.project_id = projects.id) as shares,
case when o.id is not null then json_build_object('id', o.id, 'username', o.username, 'name', o.name,
'state', o.state, 'locked_until', o.locked_until::text, 'avatar_key', o.avatar_key,
'public_email', o.public_email, 'created_at', o.created_at::text) end as owner, projects.runners_token from projects join namespaces n on n.id = projects.namespace_id left join users o on o.id = n.owner_id where (not "projects"."hidden" and not "projects"."pending_delete" and ("projects"."visibility_level" >= 10 or (exists (select 1 from namespace_access a where a.user_id = $5 and a.namespace_id = "projects"."namespace_id" and a.access_level >= $6 and a.expires_at > current_date offset 0) or exists (select 1 from members m where m.user_id = $7 and m.project_id = "projects"."id" and m.access_level >= $8 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date) offset 0) or exists (select 1 from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $9 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= $10 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date) offset 0)))) and lower(projects.full_path) = any ($11::text[]);

-- Nested Loop
--   InitPlan 3: Index Scan by members_user on members
--   Nested Loop
--     Index Scan by projects_full_path on projects
--       SubPlan 9: Index Only Scan by namespace_access_namespace on namespace_access
--       SubPlan 10: Index Scan by members_project_user on members
--       SubPlan 11: Nested Loop
--         Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--         Index Only Scan by namespace_access_namespace on namespace_access
--     Index Scan by namespaces_pkey on namespaces
--   Memoize
--     Index Scan by users_pkey on users
--   SubPlan 1: Index Scan by users_pkey on users
--   SubPlan 2: Aggregate
--     Index Only Scan by namespace_access_namespace on namespace_access
--   SubPlan 5: Result
--     InitPlan 4: Limit
--       Index Scan Backward by members_user on members
--   SubPlan 6: Index Scan by project_imports_project_id_key on project_imports
--   SubPlan 8: Aggregate
--     Sort
--       Nested Loop
--         Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--         Index Scan by namespaces_pkey on namespaces
--     SubPlan 7: Aggregate
--       Result
--         Index Only Scan by namespace_access_namespace on namespace_access
