select guarded.* from (select projects.id, projects.namespace_id, "projects"."xmin" as row_xmin, "projects"."ctid" as row_ctid, n.xmin as ns_xmin, n.ctid as ns_ctid,
case n.kind when 'user' then (select u.avatar_key from users u where u.id = n.owner_id) end as ns_owner_avatar_key, (select max(a.access_level) from namespace_access a where a.user_id = $1 and a.namespace_id = "projects"."namespace_id" and a.access_level >= 10 and a.expires_at > current_date) as level_by_namespace, case when exists (select 1 from members m where m.user_id = $2 and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) then (select max(m.access_level) from members m where m.user_id = $3 and m.project_id = "projects"."id" and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) end as level_by_membership,
(select array[i.status, i.import_error] from project_imports i where i.project_id = projects.id) as import_state,
(select json_agg(json_build_object('group_id', g.id, 'group_name', g.name, 'group_full_path', g.full_path,
'group_access_level', s.access_level, 'expires_at', s.expires_at, 'visibility_level', g.visibility_level, 'level',
(select max(least(s.access_level, a.access_level)) from namespace_access a where a.user_id = $4 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= 10 and a.namespace_id = s.shared_with_id and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date))) order by s.id)
from project_shares s join namespaces g on g.id = s.shared_with_id
where s.project_id = projects.id) as shares, page.total, (select pg_current_snapshot()::text || ' ' || current_date) as seen, page.sort_key
from (with found as materialized (select projects.id, "projects"."created_at" as sort_key from (select p.* from projects p where p.namespace_id in (
select a.namespace_id from namespace_access a where a.user_id = $5 and a.access_level >= $6::int and a.expires_at > current_date)
union all
select p.* from projects p where p.id in (
select m.project_id from members m where m.user_id = $7 and m.access_level >= $8::int and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)
union all
select s.project_id from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $9 and least(s.access_level, a.access_level) >= $10::int and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date))
and p.namespace_id not in (
select a.namespace_id from namespace_access a where a.user_id = $11 and a.access_level >= $12::int and a.expires_at > current_date)) projects where not projects.hidden and not projects.pending_delete)
select id, sort_key, (select count(*) from found) as total
from found where true order by "found"."sort_key" desc, "found"."id" desc limit 21) page join projects on projects.id = page.id join namespaces n on n.id = projects.namespace_id order by "page"."sort_key" desc, "page"."id" desc) guarded where exists (select from personal_access_tokens c, users u
where c.id = $13 and c.xmin = $15::xid and c.ctid = $16::tid
and u.id = $14 and u.xmin = $17::xid and u.ctid = $18::tid
and (c.expires_at is null or c.expires_at >= current_date) and not (c.last_used_at is null or c.last_used_at < now() - interval '1 minute'
or u.last_activity_on is distinct from current_date));

-- Result
--   InitPlan 1: Nested Loop
--     Tid Scan on personal_access_tokens
--     Tid Scan on users
--   Nested Loop
--     InitPlan 4: Index Scan by members_user on members
--     InitPlan 10: Result
--     Nested Loop
--       Limit
--         CTE found: Append
--           Subquery Scan
--             Nested Loop
--               Aggregate
--                 Index Only Scan by namespace_access_pkey on namespace_access
--               Index Only Scan by projects_namespace on projects
--           Subquery Scan
--             Nested Loop
--               Unique
--                 Sort
--                   Append
--                     Index Scan by members_user on members
--                     Nested Loop
--                       Index Only Scan by namespace_access_pkey on namespace_access
--                       Bitmap Heap Scan on project_shares
--                         Bitmap Index Scan by project_shares_with
--               Index Scan by projects_by_id on projects
--                 SubPlan 11: Index Only Scan by namespace_access_pkey on namespace_access
--         InitPlan 13: Aggregate
--           CTE Scan
--         Sort
--           CTE Scan
--       Index Scan by projects_pkey on projects
--     Index Scan by namespaces_pkey on namespaces
--     SubPlan 2: Index Scan by users_pkey on users
--     SubPlan 3: Aggregate
--       Index Only Scan by namespace_access_namespace on namespace_access
--     SubPlan 6: Result
--       InitPlan 5: Limit
--         Index Scan Backward by members_user on members
--     SubPlan 7: Index Scan by project_imports_project_id_key on project_imports
--     SubPlan 9: Aggregate
--       Sort
--         Nested Loop
--           Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--           Index Scan by namespaces_pkey on namespaces
--       SubPlan 8: Aggregate
--         Result
--           Index Only Scan by namespace_access_namespace on namespace_access
