select "merge_requests"."id", "merge_requests"."project_id", "merge_requests"."source_project_id", "merge_requests"."iid", "merge_requests"."title", "merge_requests"."description", "merge_requests"."state", "merge_requests"."source_branch", "merge_requests"."target_branch", "merge_requests"."author_id", "merge_requests"."milestone_id", "merge_requests"."draft", "merge_requests"."squash", "merge_requests"."discussion_locked", "merge_requests"."allow_collaboration", "merge_requests"."should_remove_source_branch", "merge_requests"."force_remove_source_branch", "merge_requests"."merge_when_pipeline_succeeds", "merge_requests"."merge_params", "merge_requests"."merge_after", "merge_requests"."needs_rebase", "merge_requests"."branch_missing", "merge_requests"."rebasing", "merge_requests"."merge_status", "merge_requests"."merge_error", "merge_requests"."merge_user_id", "merge_requests"."merge_commit_sha", "merge_requests"."squash_commit_sha", "merge_requests"."rebase_commit_sha", "merge_requests"."diff_head_sha", "merge_requests"."time_estimate", "merge_requests"."approvals_before_merge", "merge_requests"."imported", "merge_requests"."prepared_at", "merge_requests"."merged_at", "merge_requests"."closed_at", "merge_requests"."closed_by_id", "merge_requests"."updated_by_id", "merge_requests"."last_edited_at", "merge_requests"."last_edited_by_id", "merge_requests"."created_at", "merge_requests"."updated_at", (select p.full_path from projects p where p.id = merge_requests.project_id) as project_path, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (with page as materialized (select "merge_requests"."id", "merge_requests"."created_at" as "sort_0"
from (select "state", "created_at", "id" from "merge_requests"
where "merge_requests"."state" = $1::text order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2000) walked cross join lateral (select "merge_requests".* from (select * from (select * from "merge_requests" where "merge_requests"."id" = "walked"."id" offset 0) "merge_requests"
where merge_requests.state = $2 offset 0) "merge_requests" join projects on projects.id = "merge_requests"."project_id"
where (("projects"."merge_requests_access_level" <> 'disabled' and "projects"."repository_access_level" <> 'disabled') and ((("projects"."visibility_level" >= 10 and not projects.hidden and not projects.pending_delete) and ("projects"."merge_requests_access_level" = 'enabled' and "projects"."repository_access_level" = 'enabled'))
or ((not "projects"."hidden" and not "projects"."pending_delete" and ("projects"."visibility_level" >= 10 or (exists (select 1 from namespace_access a where a.user_id = $3 and a.namespace_id = "projects"."namespace_id" and a.access_level >= $4 and a.expires_at > current_date) or exists (select 1 from members m where m.user_id = $5 and m.project_id = "projects"."id" and m.access_level >= $6 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) or exists (select 1 from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $7 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= $8 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date))))) and (exists (select 1 from namespace_access a where a.user_id = $9 and a.namespace_id = "projects"."namespace_id" and a.access_level >= $10 and a.expires_at > current_date) or exists (select 1 from members m where m.user_id = $11 and m.project_id = "projects"."id" and m.access_level >= $12 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) or exists (select 1 from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $13 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= $14 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date)))))) offset 0) "merge_requests" order by "walked"."created_at" desc, "walked"."id" desc limit 21 )
select page.*, null::bigint as total,
case when (select count(*) from page) < 21 then (select count(*) from (select "state", "created_at", "id" from "merge_requests"
where "merge_requests"."state" = $15::text order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2000) every) end as drawn
from (select 1) one left join page on true) page left join "merge_requests" on "merge_requests"."id" = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Sort
--   InitPlan 2: Result
--   Nested Loop
--     Nested Loop
--       CTE page: Limit
--         Nested Loop
--           Limit
--             Index Only Scan Backward by merge_requests_state on merge_requests
--           Nested Loop
--             Subquery Scan
--               Index Scan by merge_requests_pkey on merge_requests
--             Index Scan by projects_by_id on projects
--               SubPlan 4: Index Only Scan by namespace_access_pkey on namespace_access
--               SubPlan 6: Index Scan by members_user on members
--               SubPlan 7: Nested Loop
--                 Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--                 Index Only Scan by namespace_access_namespace on namespace_access
--               SubPlan 10: Index Only Scan by namespace_access_pkey on namespace_access
--               SubPlan 12: Index Scan by members_user on members
--               SubPlan 13: Nested Loop
--                 Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--                 Index Only Scan by namespace_access_namespace on namespace_access
--       InitPlan 16: Aggregate
--         CTE Scan
--       InitPlan 17: Aggregate
--         Limit
--           Index Only Scan Backward by merge_requests_state on merge_requests
--       Result
--       CTE Scan
--     Index Scan by merge_requests_pkey on merge_requests
--     SubPlan 1: Index Scan by projects_by_id on projects
