with recursive busy (id) as (
(select webhook_id from webhook_queue where state = 'waiting' order by webhook_id limit 1)
union all
select (
select d.webhook_id from webhook_queue d
where d.state = 'waiting' and d.webhook_id > busy.id order by d.webhook_id limit 1
) from busy where busy.id is not null
), hooks as materialized (
select h.id, h.updated_at, h.recent_failures, h.blocked, coalesce(room.free, $1::int) as free
from busy
cross join lateral (
select id, updated_at, recent_failures, disabled_permanently or disabled_until is not null as blocked
from webhooks where webhooks.id = busy.id offset 0
) h
left join unnest($2::bigint[], $3::int[])
as room (id, free) on room.id = h.id
), blocked as materialized (
select id from webhooks
where id = any (array(select id from hooks where blocked)) and (disabled_permanently or disabled_until is not null)
for share
), held as (
update webhook_queue set state = 'held'
where webhook_id = any (array(select id from blocked)) and state = 'waiting'
), picked as materialized (
select due.delivery_id
from (select id, free from hooks where not blocked and free > 0 order by random()) hooks
cross join lateral (
select d.delivery_id from webhook_queue d
where d.webhook_id = hooks.id and d.state = 'waiting' and d.next_attempt_at <= now()
order by d.next_attempt_at limit hooks.free
for update skip locked
) due
limit $4::int
), taken as (
update webhook_queue set state = 'sending', claimed_by = $5
where delivery_id = any (array(select delivery_id from picked))
returning delivery_id, webhook_id, payload_id, created_at, attempts, next_attempt_at
)
select taken.delivery_id as id, taken.created_at, taken.webhook_id, taken.payload_id, taken.attempts, p.trigger,
p.chain_id, case when row_number() over (partition by taken.payload_id) = 1 then p.body end as body,
hooks.updated_at as version, hooks.recent_failures
from taken
join hooks on hooks.id = taken.webhook_id
cross join lateral (
select trigger, chain_id, body from webhook_payloads
where webhook_payloads.id = taken.payload_id and webhook_payloads.created_at = taken.created_at offset 0
) p
order by taken.next_attempt_at;

-- Sort
--   CTE busy: Recursive Union
--     Limit
--       Index Only Scan by webhook_queue_due on webhook_queue
--     WorkTable Scan
--   CTE hooks: Nested Loop
--     CTE Scan
--     Hash Join
--       Function Scan
--       Hash
--         Index Scan by webhooks_pkey on webhooks
--   CTE blocked: LockRows
--     InitPlan 4: CTE Scan
--     Index Scan by webhooks_pkey on webhooks
--   CTE held: ModifyTable on webhook_queue
--     InitPlan 6: CTE Scan
--     Bitmap Heap Scan on webhook_queue
--       Bitmap Index Scan by webhook_queue_due
--   CTE picked: Limit
--     Nested Loop
--       Sort
--         CTE Scan
--       Subquery Scan
--         Limit
--           LockRows
--             Index Scan by webhook_queue_due on webhook_queue
--   CTE taken: ModifyTable on webhook_queue
--     InitPlan 9: CTE Scan
--     Bitmap Heap Scan on webhook_queue
--       Bitmap Index Scan by webhook_queue_pkey
--   WindowAgg
--     Sort
--       Nested Loop
--         Hash Join
--           CTE Scan
--           Hash
--             CTE Scan
--         Append
--           Index Scan by webhook_payloads_day_pkey on webhook_payloads_day
--           Seq Scan on webhook_payloads_day
