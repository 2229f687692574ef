select issues.*, "page"."sort_0", page.total, page.drawn, (select pg_current_snapshot()::text || ' ' || current_date) as seen
from (with page as materialized (select "issues"."id", "issues"."created_at" as "sort_0"
from (select "project_id", "created_at", "id" from "issues"
where "issues"."project_id" = $1::bigint order by "issues"."created_at" desc, "issues"."id" desc limit 2000) walked cross join lateral (select * from (select * from "issues" where "issues"."id" = "walked"."id" offset 0) "issues"
where (not issues.confidential or (issues.author_id = $2 or exists (
select 1 from issue_assignees a where a.issue_id = issues.id and a.user_id = $3))) and "issues"."project_id" = $4 offset 0) "issues" order by "walked"."created_at" desc, "walked"."id" desc limit 21 )
select page.*, null::bigint as total,
case when (select count(*) from page) < 21 then (select count(*) from (select "project_id", "created_at", "id" from "issues"
where "issues"."project_id" = $5::bigint order by "issues"."created_at" desc, "issues"."id" desc limit 2000) every) end as drawn
from (select 1) one left join page on true) page left join "issues" on "issues"."id" = page.id
order by "page"."sort_0" desc, "page"."id" desc;

-- Sort
--   InitPlan 1: Result
--   Nested Loop
--     Nested Loop
--       CTE page: Limit
--         Nested Loop
--           Limit
--             Index Only Scan Backward by issues_by_created on issues
--           Subquery Scan
--             Index Scan by issues_pkey on issues
--             SubPlan 2: Index Only Scan by issue_assignees_user on issue_assignees
--       InitPlan 5: Aggregate
--         CTE Scan
--       InitPlan 6: Aggregate
--         Limit
--           Index Only Scan Backward by issues_by_created on issues
--       Result
--       CTE Scan
--     Index Scan by issues_pkey on issues
