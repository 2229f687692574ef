select "merge_requests"."id", "merge_requests"."iid", "merge_requests"."created_at", '' as project_path, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (select merge_requests.id, "merge_requests"."created_at" as "sort_0", null::bigint as total, null::bigint as drawn
from (select "project_id", "state", "created_at", "id" from merge_requests
where ("merge_requests"."project_id", "merge_requests"."state", "merge_requests"."created_at") >= ($1::bigint, $2::text, '-infinity'::timestamptz) and ("merge_requests"."project_id", "merge_requests"."state", "merge_requests"."created_at") <= ($3::bigint, $4::text, 'infinity'::timestamptz) order by "merge_requests"."project_id" desc, "merge_requests"."state" desc, "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2048) merge_requests
where merge_requests.state = $5 and merge_requests.project_id = $6 order by "merge_requests"."project_id" desc, "merge_requests"."state" desc, "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 101 ) page left join merge_requests on merge_requests.id = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Nested Loop
--   InitPlan 1: Result
--   Limit
--     Subquery Scan
--       Limit
--         Index Only Scan Backward by merge_requests_by_state on merge_requests
--   Index Scan by merge_requests_pkey on merge_requests
