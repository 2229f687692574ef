select c.n as class, e.n as moment, r.user_id
from jsonb_to_recordset($1::jsonb) as e (n int, project_id bigint, namespace_ids bigint[], visibility_level int, min_access_level int,
user_ids bigint[], about_people boolean, ability text, least int, issue_id bigint, other_project_id bigint)
cross join jsonb_to_recordset($2::jsonb)
as c (n int, open_from int, closed bigint[], first int, last int)
left join projects p on p.id = e.project_id
left join lateral (
select s.id, s.visibility_level, s.traversal_ids, s.traversal_ids <> e.namespace_ids as is_moved,
e.project_id is null and s.id = e.namespace_ids[cardinality(e.namespace_ids)] as is_place
from namespaces s
where s.id = any (case when p.id is null then e.namespace_ids else array[p.namespace_id] end)
order by array_position(e.namespace_ids, s.id) desc nulls last limit 1
) n on true
left join issues i on i.id = e.issue_id
left join projects o on o.id = e.other_project_id
left join namespaces h on h.id = o.namespace_id
cross join lateral (select (n.id is not null and (p.hidden or p.pending_delete) is not true) as is_there offset 0) t
cross join lateral (select t.is_there and (
((e.visibility_level >= (case when (c.closed && e.namespace_ids) is true then 20 else c.open_from end) and (e.min_access_level is null or false)) is true or 0 >= (case when false then 10 else greatest(e.min_access_level, 10) end))
and case
when p.id is not null and e.ability is not null then case e.ability when 'read_code' then (("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and 0 >= 10)) and (0 >= 20 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."repository_access_level" = 'enabled' or 0 >= 20)))) when 'read_error' then (0 >= 20) when 'read_issue' then (("p"."issues_access_level" = 'enabled' or ("p"."issues_access_level" = 'private' and 0 >= 10)) and (0 >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."issues_access_level" = 'enabled' or 0 >= 10)))) when 'read_label' then ((("p"."issues_access_level" = 'enabled' or ("p"."issues_access_level" = 'private' and 0 >= 10)) or ("p"."merge_requests_access_level" = 'enabled' or ("p"."merge_requests_access_level" = 'private' and 0 >= 10))) and (0 >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and (("p"."issues_access_level" = 'enabled' or 0 >= 10) or ("p"."merge_requests_access_level" = 'enabled' or 0 >= 20))))) when 'read_merge_request' then (("p"."merge_requests_access_level" = 'enabled' or ("p"."merge_requests_access_level" = 'private' and 0 >= 10)) and ("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and 0 >= 10)) and (0 >= 20 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."merge_requests_access_level" = 'enabled' or 0 >= 20) and ("p"."repository_access_level" = 'enabled' or 0 >= 20)))) when 'read_milestone' then ((("p"."issues_access_level" = 'enabled' or ("p"."issues_access_level" = 'private' and 0 >= 10)) or ("p"."merge_requests_access_level" = 'enabled' or ("p"."merge_requests_access_level" = 'private' and 0 >= 10))) and (0 >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and (("p"."issues_access_level" = 'enabled' or 0 >= 10) or ("p"."merge_requests_access_level" = 'enabled' or 0 >= 20))))) when 'read_pipeline' then (("p"."builds_access_level" = 'enabled' or ("p"."builds_access_level" = 'private' and 0 >= 10)) and ("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and 0 >= 10)) and (0 >= 20 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."builds_access_level" = 'enabled' or 0 >= 20) and ("p"."repository_access_level" = 'enabled' or 0 >= 20) and "p"."public_jobs"))) when 'read_project' then ((0 >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end)))) when 'read_release' then (("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and 0 >= 10)) and (0 >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."repository_access_level" = 'enabled' or 0 >= 20)))) else false end
when (p.id is not null or n.is_place) and coalesce(p.visibility_level, n.visibility_level) >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and (e.min_access_level is null or false) then true
else 0 >= (case when false then 10 else greatest(e.min_access_level, 10) end) end
and 0 >= coalesce(e.least, 0)
-- A deleted issue may have been confidential when it was deleted.
and (e.issue_id is null or i.confidential is false or false or 0 >= 15)
and (e.other_project_id is null or (not o.hidden and not o.pending_delete) is true and (0 >= 10
or o.visibility_level >= case when (c.closed && h.traversal_ids) is true then 20 else c.open_from end))) as is_open offset 0) v
cross join lateral (select v.is_open, case when v.is_open then '{}' else ($3::bigint[])[c.first:c.last] end as user_ids offset 0) w
left join lateral (
select f.user_id, max(f.now) as level, max(f.past) as level_then, max(f.other) as level_other,
bool_or(f.is_named) as is_named, bool_or(f.is_concerned) as is_concerned
from (
select held.user_id, case when (c.closed && n.traversal_ids) is true then 0 else held.access_level end as now,
case when (c.closed && e.namespace_ids) is true or n.is_moved then 0 else held.access_level end as past,
0 as other, false as is_named, false as is_concerned
from (select a.user_id as user_id, a.access_level as access_level from namespace_access a where a.user_id = any (w.user_ids) and a.namespace_id = "n"."id" and a.access_level >= 10 and a.expires_at > current_date) held
union all
select held.user_id, case when (c.closed && n.traversal_ids) is true then 0 else held.access_level end,
case when (c.closed && e.namespace_ids) is true then 0 else held.access_level end, 0, false, false
from (select m.user_id as user_id, m.access_level as access_level from members m where m.user_id = any (w.user_ids) and m.project_id = "p"."id" and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date) union all select a.user_id as user_id, least(s.access_level, a.access_level) as access_level from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = any (w.user_ids) and s.project_id = "p"."id" and least(s.access_level, a.access_level) >= 10 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date)) held
union all
select held.user_id, 0, held.access_level, 0, false, false
from (select m.user_id as user_id, m.access_level as access_level from members m where m.user_id = any (w.user_ids) and m.namespace_id = any (e.namespace_ids) and m.access_level >= 10 and m.namespace_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date) union all select a.user_id as user_id, least(s.access_level, a.access_level) as access_level from namespace_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = any (w.user_ids) and s.namespace_id = any (e.namespace_ids) and least(s.access_level, a.access_level) >= 10 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date) union all select u.owner_id as user_id, 50 as access_level from namespaces u where u.owner_id = any (w.user_ids) and u.id = any (e.namespace_ids) and 50 >= 10 and u.kind = 'user') held where n.is_moved and not (c.closed && e.namespace_ids) is true
union all
select held.user_id, 0, 0, held.access_level, false, false
from (select a.user_id as user_id, a.access_level as access_level from namespace_access a where a.user_id = any (w.user_ids) and a.namespace_id = "h"."id" and a.access_level >= 10 and a.expires_at > current_date union all select m.user_id as user_id, m.access_level as access_level from members m where m.user_id = any (w.user_ids) and m.project_id = "o"."id" and m.access_level >= 10 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date) union all select a.user_id as user_id, least(s.access_level, a.access_level) as access_level from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = any (w.user_ids) and s.project_id = "o"."id" and least(s.access_level, a.access_level) >= 10 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date)) held
where e.other_project_id is not null and not (c.closed && h.traversal_ids) is true
union all
select id, 0, 0, 0, true, false from unnest(e.user_ids) id where id = any (w.user_ids)
union all
select i.author_id, 0, 0, 0, false, true where i.author_id = any (w.user_ids)
union all
select a.user_id, 0, 0, 0, false, true from issue_assignees a where a.issue_id = e.issue_id and a.user_id = any (w.user_ids)
) f group by f.user_id) r on true
where (w.is_open or case
when r.user_id is null then false
when r.is_named and (n.id is null or e.about_people) then true
else t.is_there and (
((e.visibility_level >= (case when (c.closed && e.namespace_ids) is true then 20 else c.open_from end) and (e.min_access_level is null or "r"."is_named")) is true or "r"."level_then" >= (case when "r"."is_named" then 10 else greatest(e.min_access_level, 10) end))
and case
when p.id is not null and e.ability is not null then case e.ability when 'read_code' then (("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and "r"."level" >= 10)) and ("r"."level" >= 20 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."repository_access_level" = 'enabled' or "r"."level" >= 20)))) when 'read_error' then ("r"."level" >= 20) when 'read_issue' then (("p"."issues_access_level" = 'enabled' or ("p"."issues_access_level" = 'private' and "r"."level" >= 10)) and ("r"."level" >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."issues_access_level" = 'enabled' or "r"."level" >= 10)))) when 'read_label' then ((("p"."issues_access_level" = 'enabled' or ("p"."issues_access_level" = 'private' and "r"."level" >= 10)) or ("p"."merge_requests_access_level" = 'enabled' or ("p"."merge_requests_access_level" = 'private' and "r"."level" >= 10))) and ("r"."level" >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and (("p"."issues_access_level" = 'enabled' or "r"."level" >= 10) or ("p"."merge_requests_access_level" = 'enabled' or "r"."level" >= 20))))) when 'read_merge_request' then (("p"."merge_requests_access_level" = 'enabled' or ("p"."merge_requests_access_level" = 'private' and "r"."level" >= 10)) and ("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and "r"."level" >= 10)) and ("r"."level" >= 20 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."merge_requests_access_level" = 'enabled' or "r"."level" >= 20) and ("p"."repository_access_level" = 'enabled' or "r"."level" >= 20)))) when 'read_milestone' then ((("p"."issues_access_level" = 'enabled' or ("p"."issues_access_level" = 'private' and "r"."level" >= 10)) or ("p"."merge_requests_access_level" = 'enabled' or ("p"."merge_requests_access_level" = 'private' and "r"."level" >= 10))) and ("r"."level" >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and (("p"."issues_access_level" = 'enabled' or "r"."level" >= 10) or ("p"."merge_requests_access_level" = 'enabled' or "r"."level" >= 20))))) when 'read_pipeline' then (("p"."builds_access_level" = 'enabled' or ("p"."builds_access_level" = 'private' and "r"."level" >= 10)) and ("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and "r"."level" >= 10)) and ("r"."level" >= 20 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."builds_access_level" = 'enabled' or "r"."level" >= 20) and ("p"."repository_access_level" = 'enabled' or "r"."level" >= 20) and "p"."public_jobs"))) when 'read_project' then (("r"."level" >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end)))) when 'read_release' then (("p"."repository_access_level" = 'enabled' or ("p"."repository_access_level" = 'private' and "r"."level" >= 10)) and ("r"."level" >= 10 or ("p"."visibility_level" >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and ("p"."repository_access_level" = 'enabled' or "r"."level" >= 20)))) else false end
when (p.id is not null or n.is_place) and coalesce(p.visibility_level, n.visibility_level) >= (case when (c.closed && n.traversal_ids) is true then 20 else c.open_from end) and (e.min_access_level is null or "r"."is_named") then true
else "r"."level" >= (case when "r"."is_named" then 10 else greatest(e.min_access_level, 10) end) end
and "r"."level" >= coalesce(e.least, 0)
-- A deleted issue may have been confidential when it was deleted.
and (e.issue_id is null or i.confidential is false or "r"."is_concerned" or "r"."level" >= 15)
and (e.other_project_id is null or (not o.hidden and not o.pending_delete) is true and ("r"."level_other" >= 10
or o.visibility_level >= case when (c.closed && h.traversal_ids) is true then 20 else c.open_from end))) end);

-- Nested Loop
--   Nested Loop
--     Nested Loop
--       Nested Loop
--         Nested Loop
--           Nested Loop
--             Function Scan
--             Materialize
--               Nested Loop
--                 Nested Loop
--                   Nested Loop
--                     Nested Loop
--                       Function Scan
--                       Index Scan by projects_pkey on projects
--                     Index Scan by issues_pkey on issues
--                   Index Only Scan by projects_by_id on projects
--                 Index Scan by namespaces_pkey on namespaces
--           Limit
--             Sort
--               Index Scan by namespaces_pkey on namespaces
--         Result
--       Result
--     Memoize
--       Subquery Scan
--         Result
--   Aggregate
--     Sort
--       Append
--         Index Only Scan by namespace_access_pkey on namespace_access
--         Result
--           Append
--             Index Scan by members_project on members
--             Nested Loop
--               Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--               Index Only Scan by namespace_access_pkey on namespace_access
--         Result
--           Append
--             Result
--               Append
--                 Index Scan by members_namespace_user on members
--                 Hash Join
--                   Bitmap Heap Scan on namespace_shares
--                     Bitmap Index Scan by namespace_shares_namespace_id_shared_with_id_key
--                   Hash
--                     Index Only Scan by namespace_access_pkey on namespace_access
--             Index Scan by namespaces_pkey on namespaces
--         Subquery Scan
--           Result
--             Append
--               Result
--                 Index Only Scan by namespace_access_pkey on namespace_access
--               Result
--                 Index Scan by members_project on members
--               Result
--                 Nested Loop
--                   Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--                   Index Only Scan by namespace_access_pkey on namespace_access
--         Function Scan
--         Result
--         Index Only Scan by issue_assignees_user on issue_assignees
