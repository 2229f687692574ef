select "merge_requests"."id", "merge_requests"."project_id", "merge_requests"."source_project_id", "merge_requests"."iid", "merge_requests"."title", "merge_requests"."description", "merge_requests"."state", "merge_requests"."source_branch", "merge_requests"."target_branch", "merge_requests"."author_id", "merge_requests"."milestone_id", "merge_requests"."draft", "merge_requests"."squash", "merge_requests"."discussion_locked", "merge_requests"."allow_collaboration", "merge_requests"."should_remove_source_branch", "merge_requests"."force_remove_source_branch", "merge_requests"."merge_when_pipeline_succeeds", "merge_requests"."merge_params", "merge_requests"."merge_after", "merge_requests"."needs_rebase", "merge_requests"."branch_missing", "merge_requests"."rebasing", "merge_requests"."merge_status", "merge_requests"."merge_error", "merge_requests"."merge_user_id", "merge_requests"."merge_commit_sha", "merge_requests"."squash_commit_sha", "merge_requests"."rebase_commit_sha", "merge_requests"."diff_head_sha", "merge_requests"."time_estimate", "merge_requests"."approvals_before_merge", "merge_requests"."imported", "merge_requests"."prepared_at", "merge_requests"."merged_at", "merge_requests"."closed_at", "merge_requests"."closed_by_id", "merge_requests"."updated_by_id", "merge_requests"."last_edited_at", "merge_requests"."last_edited_by_id", "merge_requests"."created_at", "merge_requests"."updated_at", (select p.full_path from projects p where p.id = merge_requests.project_id) as project_path, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (with page as materialized (select "merge_requests"."id", "merge_requests"."created_at" as "sort_0"
from (select "project_id", "created_at", "id" from "merge_requests"
where "merge_requests"."project_id" = $1::bigint order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2000) "merge_requests" where "merge_requests"."project_id" = $2 order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 21 )
select page.*, null::bigint as total,
case when (select count(*) from page) < 21 then (select count(*) from (select "project_id", "created_at", "id" from "merge_requests"
where "merge_requests"."project_id" = $3::bigint order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2000) every) end as drawn
from (select 1) one left join page on true) page left join "merge_requests" on "merge_requests"."id" = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Sort
--   InitPlan 2: Result
--   Nested Loop
--     Nested Loop
--       CTE page: Limit
--         Subquery Scan
--           Limit
--             Index Only Scan Backward by merge_requests_by_created on merge_requests
--       InitPlan 4: Aggregate
--         CTE Scan
--       InitPlan 5: Aggregate
--         Limit
--           Index Only Scan Backward by merge_requests_by_created on merge_requests
--       Result
--       CTE Scan
--     Index Scan by merge_requests_pkey on merge_requests
--     SubPlan 1: Index Scan by projects_by_id on projects
