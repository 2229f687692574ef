select guarded.* from (select projects.id, projects.namespace_id, "projects"."xmin" as row_xmin, "projects"."ctid" as row_ctid, n.xmin as ns_xmin, n.ctid as ns_ctid,
case n.kind when 'user' then (select u.avatar_key from users u where u.id = n.owner_id) end as ns_owner_avatar_key, (select max(a.access_level) from namespace_access a where a.user_id = $1 and a.namespace_id = "projects"."namespace_id" and a.access_level >= 10 and a.expires_at > current_date) as level_by_namespace, case when exists (select 1 from members m where m.user_id = $2 and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) then (select max(m.access_level) from members m where m.user_id = $3 and m.project_id = "projects"."id" and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) end as level_by_membership,
(select array[i.status, i.import_error] from project_imports i where i.project_id = projects.id) as import_state,
(select json_agg(json_build_object('group_id', g.id, 'group_name', g.name, 'group_full_path', g.full_path,
'group_access_level', s.access_level, 'expires_at', s.expires_at, 'visibility_level', g.visibility_level, 'level',
(select max(least(s.access_level, a.access_level)) from namespace_access a where a.user_id = $4 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= 10 and a.namespace_id = s.shared_with_id and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date))) order by s.id)
from project_shares s join namespaces g on g.id = s.shared_with_id
where s.project_id = projects.id) as shares, page.total
from (select projects.id, projects.sort_key, null::bigint as total
from (select projects.id, projects.namespace_id, projects.visibility_level, projects.hidden, projects.pending_delete, null as sort_key from projects where projects.id < $5::bigint order by "projects"."id" desc limit 2000) projects
where (not "projects"."hidden" and not "projects"."pending_delete" and ("projects"."visibility_level" >= 10 or (exists (select 1 from namespace_access a where a.user_id = $6 and a.namespace_id = "projects"."namespace_id" and a.access_level >= $7 and a.expires_at > current_date offset 0) or exists (select 1 from members m where m.user_id = $8 and m.project_id = "projects"."id" and m.access_level >= $9 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date) offset 0) or exists (select 1 from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $10 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= $11 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date) offset 0)))) and projects.id < $12::bigint
order by "projects"."id" desc limit 21) page join projects on projects.id = page.id join namespaces n on n.id = projects.namespace_id order by "page"."id" desc) guarded where exists (select from personal_access_tokens c, users u
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
--     Nested Loop
--       Limit
--         Subquery Scan
--           Limit
--             Index Only Scan Backward by projects_by_id on projects
--           SubPlan 10: Index Only Scan by namespace_access_namespace on namespace_access
--           SubPlan 11: Index Scan by members_project_user on members
--           SubPlan 12: Nested Loop
--             Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--             Index Only Scan by namespace_access_namespace on namespace_access
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
