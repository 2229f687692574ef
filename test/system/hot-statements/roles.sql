select p.id, asked.user_id
from unnest($1::bigint[], $2::bigint[])
as asked (project_id, user_id)
join projects p on p.id = asked.project_id
where exists (select a.user_id from namespace_access a where a.user_id = "asked"."user_id" and a.namespace_id = "p"."namespace_id" and a.access_level >= $3 and a.expires_at > current_date union all select m.user_id from members m where m.user_id = "asked"."user_id" and m.project_id = "p"."id" and m.access_level >= $4 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date) union all select a.user_id from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = "asked"."user_id" and s.project_id = "p"."id" and least(s.access_level, a.access_level) >= $5 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date));

-- Nested Loop
--   Function Scan
--   Index Only Scan by projects_by_id on projects
--     SubPlan 1: Append
--       Index Only Scan by namespace_access_namespace on namespace_access
--       Index Scan by members_project_user on members
--       Nested Loop
--         Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--         Index Only Scan by namespace_access_namespace on namespace_access
