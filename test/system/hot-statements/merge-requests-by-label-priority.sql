select "merge_requests"."id", "merge_requests"."project_id", "merge_requests"."source_project_id", "merge_requests"."iid", "merge_requests"."title", "merge_requests"."description", "merge_requests"."state", "merge_requests"."source_branch", "merge_requests"."target_branch", "merge_requests"."author_id", "merge_requests"."milestone_id", "merge_requests"."draft", "merge_requests"."squash", "merge_requests"."discussion_locked", "merge_requests"."allow_collaboration", "merge_requests"."should_remove_source_branch", "merge_requests"."force_remove_source_branch", "merge_requests"."merge_when_pipeline_succeeds", "merge_requests"."merge_params", "merge_requests"."merge_after", "merge_requests"."needs_rebase", "merge_requests"."branch_missing", "merge_requests"."rebasing", "merge_requests"."merge_status", "merge_requests"."merge_error", "merge_requests"."merge_user_id", "merge_requests"."merge_commit_sha", "merge_requests"."squash_commit_sha", "merge_requests"."rebase_commit_sha", "merge_requests"."diff_head_sha", "merge_requests"."time_estimate", "merge_requests"."approvals_before_merge", "merge_requests"."imported", "merge_requests"."prepared_at", "merge_requests"."merged_at", "merge_requests"."closed_at", "merge_requests"."closed_by_id", "merge_requests"."updated_by_id", "merge_requests"."last_edited_at", "merge_requests"."last_edited_by_id", "merge_requests"."created_at", "merge_requests"."updated_at", (select p.full_path from projects p where p.id = merge_requests.project_id) as project_path, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (with drawn as materialized (select distinct id from (select id from (select held.id from (select "l"."id" from labels l where l.priority is not null and ("l"."project_id" = $1 or "l"."namespace_id" = any (
(select n.traversal_ids from projects p join namespaces n on n.id = p.namespace_id where p.id = $2)::bigint[]))) l cross join lateral (select "k"."merge_request_id" as id from label_links k where k.label_id = l.id and "k"."merge_request_id" is not null offset 0) held) every limit 10001) first_ones),
ranked as materialized (select "merge_requests"."id", coalesce((select min(l.priority) from label_links k join labels l on l.id = k.label_id
where k.merge_request_id = merge_requests.id), -1) as "sort_0" from drawn cross join lateral (select * from (select * from "merge_requests" where "merge_requests"."id" = "drawn"."id" offset 0) "merge_requests"
where "merge_requests"."project_id" = $3 offset 0) "merge_requests"),
others as materialized (select "merge_requests"."id", -1::integer as "sort_0"
from (select "project_id", "id" from "merge_requests" where ("merge_requests"."project_id", "merge_requests"."id") >= ($4::bigint, 0) and ("merge_requests"."project_id", "merge_requests"."id") < ($5::bigint + 1, 0)
order by "merge_requests"."project_id" desc, "merge_requests"."id" desc limit 2000) walked cross join lateral (select * from (select * from "merge_requests" where "merge_requests"."id" = "walked"."id" offset 0) "merge_requests"
where "merge_requests"."project_id" = $6 offset 0) "merge_requests"
where walked.id not in (select id from drawn)
and true
order by "walked"."project_id" desc, "walked"."id" desc limit 21)
select found.*, null::bigint as total, (select count(*) from drawn) as drawn
from (select * from ranked union all select * from others) found
where true order by "found"."sort_0" desc, "found"."id" desc limit 21 ) page left join "merge_requests" on "merge_requests"."id" = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Nested Loop
--   InitPlan 2: Result
--   Limit
--     CTE drawn: Aggregate
--       Limit
--         InitPlan 3: Nested Loop
--           Index Only Scan by projects_by_id on projects
--           Index Scan by namespaces_pkey on namespaces
--         Nested Loop
--           Seq Scan on labels
--           Index Only Scan by label_links_label on label_links
--     CTE ranked: Nested Loop
--       CTE Scan
--       Subquery Scan
--         Index Scan by merge_requests_pkey on merge_requests
--       SubPlan 5: Aggregate
--         Nested Loop
--           Index Only Scan by label_links_merge_request on label_links
--           Index Scan by labels_pkey on labels
--     CTE others: Limit
--       Nested Loop
--         Subquery Scan
--           Limit
--             Index Only Scan Backward by merge_requests_by_id on merge_requests
--           SubPlan 7: CTE Scan
--         Subquery Scan
--           Index Scan by merge_requests_pkey on merge_requests
--     InitPlan 9: Aggregate
--       CTE Scan
--     Sort
--       Result
--         Append
--           CTE Scan
--   Index Scan by merge_requests_pkey on merge_requests
--   SubPlan 1: Index Scan by projects_by_id on projects
