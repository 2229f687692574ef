with j as (
select jobs.job_queue_id, jobs.priority, jobs.run_at, jobs.id
from "graphile_worker"._private_jobs as jobs
where jobs.is_available = true
and run_at <= now()
and task_id = any($2::int[])
and (
jobs.job_queue_id is null
or
jobs.job_queue_id in (
select id
from "graphile_worker"._private_job_queues as job_queues
where job_queues.is_available = true
for update
skip locked
)
)
order by priority asc, run_at asc
limit 1
for update
skip locked
),
q as (
update "graphile_worker"._private_job_queues as job_queues
set
locked_by = $1::text,
locked_at = now()
from j
where job_queues.id = j.job_queue_id
)
update "graphile_worker"._private_jobs as jobs
set
attempts = jobs.attempts + 1,
locked_by = $1::text,
locked_at = now()
from j
where jobs.id = j.id
returning *;

-- ModifyTable on _private_jobs
--   CTE j: Limit
--     LockRows
--       Index Scan by jobs_main_index on _private_jobs
--         SubPlan 1: LockRows
--           Seq Scan on _private_job_queues
--   CTE q: ModifyTable on _private_job_queues
--     Nested Loop
--       CTE Scan
--       Index Scan by job_queues_pkey1 on _private_job_queues
--   Nested Loop
--     CTE Scan
--     Index Scan by jobs_pkey1 on _private_jobs
