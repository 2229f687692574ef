select guarded.* from (with found as materialized (select namespaces.id, "namespaces"."xmin" as row_xmin, "namespaces"."ctid" as row_ctid, lower(namespaces.name) as sort_key, namespaces.name, namespaces.path from namespaces where namespaces.id in (
select a.namespace_id from namespace_access a where a.user_id = $1 and a.access_level >= $2::int and a.expires_at > current_date) and namespaces.kind = 'group')
select namespaces.id, namespaces.row_xmin, namespaces.row_ctid, namespaces.sort_key, coalesce((select max(a.access_level) from namespace_access a where a.user_id = $3 and a.namespace_id = "namespaces"."id" and a.access_level >= 10 and a.expires_at > current_date), 0) as access_level, (select count(*) from found) as total from found namespaces where true order by "namespaces"."sort_key" asc, namespaces.id asc limit 21) guarded where exists (select from personal_access_tokens c, users u
where c.id = $4 and c.xmin = $6::xid and c.ctid = $7::tid
and u.id = $5 and u.xmin = $8::xid and u.ctid = $9::tid
and (c.expires_at is null or c.expires_at >= current_date) and not (c.last_used_at is null or c.last_used_at < now() - interval '1 minute'
or u.last_activity_on is distinct from current_date));

-- Result
--   InitPlan 1: Nested Loop
--     Tid Scan on personal_access_tokens
--     Tid Scan on users
--   Limit
--     CTE found: Nested Loop
--       Aggregate
--         Index Only Scan by namespace_access_pkey on namespace_access
--       Index Scan by namespaces_pkey on namespaces
--     InitPlan 4: Aggregate
--       CTE Scan
--     Result
--       Sort
--         CTE Scan
--       SubPlan 3: Aggregate
--         Index Only Scan by namespace_access_namespace on namespace_access
