select "merge_requests"."id", "merge_requests"."iid", "merge_requests"."created_at", '' as project_path, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (with page as materialized (select "merge_requests"."id", "merge_requests"."created_at" as "sort_0"
from (select "project_id", "state", "created_at", "id" from "merge_requests"
where "merge_requests"."project_id" = $1::bigint and "merge_requests"."state" = $2::text order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2048) "merge_requests" where merge_requests.state = $3 and "merge_requests"."project_id" = $4 order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 101 )
select page.*, null::bigint as total,
case when (select count(*) from page) < 101 then (select count(*) from (select "project_id", "state", "created_at", "id" from "merge_requests"
where "merge_requests"."project_id" = $5::bigint and "merge_requests"."state" = $6::text order by "merge_requests"."created_at" desc, "merge_requests"."id" desc limit 2048) every) end as drawn
from (select 1) one left join page on true) page left join "merge_requests" on "merge_requests"."id" = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Sort
--   InitPlan 1: Result
--   Nested Loop
--     Nested Loop
--       CTE page: Limit
--         Subquery Scan
--           Limit
--             Index Only Scan Backward by merge_requests_by_state on merge_requests
--       InitPlan 3: Aggregate
--         CTE Scan
--       InitPlan 4: Aggregate
--         Limit
--           Index Only Scan Backward by merge_requests_by_state on merge_requests
--       Result
--       CTE Scan
--     Index Scan by merge_requests_pkey on merge_requests
