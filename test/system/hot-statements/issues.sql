select "issues".* from "issues" where "issues"."project_id" = $1 and (not issues.confidential or (issues.author_id = $2 or exists (
select 1 from issue_assignees a where a.issue_id = issues.id and a.user_id = $3))) order by "issues"."created_at" desc, "issues"."id" desc limit $4;

-- Limit
--   Index Scan Backward by issues_by_created on issues
--     SubPlan 2: Bitmap Heap Scan on issue_assignees
--       Bitmap Index Scan by issue_assignees_user
