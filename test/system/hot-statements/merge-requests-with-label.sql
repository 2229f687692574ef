select "merge_requests"."id", "merge_requests"."project_id", "merge_requests"."source_project_id", "merge_requests"."iid", "merge_requests"."title", "merge_requests"."description", "merge_requests"."state", "merge_requests"."source_branch", "merge_requests"."target_branch", "merge_requests"."author_id", "merge_requests"."milestone_id", "merge_requests"."draft", "merge_requests"."squash", "merge_requests"."discussion_locked", "merge_requests"."allow_collaboration", "merge_requests"."should_remove_source_branch", "merge_requests"."force_remove_source_branch", "merge_requests"."merge_when_pipeline_succeeds", "merge_requests"."merge_params", "merge_requests"."merge_after", "merge_requests"."needs_rebase", "merge_requests"."branch_missing", "merge_requests"."rebasing", "merge_requests"."merge_status", "merge_requests"."merge_error", "merge_requests"."merge_user_id", "merge_requests"."merge_commit_sha", "merge_requests"."squash_commit_sha", "merge_requests"."rebase_commit_sha", "merge_requests"."diff_head_sha", "merge_requests"."time_estimate", "merge_requests"."approvals_before_merge", "merge_requests"."imported", "merge_requests"."prepared_at", "merge_requests"."merged_at", "merge_requests"."closed_at", "merge_requests"."closed_by_id", "merge_requests"."updated_by_id", "merge_requests"."last_edited_at", "merge_requests"."last_edited_by_id", "merge_requests"."created_at", "merge_requests"."updated_at", (select p.full_path from projects p where p.id = merge_requests.project_id) as project_path, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (with drawn as materialized (select distinct id from (select id from (select held.id from (select "l"."id" from labels l where lower(l.title) = $1) l cross join lateral (select "k"."merge_request_id" as id from label_links k where k.label_id = l.id and "k"."merge_request_id" is not null offset 0) held) every limit 501) first_ones),
found as materialized (select "merge_requests"."id", "merge_requests"."created_at" as "sort_0" from drawn cross join lateral (select * from (select * from "merge_requests" where "merge_requests"."id" = "drawn"."id" offset 0) "merge_requests"
where true offset 0) "merge_requests" cross join lateral (select * from projects
where projects.id = "merge_requests"."project_id" and (("projects"."merge_requests_access_level" <> 'disabled' and "projects"."repository_access_level" <> 'disabled') and ((("projects"."visibility_level" >= 10 and not projects.hidden and not projects.pending_delete) and ("projects"."merge_requests_access_level" = 'enabled' and "projects"."repository_access_level" = 'enabled'))
or ((not "projects"."hidden" and not "projects"."pending_delete" and ("projects"."visibility_level" >= 10 or (exists (select 1 from namespace_access a where a.user_id = $2 and a.namespace_id = "projects"."namespace_id" and a.access_level >= $3 and a.expires_at > current_date) or exists (select 1 from members m where m.user_id = $4 and m.project_id = "projects"."id" and m.access_level >= $5 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) or exists (select 1 from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $6 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= $7 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date))))) and (exists (select 1 from namespace_access a where a.user_id = $8 and a.namespace_id = "projects"."namespace_id" and a.access_level >= $9 and a.expires_at > current_date) or exists (select 1 from members m where m.user_id = $10 and m.project_id = "projects"."id" and m.access_level >= $11 and m.project_id is not null and ("m"."expires_at" is null or "m"."expires_at" > current_date)) or exists (select 1 from project_shares s join namespace_access a on a.namespace_id = s.shared_with_id where a.user_id = $12 and s.project_id = "projects"."id" and least(s.access_level, a.access_level) >= $13 and not a.via_share and a.expires_at > current_date and ("s"."expires_at" is null or "s"."expires_at" > current_date)))))) offset 0) projects
where (select count(*) from drawn) <= 500)
select page.*, (select count(*) from found) as total, (select count(*) from drawn) as drawn
from (select 1) one left join lateral (select * from found where true
order by "found"."sort_0" desc, "found"."id" desc limit 21 ) page on true) page left join "merge_requests" on "merge_requests"."id" = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Sort
--   InitPlan 2: Result
--   Nested Loop
--     Nested Loop
--       CTE drawn: Aggregate
--         Limit
--           Nested Loop
--             Index Scan by labels_lower_title on labels
--             Index Only Scan by label_links_label on label_links
--       CTE found: Result
--         InitPlan 4: Aggregate
--           CTE Scan
--         Nested Loop
--           Nested Loop
--             CTE Scan
--             Index Scan by merge_requests_pkey on merge_requests
--           Memoize
--             Subquery Scan
--               Index Scan by projects_by_id on projects
--                 SubPlan 6: Index Only Scan by namespace_access_pkey on namespace_access
--                 SubPlan 8: Index Scan by members_user on members
--                 SubPlan 9: Nested Loop
--                   Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--                   Index Only Scan by namespace_access_namespace on namespace_access
--                 SubPlan 12: Index Only Scan by namespace_access_pkey on namespace_access
--                 SubPlan 14: Index Scan by members_user on members
--                 SubPlan 15: Nested Loop
--                   Index Scan by project_shares_project_id_shared_with_id_key on project_shares
--                   Index Only Scan by namespace_access_namespace on namespace_access
--       InitPlan 18: Aggregate
--         CTE Scan
--       InitPlan 19: Aggregate
--         CTE Scan
--       Result
--       Limit
--         Sort
--           CTE Scan
--     Index Scan by merge_requests_pkey on merge_requests
--     SubPlan 1: Index Scan by projects_by_id on projects
